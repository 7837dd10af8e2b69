"""Which hosts a job gets."""

from __future__ import annotations

from dataclasses import dataclass

from standin import chunks, conf
from standin.chunks import Chunk


@dataclass
class Room:
    """What one host has left. A host that is down takes no job, a named one is waited for (facts §6)."""

    name: str
    up: bool
    ncpus: int


@dataclass
class Placed:
    """Where a job's chunks went; or `why` it cannot run, in the scheduler's words."""

    hosts: list[str]
    chunks: list[Chunk]
    why: str = ""


def place(select: str, how: str, rooms: list[Room]) -> Placed:
    """One host for each chunk, in order; several chunks may meet on a host unless they are to be scattered."""
    wanted = chunks.parse(select)
    words = chunks.places(how)
    size = conf.load().ncpus
    known = {room.name for room in rooms}
    for chunk in wanted:
        if chunk.host and chunk.host not in known:
            # `host=!a` and the like: accepted by qsub, and never run.
            return _never(f"Insufficient amount of resource: host ({chunk.wants.get('host', '')})")
        if chunk.ncpus > size:
            return _never(f"Insufficient amount of resource: ncpus (R: {chunk.ncpus} A: {size} T: {size})")
    if "scatter" in words and len(wanted) > len(rooms):
        return _never("Not enough total nodes available")
    free = [room for room in rooms if room.up and room.ncpus == size]
    left = {room.name: room.ncpus for room in free}
    hosts: list[str] = []
    for chunk in wanted:
        host = next((name for name in left if _fits(name, left[name], chunk, words, hosts)), None)
        if host is None:
            named = f"Insufficient amount of resource: host ({chunk.host})" if chunk.host else ""
            return Placed([], [], f"Not Running: {named or 'Not enough free nodes available'}")
        left[host] -= chunk.ncpus
        hosts.append(host)
    if "pack" in words and len(set(hosts)) > 1:
        return Placed([], [], "Not Running: Not enough free nodes available")
    return Placed(hosts, wanted)


def _fits(name: str, left: int, chunk: Chunk, words: set[str], taken: list[str]) -> bool:
    if chunk.host and chunk.host != name:
        return False
    return left >= chunk.ncpus and not ("scatter" in words and name in taken)


def _never(why: str) -> Placed:
    return Placed([], [], f"Can Never Run: {why}")
