"""Which state of the trainer's sources wrote a checkpoint."""

from __future__ import annotations

import subprocess
from pathlib import Path

LIMIT_S = 20  # a work tree on a parallel file system answers slowly


def of_sources(folder: Path) -> tuple[str, bool | None]:
    """The commit of the folder's work tree, and whether it has changes that no commit has; empty and None: unknown."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return "", None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit.strip(), None if changes is None else bool(changes.strip())


def _git(folder: Path, *words: str) -> str | None:
    try:
        # No lock: the user may commit at this moment.
        told = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout
