"""make bench: what outlast costs, each figure beside one of the same minute that needs no outlast.

Prints the table of docs/benchmarks.md; takes a quiet machine and about five minutes, half an hour for the copies of
8 GB (OUTLAST_BENCH_GB), and half an hour for the faults, which only root can cause.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import commands
import copies
import jobs
import logs


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """A Markdown table: what, ours, beside it, ratio."""
    head = ("what", "outlast", "beside it", "ratio")
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * 4, *rows))


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
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        rows = [commands.render(root)]
        rows += jobs.turns(root, Path(folder) / "turns")
        rows += jobs.beside(root, Path(folder) / "beside")
        rows += [*logs.rows(Path(folder), [0.2, 2]), logs.memory(Path(folder))]
    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir=os.environ.get("OUTLAST_BENCH_DIR")) as folder:
        rows += copies.rows(Path(folder))
    print(table(rows), flush=True)
    after_faults(root)


if __name__ == "__main__":
    main()
