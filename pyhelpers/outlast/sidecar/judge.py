"""Which checkpoints are whole, over all nodes: outlast.checkpoint judges what agents have told.

What is added here is only who can still be heard: a node without an agent may have what is missing.
"""

import errno
import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from outlast.checkpoint import format as forms
from outlast.checkpoint import known
from outlast.checkpoint.format import Format, Look, Scene, Wanted
from outlast.checkpoint.listing import File, Snapshot
from outlast.sidecar.settings import Ranks
from outlast.sidecar.tables import Files, Listing, Part, Tables

Beside = Mapping[str, tuple[int, int]]  # path: bytes, time of change in ns


@dataclass(frozen=True)
class Entry:
    """What one host has of one checkpoint, and for how long nothing in it had changed at the time `seen_s`.

    Two of a host with the same `version` have the same files.
    """

    step: int
    files: Listing
    quiet_s: float
    seen_s: float
    version: int = 0

    @property
    def changed_s(self) -> float:
        """When it changed last, by our clock: the host's does not matter."""
        return self.seen_s - self.quiet_s


@dataclass(frozen=True)
class Rules:
    """What the job says of its checkpoints, and its launch."""

    complete: str
    quiet_s: float
    sharded: bool
    hosts: tuple[str, ...]  # of the launch, in the order of ranks
    ranks_per_node: int


@dataclass(frozen=True)
class Facts:
    """What a checkpoint is and must hold, as far as its files tell; it holds until one of them changes."""

    step: int
    format: Format
    wanted: Wanted
    world_size: int | None
    loss: float | None


@dataclass(frozen=True)
class Verdict:
    """What is known of one checkpoint. `torn`: it will not become whole any more unless a node comes back."""

    name: str
    step: int
    whole: bool
    torn: bool
    files: Files | None = None
    missing: tuple[str, ...] = ()  # what it lacks, in words
    differ: tuple[str, ...] = ()  # paths that several hosts have, with different sizes
    facts: Facts | None = None


def scene(rules: Rules, ranks: Ranks, now: float) -> Scene:
    """What the judge has to know around a checkpoint."""
    writer: Literal["running", "done", "gone"] = "gone"
    if ranks.running:
        writer = "running"
    elif ranks.code == 0:
        writer = "done"
    world = len(rules.hosts) * rules.ranks_per_node
    hosts = (rules.hosts, rules.ranks_per_node)
    return Scene(now, rules.quiet_s, writer, ranks.ended_s, world, rules.complete, *hosts)


class _Copies(Mapping[str, Mapping[str, File]]):
    """A checkpoint's files over all hosts, each made when it is asked for: there may be 100,000."""

    def __init__(self, name: str, files: Files, entries: Mapping[str, Entry]) -> None:
        self._name = name
        self._files = files
        self._entries = entries

    def __getitem__(self, path: str) -> Mapping[str, File]:
        if not (copies := self._files.copies(path)):
            raise KeyError(path)
        return {part.host: self._file(path, part) for part in copies}

    def _file(self, path: str, part: Part) -> File:
        changed_s = self._entries[part.host].changed_s
        return File(f"{self._name}/{path}", part.size, min(part.mtime_ns / 1e9, changed_s))

    def __contains__(self, path: object) -> bool:
        return path in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def join(tables: Tables, entries: Mapping[str, Entry], hosts: tuple[str, ...]) -> Files:
    """The files of all hosts. The first of these hosts, in the order of ranks, gives a file that several have."""
    rank = {host: number for number, host in enumerate(hosts)}
    order = sorted(entries, key=lambda host: (rank.get(host, len(rank)), host))
    return tables.join({host: entries[host].files for host in order})


def snapshot(name: str, files: Files, entries: Mapping[str, Entry], beside: Mapping[str, Beside]) -> Snapshot:
    """A checkpoint over all hosts; `beside` are the plain files around it, by host."""
    around: dict[str, dict[str, File]] = {}
    for host, plain in beside.items():
        for path, (size, mtime_ns) in plain.items():
            around.setdefault(path, {})[host] = File(path, size, mtime_ns / 1e9)
    is_file = len(files) == 1 and name in files
    newest_s = max(entry.changed_s for entry in entries.values())
    copies = _Copies(name, files, entries)
    return Snapshot(name, copies, around, is_file, newest=newest_s, inside=copies)


def place(
    path: str, name: str, entries: Mapping[str, Entry], beside: Mapping[str, Beside], hosts: tuple[str, ...]
) -> tuple[str, str, str, int, int]:
    """Which of these hosts, that can be asked, has a file of the folder of checkpoints, and how it was listed.

    The first in the order given. Raises: OSError: none.
    """
    top, _, inside = path.partition("/")
    for host in hosts:
        if top == name and host in entries and (info := entries[host].files.get(inside or top)):
            return host, name, inside or top, *info
        if top != name and not inside and (info := beside.get(host, {}).get(top)):
            return host, "", top, *info
    raise OSError(errno.EHOSTUNREACH, f"{path}: {os.strerror(errno.EHOSTUNREACH)}")


def facts(there: Snapshot, prefix: str, look: Look, around: Scene) -> Facts | None:
    """What this checkpoint is; None: it is none."""
    found = known.of(there, prefix)
    if found is None:
        return None
    wanted = found.format.wanted(there, look, around)
    world = found.format.world(there, look) or around.world
    return Facts(found.step, found.format, wanted, world, found.format.loss(there, look))


def judge(
    of: Facts,
    there: Snapshot,
    files: Files,
    heard: Container[str],  # the hosts that have told what they have of it
    rules: Rules,
    around: Scene,
    absent: frozenset[str],  # hosts of the launch that are not there
    late: frozenset[str],  # those of them that will not be waited for
) -> Verdict:
    """The verdict on one checkpoint."""
    differ = files.differ()
    told = forms.judge(of.wanted, there, around)
    silent = frozenset(host for host in absent if host not in heard) if of.wanted.all_nodes else frozenset()
    missing = told.missing or (told.reason,)
    if told.state == "complete":
        missing = tuple(f"{path} differs from node to node" for path in differ) if rules.sharded else ()
        if rules.sharded and silent & late:
            missing = missing or tuple(f"{host} is gone" for host in sorted(silent & late))
        if not missing:
            return Verdict(there.name, of.step, not silent - late, False, files, (), differ, of)
    over = around.writer != "running" and not absent - late  # nobody is left who could still have what is missing
    return Verdict(there.name, of.step, False, over, files, missing, differ, of)
