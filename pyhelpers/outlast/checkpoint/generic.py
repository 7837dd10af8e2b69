"""Any other checkpoint: an entry PREFIX-and-number that is complete with its marker file, or when it is at rest."""

from __future__ import annotations

import re

from outlast.checkpoint.format import Look, Need, Reshard, Resume, Scene, Wanted
from outlast.checkpoint.listing import Snapshot

NAME = "generic"
# What ends a name: a number, and an ending for a file. `events.out.123` is no checkpoint.
_STEP = re.compile(r"(?:step|ckpt|checkpoint|iter|epoch|global_step|model)[-_=]?([0-9]+)(?:\.[A-Za-z]+)?")
_UNREADABLE = "only the trainer can read it"


def step(snapshot: Snapshot) -> int | None:
    """The number at the end of its name."""
    found = _STEP.fullmatch(snapshot.name)
    return int(found[1]) if found else None


def fits(snapshot: Snapshot) -> bool:
    """Whatever it holds."""
    return True


def wanted(snapshot: Snapshot, look: Look, scene: Scene) -> Wanted:
    """The marker that the job names; without one, rest is all the proof there is."""
    if snapshot.is_file:
        return Wanted({snapshot.name: Need(at_least=1)}, quiet=True, all_nodes=True)
    if not snapshot.paths():
        return Wanted({"(any file)": Need()}, all_nodes=True)
    return Wanted(quiet=not scene.marker, all_nodes=True)


def loss(snapshot: Snapshot, look: Look) -> float | None:
    """Unknown."""
    return None


def world(snapshot: Snapshot, look: Look) -> int | None:
    """Unknown."""
    return None


def resume(snapshot: Snapshot) -> Resume:
    """By its path, in the words of the preset."""
    return Resume("path", snapshot.name)


def reshard(snapshot: Snapshot, look: Look) -> Reshard:
    """Unknown."""
    return Reshard("unknown", _UNREADABLE)


def lacks(snapshot: Snapshot, look: Look, scene: Scene) -> list[str]:
    """Nobody knows."""
    return [f"{_UNREADABLE}, so nothing is known"]
