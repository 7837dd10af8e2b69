"""The folder of a lab, and a process that ends the lab when the tests do, also when they are killed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LAB = Path(__file__).resolve().parent / "lab"
# The pipe on stdin closes with the process that made the lab, however that one ends.
WATCH = 'read -r; status=0; [[ ! -e $2/lab ]] || "$1" --dir "$2" down || status=$?; rm -rf -- "$2"; exit "$status"'


@contextmanager
def lab_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder for `lab --dir`; afterwards neither it nor the lab in it is there."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    # In a session of its own: Ctrl-C ends the tests, not the one that cleans up after them.
    warden = subprocess.Popen(
        ["/bin/bash", "-c", WATCH, "warden", str(LAB), str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield folder
    finally:
        warden.communicate(timeout=120)
        assert warden.returncode == 0, f"lab down in {folder}: status {warden.returncode}"
