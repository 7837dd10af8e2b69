"""make bench: what outlast costs, each figure beside one of the same minute that needs no outlast.

Prints the table of docs/benchmarks.md; takes about five minutes, and a quiet machine.
"""

import tempfile
from pathlib import Path

import commands
import jobs
import logs


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """A Markdown table: what, ours, beside it, ratio."""
    head = ("what", "outlast", "beside it", "ratio")
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * 4, *rows))


def main() -> None:
    """Measure everything and print the table."""
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        rows = [commands.render(root)]
        rows += jobs.turns(root, Path(folder) / "turns")
        rows += jobs.beside(root, Path(folder) / "beside")
        rows += [*logs.rows(Path(folder), [0.2, 2]), logs.memory(Path(folder))]
    print(table(rows))


if __name__ == "__main__":
    main()
