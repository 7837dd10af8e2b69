"""Checkpoints in parts, each on the disk of its own node, and a launch from one step on all of them."""

from __future__ import annotations

import pytest
from harness import CHECKOUT, HERE, Lab

pytestmark = pytest.mark.only("slurm", "the PBS machine has no disks on its nodes")


def render(lab: Lab, *options: str, steps: int = 100, every: int = 20, nodes: int = 4) -> None:
    """A job with one rank on each of its nodes."""
    text = (
        (HERE / "sharded.py")
        .read_text()
        .replace("import numpy", f"sys.path.insert(0, {str(CHECKOUT / 'pyhelpers')!r})\n\nimport numpy", 1)
    )
    lab.write("sharded.py", text)
    command = f"python3 -u sharded.py {{ckpt_dir}} --steps {steps} --every {every}"
    words = ["preset=torchtitan", f"command={command}", f"nodes={nodes}", "ranks_per_node=1"]
    words += [f"progress.target_step={steps}", "checkpoint.copier=agents", "deadline.startup_s=30", *options]
    lab.render(*(word for text in words for word in ("--set", text)))


def durable(lab: Lab) -> list[int]:
    """The steps that are durable, in order."""
    found = (lab.folder / "checkpoints").glob("step-*/MANIFEST.json")
    return sorted(int(path.parent.name.removeprefix("step-")) for path in found)


def test_a_chain_of_jobs_trains_on_parts_of_four_nodes(lab: Lab) -> None:
    render(lab, "deadline.train_at_most_s=20", steps=250)
    lab.submit()
    lab.finish(240)
    assert lab.endings()[0] == "walltime"
    assert lab.endings()[-1] == "done"
    lab.assert_resumed()
    assert durable(lab)[-1] == 240
    assert sorted(path.name for path in (lab.folder / "checkpoints/step-240").iterdir()) == [
        ".metadata",
        "MANIFEST.json",
        *(f"__{rank}_0.distcp" for rank in range(4)),
    ]
