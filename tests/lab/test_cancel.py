"""Somebody ends the job from outside: in every form, in every phase. Nothing may follow by itself."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from harness import Lab, LabError, wait_for, waits
from scenarios import extra

# Nobody waits for its end: it is longer than anything here takes.
LONGER = ("--set", "progress.target_step=6000")

EXTRA = pytest.mark.extra


def slurms(form: str, *marks: Any) -> Any:
    why = "PBS knows no steps, and signals all of the first host"
    return pytest.param(form, marks=[pytest.mark.only("slurm", why), *marks])


# A person's word to the job, or to a part of it (Lab.end).
FORMS = [
    *("default", extra("root"), extra("signal")),
    *(slurms("batch", EXTRA), slurms("full", EXTRA), slurms("step", EXTRA), slurms("step-signal")),
]


def assert_over(lab: Lab, job: str) -> None:
    """The job ended as cancelled, and no other will train."""
    ended = lab.wait_event("ended", 45, job=job)
    assert ended["class"] == "cancelled", ended
    lab.wait_until_empty()
    assert {e["job"] for e in lab.events("launched")} <= {job}
    assert not (lab.folder / "finished").exists()
    assert lab.events("excluded") == []


def assert_removed(lab: Lab, successor: str) -> None:
    """It was taken out of the queue; that it had started and found out would be the second line of defence."""
    assert lab.verdict(successor) == "cancelled"
    assert lab.events(job=successor) == []


@pytest.mark.parametrize("form", FORMS)
def test_scancel_while_training(lab: Lab, form: str) -> None:
    lab.render(*LONGER)
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.end(job, form)
    assert_over(lab, job)
    assert lab.successors(job) == []
    assert "outlast resume" in lab.log(job)


@pytest.mark.parametrize("form", ["default", slurms("batch", EXTRA), slurms("step-signal", EXTRA)])
def test_scancel_while_training_takes_the_insurance_along(lab: Lab, form: str) -> None:
    lab.render(*LONGER, "--set", "successor=launch")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    insurance = lab.successor(job)
    lab.end(job, form)
    assert_over(lab, job)
    assert_removed(lab, insurance)


@pytest.mark.seldom
def test_scancel_before_the_launch(lab: Lab) -> None:
    lab.render(*LONGER, "--set", 'prepare=["sleep 600"]')
    job = lab.submit()
    lab.wait_event("started")
    lab.end(job)
    assert_over(lab, job)
    assert lab.events("launched") == []


@pytest.mark.seldom
def test_scancel_before_the_ranks_have_met(lab: Lab) -> None:
    lab.faults({"kind": "slow_start", "seconds": 600})
    lab.render(*LONGER)
    job = lab.submit()
    lab.wait_event("launched")
    lab.end(job)
    assert_over(lab, job)


@pytest.mark.seldom
def test_scancel_in_a_save_leaves_no_torn_checkpoint(lab: Lab) -> None:
    lab.faults({"kind": "slow_save", "seconds": 600, "step": 40})
    lab.render(*LONGER)
    job = lab.submit()
    lab.wait_event("checkpoint_durable", step=20)
    wait_for(lambda: "checkpoint-40" in " ".join(lab.saves(job)), 30, "a save to begin")
    lab.end(job)
    assert_over(lab, job)
    assert lab.durable_steps() == [20]


@pytest.mark.parametrize("successor", ["end", extra("launch")])
def test_scancel_of_a_deaf_trainer_is_recorded_before_the_kill(lab: Lab, successor: str) -> None:
    lab.faults({"kind": "ignore_signals", "step": 5})
    lab.render(*LONGER, "--set", f"successor={successor}")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.end(job)
    assert_over(lab, job)
    for insurance in lab.successors(job):
        assert_removed(lab, insurance)


@pytest.mark.race
def test_scancel_while_the_job_settles_takes_its_successor_along(lab: Lab) -> None:
    lab.render(*LONGER, "--set", "deadline.train_at_most_s=15")
    job = lab.submit()
    successor = lab.successor(job)
    with suppress(LabError):  # it may be over by now
        lab.end(job)
    wait_for(lambda: lab.verdict(job), 60, "the end of the job")
    if lab.verdict(job) != "cancelled":
        lab.outlast("cancel", lab.run_path)
    lab.wait_until_empty()
    # Too late for this job, perhaps: then its successor sees at its start that somebody cancelled the chain.
    if lab.verdict(job) == "cancelled":
        assert lab.events("launched", job=successor) == []


def test_killing_the_script_alone_leaves_nothing_behind_it(lab: Lab) -> None:
    lab.render(*LONGER)
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.end(job, "kill-script")
    lab.wait_until_empty()
    assert lab.verdict(job) == "failed"
    assert lab.endings() == []
    assert lab.successors(job) == []


@pytest.mark.seldom
def test_killing_the_script_alone_is_survived_by_insurance(lab: Lab) -> None:
    lab.faults(waits())
    lab.render("--set", "progress.target_step=100", "--set", "successor=launch")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.end(job, "kill-script")
    lab.faults()
    lab.finish()
    assert lab.endings() == ["done"]
    lab.assert_resumed()
