"""Who is behind in a hang: the flight recorders of its ranks, compared.

Each rank numbers the collectives of each of its process groups. In a hang nothing moves any more, so whoever has begun
fewer than the others of its group is waited for; unless it waits itself, for somebody in another group.

Source: PyTorch, "Flight Recorder for Debugging Stuck Jobs" (the form of a dump, version 2.5; where it is JSON numbers
are strings) and torch/csrc/distributed/c10d/FlightRecorder.hpp: `pg_status` is by the rank's own number of a group,
`pg_config` by its name, and each of `entries` has both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.checkpoint import pickles
from outlast.refused import Refused

MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class Group:
    """A process group: its name, the ranks in it, and how many collectives each of those that are known has begun."""

    name: str
    ranks: frozenset[int]
    begun: dict[int, int]

    @property
    def first(self) -> int:
        """The most that any has begun."""
        return max(self.begun.values())


@dataclass(frozen=True)
class Found:
    """`behind`: the ranks that are waited for, by group. `silent`: those of the groups of which there is no dump."""

    groups: list[Group]
    behind: dict[int, list[str]]
    silent: frozenset[int]
    unread: list[str]


def read(path: Path) -> dict[str, Any]:
    """A dump, a pickle or JSON.

    Raises: ValueError: it is none. OSError
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError("too large")
    dump = json.loads(content) if content[:1] == b"{" else pickles.loads(content)
    if not isinstance(dump, dict) or not isinstance(dump.get("pg_status"), dict):
        raise ValueError("no dump of a flight recorder with pg_status (PyTorch 2.5 or newer)")
    return dump


def begun(rank: int, dump: dict[str, Any]) -> dict[str, int]:
    """How many collectives the rank has begun in each of its groups, by the group's name."""
    config = _names(dump)
    names = {str(e.get("pg_id")): _name(e) for e in dump.get("entries") or () if isinstance(e, dict)}
    counts, all_named = dict[str, int](), True
    for number, status in dump["pg_status"].items():
        name = names.get(str(number)) or (config[0] if len(config) == 1 else "")
        count = _number(status.get("last_enqueued_collective")) if isinstance(status, dict) else None
        if name and count is not None:
            counts[name] = count
        else:
            all_named = False  # its entries have left the ring
    # A group is in pg_status from its first collective on.
    idle = {name: -1 for name in config if all_named and rank in members(dump, name)}
    return idle | counts


def _names(dump: dict[str, Any]) -> list[str]:
    config = dump.get("pg_config")
    return [str(name) for name in config] if isinstance(config, dict) else []


def _name(entry: dict[str, Any]) -> str:
    group = entry.get("process_group")
    return str(group[0]) if isinstance(group, (tuple, list)) and group else ""


def _number(value: object) -> int | None:
    # -1: it has begun none.
    return int(str(value)) if re.fullmatch(r"-?[0-9]{1,18}", str(value)) else None


def members(dump: dict[str, Any], name: str) -> frozenset[int]:
    """The ranks of a group, as the dump has them: `"[0, 1]"`."""
    config = dump.get("pg_config")
    group = config.get(name) if isinstance(config, dict) else None
    ranks = str(group.get("ranks", "")) if isinstance(group, dict) else ""
    return frozenset(int(rank) for rank in re.findall(r"\d{1,9}", ranks))


def compare(dumps: dict[int, dict[str, Any]], unread: list[str] | None = None) -> Found:
    """Who is waited for, of the dumps by rank."""
    counts = {rank: begun(rank, dump) for rank, dump in dumps.items()}
    groups = []
    for name in sorted({name for known in counts.values() for name in known}):
        of = {rank: known[name] for rank, known in counts.items() if name in known}
        groups.append(Group(name, frozenset().union(*(members(dumps[rank], name) for rank in of), of), of))
    late: dict[int, list[str]] = {}
    waits: set[int] = set()
    for group in groups:
        least = min(group.begun.values())
        for rank, count in group.begun.items():
            if count < group.first:
                late.setdefault(rank, []).append(group.name)
            if count > least:
                waits.add(rank)
    silent = frozenset[int]().union(*(group.ranks for group in groups)) - dumps.keys()
    return Found(groups, {rank: late[rank] for rank in sorted(late) if rank not in waits}, silent, unread or [])


def look(folder: Path) -> Found:
    """The same of a folder with files that end in their rank: `flight.3`, or as PyTorch names them.

    Raises: Refused: there are none.
    """
    dumps: dict[int, dict[str, Any]] = {}
    unread = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        rank = re.fullmatch(r"(?:flight\.|.*[^0-9])([0-9]{1,9})", path.name)
        if not rank or not path.is_file():
            continue
        try:
            dumps[int(rank[1])] = read(path)
        except (ValueError, OSError) as err:
            unread.append(f"{path.name}: {err}")
    if not dumps and not unread:
        where = "name the folder of a hang: RUN/stacks/JOB.RESTART.ATTEMPT"
        raise Refused(f"{folder}: no dump of a flight recorder (flight.RANK) in it; {where}")
    return compare(dumps, unread)


def words(found: Found) -> str:
    """For programs: `behind RANK`, `silent RANK`, a line each; `unread COUNT`, if any."""
    lines = [f"behind {rank}" for rank in found.behind] + [f"silent {rank}" for rank in sorted(found.silent)]
    return "\n".join([*lines, *([f"unread {len(found.unread)}"] if found.unread else [])])


def text(found: Found) -> str:
    """For a person: the groups with who is behind in them, and who is waited for."""
    lines = []
    for group in found.groups:
        late = {rank: count for rank, count in sorted(group.begun.items()) if count < group.first}
        said = f"{len(group.begun)} of {len(group.ranks)} ranks, collective {group.first}"
        if late:
            said += f"; behind: {_some(f'rank {rank} at {count}' for rank, count in late.items())}"
        lines.append(f"group {group.name}: {said}")
    if found.behind:
        lines.append(f"waited for: {_some(f'rank {rank}' for rank in found.behind)}")
    else:
        lines.append("waited for: nobody is behind the others")
    if found.silent:
        lines.append(f"no dump of: {_some(f'rank {rank}' for rank in sorted(found.silent))}")
    lines += [f"not read: {each}" for each in found.unread[:16]]
    if len(found.unread) > 16:
        lines.append(f"not read: {len(found.unread) - 16} more")
    return "\n".join(lines)


def _some(texts: Iterable[str], most: int = 16) -> str:
    all_of = list(texts)
    return ", ".join(all_of[:most]) + (f" and {len(all_of) - most} more" if len(all_of) > most else "")
