"""Training with torch on several hosts: FSDP over gloo, checkpoints by torch.distributed.checkpoint on their disks."""

from __future__ import annotations

import json

import pytest
import torch_job
from harness import Lab, wait_for, waits

# So slow that a checkpoint of this size is under way for some seconds.
SLOW = ("checkpoint.bandwidth_mib_s=1", "checkpoint.max_writers=1")
SIZE = "--size 2000000 --step-s 0.05"


def assert_each_step_has_one_loss(lab: Lab, steps: int) -> None:
    """Whatever was made twice came out the same: each launch has loaded exactly what was saved."""
    losses = torch_job.losses(lab)
    assert sorted(losses) == list(range(1, steps + 1))
    assert {len(found) for found in losses.values()} == {1}, losses


def part(lab: Lab, job: str, host: int, step: int) -> str:
    """What is on a host of its rank's part: bytes, name."""
    look = f"find /mnt/bb /tmp /dev/shm -path '*/checkpoints/step-{step}/*.distcp' -printf '%s %f\\n' 2>/dev/null"
    return lab.root(lab.host_of(job, host), "bash", "-c", look, check=False).strip()


@pytest.mark.torch
@pytest.mark.seldom
def test_the_deadline_comes_in_mid_copy_and_then_a_rank_is_killed_in_mid_save(lab: Lab) -> None:
    torch_job.render(lab, *SLOW, "checkpoint.stage_in=own-shards", words=f"--every 40 --async-save {SIZE}", steps=480)
    lab.faults(waits(50))
    first = lab.submit()
    lab.wait_event("checkpoint_local", 90)
    lab.end_in(first, 75)  # all but some seconds of it is margin: training goes on to another checkpoint
    lab.faults()
    ended = lab.wait_event("ended", 60)
    assert ended["class"] == "walltime"
    lab.faults({"kind": "wait", "rank": 0, "after": 5})
    job = lab.successor(first)
    again = lab.wait_event("launched", 120, job=job)
    (written,) = lab.events("checkpoint_durable", job=first, step=again["step"])
    assert written["t"] > ended["t"]
    assert again["step"] == max(event["step"] for event in lab.events("checkpoint_local", job=first))

    torn = again["step"] + 80
    lab.faults({"kind": "slow_save", "rank": 2, "step": torn, "once": "stuck"})
    wait_for((lab.on_disk(lab.project) / "stuck").exists, 120, "the middle of a save")
    assert part(lab, job, 2, torn) == "10 __2_0.distcp"
    lab.root(lab.host_of(job, 2), "pkill", "-KILL", "-f", f"^[^ ]*python -u {torch_job.TRAINER}")
    third = lab.wait_event("launched", 60, job=job, attempt=2)
    assert not lab.events("checkpoint_durable", step=torn)
    assert again["step"] <= third["step"] < torn
    lab.finish()
    assert lab.endings() == ["walltime", "crash", "done"]
    lab.assert_resumed()
    assert_each_step_has_one_loss(lab, 480)
    folder = lab.folder / "checkpoints/step-480"
    assert json.loads((folder / "MANIFEST.json").read_text())["versions"]["torch"].startswith("2.")
    assert {path.name for path in folder.iterdir()} == {
        ".metadata",
        "MANIFEST.json",
        *(f"__{n}_0.distcp" for n in range(4)),
    }


@pytest.mark.torch
@pytest.mark.only("slurm", "a dead sister is found by PBS after minutes")
@pytest.mark.hosts(5)
def test_a_host_is_lost_in_mid_copy_and_one_that_has_nothing_takes_its_place(lab: Lab) -> None:
    # A copy takes longer than the ledger's events may be late, and training waits for what happens.
    torch_job.render(lab, *SLOW, "successor=launch", words="--every 80 --size 4000000 --step-s 0.05", steps=320)
    lab.faults({"kind": "hang", "rank": 0, "step": 250, "once": "waits"})
    job = lab.submit()
    lab.wait_event("checkpoint_durable", 120)
    dead = lab.host_of(job, 3)  # the last to be copied from
    lab.wait_step("checkpoint_local", 81)
    lab.command("off", dead)
    lab.faults()  # it may be lost before any rank has come so far: the next job shall not wait there
    again = lab.wait_event("launched", lab.detected_s, job=lab.successor(job))
    assert dead not in lab.hosts(again)
    assert again["step"] == lab.events("checkpoint_durable", job=job)[-1]["step"]
    assert again["step"] < max(event["step"] for event in lab.events("checkpoint_local", job=job))
    lab.finish()
    assert lab.endings()[-1] == "done"
    lab.assert_resumed()
    assert_each_step_has_one_loss(lab, 320)
