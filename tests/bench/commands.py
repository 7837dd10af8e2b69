"""How long commands take."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 20

Row = tuple[str, str, str, str]


def row(what: str, ours_s: float, bare_s: float, against: str) -> Row:
    """A line of the table for two durations."""
    return what, f"{ours_s * 1000:.0f} ms", f"{bare_s * 1000:.0f} ms, {against}", f"{ours_s / bare_s:.2f}"


def seconds(command: list[str]) -> float:
    """How long a command takes that must succeed."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def render(root: Path) -> Row:
    """bin/render beside a Python that imports jinja2 and ends; in turns, so that both meet the same machine."""
    ours = [str(root / "bin/render"), "frontier", "1b-32n", "--account", "abc123"]
    bare = [sys.executable, "-c", "import jinja2"]
    seconds(ours), seconds(bare)  # fill the caches
    pairs = [(seconds(ours), seconds(bare)) for _ in range(ROUNDS)]
    ours_s, bare_s = (statistics.median(times) for times in zip(*pairs, strict=True))
    return row("`bin/render frontier 1b-32n`", ours_s, bare_s, "`python -c 'import jinja2'`")
