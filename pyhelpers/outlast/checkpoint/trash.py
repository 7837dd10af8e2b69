"""Removal in two steps: renamed at once, so that nothing half removed is ever offered; gone after a time of grace."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from outlast.checkpoint import manifest

# lib/checkpoint.sh empties its own .trash-* whenever it prunes: what has a time of grace is called otherwise.
_NAME = re.compile(r"\.removed-(.+)\.([0-9]+)")
GRACE_S = 24 * 3600


def put(checkpoint: Path, now: float) -> Path:
    """Where the checkpoint lies now, with the manifest of a file beside it.

    Raises: OSError.
    """
    target = checkpoint.with_name(f".removed-{checkpoint.name}.{int(now)}")
    beside = None if checkpoint.is_dir() else manifest.paper(checkpoint)
    checkpoint.rename(target)
    if beside is not None and beside.exists():
        beside.rename(manifest.paper(target))
    return target


def sweep(folder: Path, now: float, grace_s: float = GRACE_S) -> list[str]:
    """The names of those whose time was over, and which are gone now.

    Raises: OSError: the folder can't be read; one that can't be removed stays for the next time.
    """
    gone = []
    for path in sorted(folder.iterdir()):
        found = _NAME.fullmatch(path.name)
        if found is None or now - int(found[2]) < grace_s:
            continue
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        if not path.exists():
            manifest.paper(path).unlink(missing_ok=True)
            gone.append(found[1])
    return gone


def waiting(folder: Path) -> list[tuple[str, int]]:
    """What waits there: name, and when it was put there."""
    found = [_NAME.fullmatch(path.name) for path in sorted(folder.iterdir())]
    return [(one[1], int(one[2])) for one in found if one]
