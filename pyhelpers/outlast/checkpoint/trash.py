"""Removal in two steps: renamed at once, so that nothing half removed is ever offered; gone after a time of grace.

What waits lies beside the checkpoints, as .removed-NAME.UNTIL; where a job has put it there, with .job behind it: of
these a few wait at most, and none when room is needed. lib/retention.sh does the same.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from outlast.checkpoint import manifest

_NAME = re.compile(r"\.removed-(.+)\.([0-9]+)(\.job)?")
GRACE_S = 24 * 3600  # of what a person removes
WAITING = 2  # so many of a job's: a grace of hours must not cost the room of dozens


@dataclass(frozen=True)
class Waiting:
    """A checkpoint that waits: its name, UTC seconds until which it does, and whether a job put it there."""

    path: Path
    name: str
    until: int
    by_job: bool


def put(checkpoint: Path, until: float, by_job: bool = False) -> Path:
    """Where the checkpoint lies now, with the manifest of a file beside it.

    Raises: OSError.
    """
    target = checkpoint.with_name(f".removed-{checkpoint.name}.{int(until)}{'.job' if by_job else ''}")
    _rename(checkpoint, target)
    return target


def restore(path: Path, target: Path) -> Path:
    """The checkpoint under its own name again, from wherever it was put.

    Raises: FileExistsError: that is taken; OSError.
    """
    if target.exists() or target.is_symlink():
        raise FileExistsError(17, "is there already", str(target))
    _rename(path, target)
    return target


def _rename(path: Path, target: Path) -> None:
    """The manifest of a file goes first: without one a checkpoint is none of ours, wherever it lies."""
    if not path.is_dir() and manifest.paper(path).exists():
        manifest.paper(path).rename(manifest.paper(target))
    path.rename(target)


def sweep(folder: Path, now: float) -> list[str]:
    """The names of those whose time was over, or which are too many of a job's, and which are gone now.

    Raises: OSError: the folder can't be read; one that can't be removed stays for the next time.
    """
    there = waiting(folder)
    of_job = sorted((one for one in there if one.by_job), key=lambda one: (one.until, one.name))
    over = {one.path for one in there if one.until <= now} | {one.path for one in of_job[:-WAITING]}
    return [one.name for one in there if one.path in over and _remove(one.path)]


def make_room(folder: Path) -> list[str]:
    """The names of a job's that waited, and are gone now: the room is needed.

    Raises: OSError: the folder can't be read.
    """
    return [one.name for one in waiting(folder) if one.by_job and _remove(one.path)]


def _remove(path: Path) -> bool:
    """Is it gone? Under another name first: nobody may have back what is half removed."""
    doomed = path.with_name(f".trash-{path.name.removeprefix('.removed-')}")
    shutil.rmtree(doomed, ignore_errors=True)
    paper = None if path.is_dir() else manifest.paper(path)
    try:
        path.rename(doomed)
        if doomed.is_dir():
            shutil.rmtree(doomed, ignore_errors=True)
        else:
            doomed.unlink()
        if paper is not None:
            paper.unlink(missing_ok=True)
    except OSError:
        return False
    return not doomed.exists()


def waiting(folder: Path) -> list[Waiting]:
    """What waits there, by name and time."""
    found = [(path, _NAME.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    return [Waiting(path, one[1], int(one[2]), bool(one[3])) for path, one in found if one]
