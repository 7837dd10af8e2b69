"""A command under the supervisor in an allocation that somebody has opened at a terminal."""

from __future__ import annotations

import pytest
from harness import CHECKOUT, Lab


@pytest.mark.extra
@pytest.mark.only("slurm", "its interactive job is a terminal's, which the lab has none of")
def test_launch_trains_in_an_open_allocation_and_submits_nothing(lab: Lab) -> None:
    keys = ("run=train", "account=abc123", "preset=hf", "checkpoint.quiet_s=1", "progress.target_step=40")
    steps = "--max_steps {target_step} --save_steps 20 --logging_steps 5 --eval_steps 0 --step_time 0.1"
    train = f"python3 -u train.py --output_dir {{ckpt_dir}} {steps} {{resume}}"
    shell = f"{CHECKOUT}/bin/outlast launch {' '.join(f'--set {key}' for key in keys)} -- {train}"
    where = ["salloc", "--quiet", "-N", "2", "-t", "20", "-A", "abc123", "-p", "extended"]
    on_node = ["srun", "--overlap", "--nodes=1", "--ntasks=1", "bash", "-l", "-c", shell]
    shown = lab.alice(*where, *on_node, limit_s=150)
    assert lab.endings() == ["done"], shown
    assert len(lab.hosts(lab.events("launched")[0])) == 2
    assert lab.durable_steps()[-1] == 40
    assert not lab.events("submitted")
    lab.wait_until_empty()
