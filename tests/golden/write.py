"""Write tests/golden/SITE/JOB.sh for every job of every site, and docs/scenarios.md: what `make golden` does.

Their tools, the text of lib/, are left out: each has tests of its own.
"""

import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "pyhelpers"), str(HERE.parent / "py"), str(HERE.parent / "lab")]

import scenarios  # noqa: E402
import trees  # noqa: E402

from outlast import site, tree  # noqa: E402


def main(folder: Path) -> None:
    """Write them all anew; a job that is gone leaves no script behind."""
    root = trees.outline(tree.root(), folder)
    for old in HERE.glob("*/"):
        shutil.rmtree(old)
    for name in site.names(root):
        (HERE / name).mkdir()
        for job in site.jobs(root, name):
            (HERE / name / f"{job}.sh").write_text(trees.golden(root, name, job))


(HERE.parents[1] / "docs/scenarios.md").write_text(scenarios.collected())
with tempfile.TemporaryDirectory() as folder:
    main(Path(folder))
