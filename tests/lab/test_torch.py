"""Training with torch on several hosts: FSDP over gloo, checkpoints by torch.distributed.checkpoint."""

from __future__ import annotations

import pytest
import torch_job
from harness import Lab


@pytest.mark.torch
def test_a_rank_that_dies_is_relaunched_where_all_were(lab: Lab) -> None:
    lab.faults({"kind": "kill", "rank": 2, "step": 30, "once": "killed"})
    torch_job.render(lab, words="--every 20", steps=60)
    job = lab.submit()
    lab.finish()
    assert lab.endings() == ["crash", "done"]
    lab.assert_resumed()
    losses = torch_job.losses(lab)
    assert sorted(losses) == list(range(1, 61))
    assert {len(found) for found in losses.values()} == {1}
    assert sum(lab.log(job).count(f"step: {step:2}  ") for step in losses) > 60  # some steps were made twice
