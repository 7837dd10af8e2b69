"""What a job asks for: `-l select=2:ncpus=8:mpiprocs=2+1:host=a -l place=scatter`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from standin.codes import Code, Refused

# What a chunk may name; a site can add its own.
KNOWN = {"ncpus", "mpiprocs", "ompthreads", "mem", "vmem", "ngpus", "host", "vnode", "arch", "system"}
PLACES = {"free", "pack", "scatter", "vscatter", "excl", "exclhost", "shared"}


@dataclass(frozen=True)
class Chunk:
    """One of the pieces that a job gets, all of it on one host."""

    wants: dict[str, str] = field(default_factory=dict)

    @property
    def ncpus(self) -> int:
        return int(self.wants.get("ncpus", "1"))

    @property
    def mpiprocs(self) -> int:
        """How many lines of the nodefile it is; 1 unless said (facts §4, PBS_NODEFILE)."""
        return int(self.wants.get("mpiprocs", "1"))

    @property
    def host(self) -> str:
        """The only host that will do, in any case of letters; empty: any."""
        return (self.wants.get("host") or self.wants.get("vnode") or "").lower()


def parse(select: str) -> list[Chunk]:
    """The chunks, in order. Raises: Refused: with what qsub says (facts §7, Directives; §6, Choosing)."""
    chunks: list[Chunk] = []
    for part in select.split("+"):
        words = part.split(":")
        count = int(words.pop(0)) if words[0].isdigit() else 1
        wants: dict[str, str] = {}
        for word in words:
            found = re.fullmatch(r"(\w+)=(.+)", word)
            if not found:
                raise Refused(Code.BAD_VALUE, "Illegal attribute or resource value Resource_List.select")
            if found[1] not in KNOWN:
                raise Refused(Code.UNKNOWN_RESOURCE, f"Unknown resource: {found[1]}")
            wants[found[1]] = found[2]
        chunks += [Chunk(wants)] * count
    if not chunks:
        raise Refused(Code.BAD_VALUE, "Illegal attribute or resource value Resource_List.select")
    return chunks


def of_nodes(nodes: str) -> str:
    """The select that the old `nodes=2:ppn=3` becomes (facts §4)."""
    count, _, rest = nodes.partition(":")
    ppn = rest.removeprefix("ppn=") or "1"
    return f"{count}:ncpus={ppn}:mpiprocs={ppn}"


def places(text: str) -> set[str]:
    """The words of a `place`. Raises: Refused: one is unknown."""
    words = {word.partition("=")[0] for word in text.split(":")}
    if not words <= PLACES | {"group"}:
        raise Refused(Code.BAD_VALUE, "Illegal attribute or resource value Resource_List.place")
    return words
