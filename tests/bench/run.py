"""make bench: what outlast costs, each figure beside one of the same minute that needs no outlast.

Prints the table of docs/benchmarks.md; takes a quiet machine and about five minutes, half an hour for the copies of
8 GB (OUTLAST_BENCH_GB), and half an hour for the faults, which only root can cause.
"""

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import commands
import copies
import jobs
import logs
from commands import Row


def table(rows: Iterable[Row]) -> None:
    """Print a Markdown table, each row when it is measured: what, ours, beside it, ratio."""
    head = ("what", "outlast", "beside it", "ratio")
    for cells in itertools.chain((head, ("---",) * 4), rows):
        print("| " + " | ".join(cells) + " |", flush=True)


def measured(root: Path) -> Iterator[Row]:
    """All rows that need no lab."""
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        yield commands.render(root)
        yield from jobs.turns(root, Path(folder) / "turns")
        yield from jobs.beside(root, Path(folder) / "beside")
        yield from logs.rows(Path(folder), [0.2, 2])
        yield logs.memory(Path(folder))
    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir=os.environ.get("OUTLAST_BENCH_DIR")) as folder:
        yield from copies.rows(Path(folder))


def after_faults(root: Path) -> None:
    """Print the rows of what is measured in the lab."""
    if os.geteuid():
        print("bench: only root can have a lab: how long a fault holds the training up is left out", file=sys.stderr)
        return
    environ = os.environ | {"PYTHONPATH": f"{root / 'pyhelpers'}:{root / 'tests/lab'}"}
    subprocess.run([root / "tests/lab/install"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, root / "tests/bench/recovery.py"], check=True, env=environ)


def main() -> None:
    """Measure everything and print the table."""
    root = Path(__file__).resolve().parents[2]
    table(measured(root))
    after_faults(root)


if __name__ == "__main__":
    main()
