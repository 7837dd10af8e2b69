"""Write tests/golden/SITE/JOB.sh for every job of every site: what `make golden` does."""

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "pyhelpers"), str(HERE.parent / "py")]

import trees  # noqa: E402

from outlast import config, render, site, tree  # noqa: E402


def main() -> None:
    """Write them all anew; a job that is gone leaves no script behind."""
    root = tree.root()
    for old in HERE.glob("*/"):
        shutil.rmtree(old)
    for name in site.names(root):
        (HERE / name).mkdir()
        for job in site.jobs(root, name):
            plan = config.plan(root, name, job, Path(os.devnull), {"account": "ABC123"})
            (HERE / name / f"{job}.sh").write_text(render.script(plan, root, trees.INSTALL))


main()
