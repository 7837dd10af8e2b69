"""The allocation ends before the training does."""

from __future__ import annotations

import pytest
from harness import Lab, wait_for, waits

# Nobody waits for its end: it is longer than anything here takes.
ENDLESS = ("--set", "progress.target_step=6000", "--set", "deadline.poll_s=3000")


def test_a_chain_of_three_jobs_finishes(lab: Lab) -> None:
    lab.faults(waits(30, "one"), waits(60, "two"))
    lab.render()
    first = job = lab.submit()
    for trains in ("one", "two"):
        lab.wait_for_file(trains, 120)
        lab.end_in(job, 60)  # all of it is margin
        job = lab.successor(job, 120)
    lab.finish()
    *before, last = [e["job"] for e in lab.events("ended")]
    assert lab.endings() == ["walltime", "walltime", "done"]
    assert [lab.successors(job) for job in before] == [[job] for job in [*before[1:], last]]
    assert lab.successors(last) == []
    lab.assert_resumed()
    assert lab.durable_steps()[-1] == 100
    ended = lab.events("ended", job=first)[0]
    assert "our deadline" in ended["evidence"]
    assert ended["then"] == "submit"


@pytest.mark.seldom
def test_a_trainer_that_exits_0_when_asked_is_not_taken_for_finished(lab: Lab) -> None:
    # Without the stop file it learns of the end by TERM alone, as the shim hands it on.
    command = "env OUTLAST_STOP_FILE= python3 -u train.py --output_dir {ckpt_dir} --max_steps {target_step} "
    command += "--save_steps 20 --step_time 0.1 {resume}"
    lab.faults(waits(once="trains"))
    lab.render("--set", f"command={command}")
    job = lab.submit()
    lab.wait_for_file("trains")
    lab.end_in(job, 60)  # all of it is margin
    ended = lab.wait_event("ended", 90)
    lab.faults()
    assert (ended["class"], ended["code"]) == ("walltime", 0)
    lab.successor(job)
    lab.finish(240)
    lab.assert_resumed()


@pytest.mark.seldom
def test_a_trainer_that_ignores_every_signal_is_killed_and_followed(lab: Lab) -> None:
    lab.faults({"kind": "ignore_signals"}, waits(once="trains"))
    lab.render("--set", "deadline.stop_wait_s=6")
    job = lab.submit()
    lab.wait_for_file("trains")
    lab.end_in(job, 60)  # all of it is margin
    ended = lab.wait_event("ended", 90)
    lab.faults()
    assert ended["class"] == "walltime"
    assert ended["code"] != 0
    lab.successor(job)
    lab.finish(240)
    lab.assert_resumed()


def test_a_limit_that_is_lowered_is_noticed_before_it_comes(lab: Lab) -> None:
    lab.faults(waits())
    lab.render()
    job = lab.submit(*lab.unwarned)
    lab.wait_event("checkpoint_durable")
    lab.end_in(job, 75)
    ended = lab.wait_event("ended", 45, job=job)
    lab.faults()
    assert ended["class"] == "walltime"
    lab.successor(job)
    lab.finish()
    lab.assert_resumed()


@pytest.mark.only("slurm", "PBS warns of no limit")
def test_a_warning_of_a_lowered_limit_is_enough(lab: Lab) -> None:
    # Slurm looks at its limits every 30 s, so that long the warning may take.
    lab.faults(waits())
    lab.render("--set", "deadline.poll_s=3000")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.end_in(job, 75)
    ended = lab.wait_event("ended", 90, job=job)
    lab.faults()
    assert ended["class"] == "walltime"
    lab.successor(job)
    lab.finish()
    lab.assert_resumed()


@pytest.mark.seldom
def test_a_limit_that_is_raised_is_used(lab: Lab) -> None:
    # As the job is submitted, training has 45 s; it takes at least 50.
    lab.faults(waits(5, "trains"))
    lab.render("--set", "progress.target_step=500", "--set", "deadline.margin_s=75")
    job = lab.submit(*lab.limit(120), *lab.unwarned)
    lab.wait_for_file("trains")
    lab.faults()
    lab.set_limit(job, 900)
    lab.finish()
    assert lab.endings() == ["done"]
    assert lab.successors(job) == []


def test_slurms_own_limit_without_a_warning_is_late_and_doubles_the_margin(lab: Lab) -> None:
    lab.render(*ENDLESS)
    job = lab.submit(*lab.unwarned)
    lab.wait_event("checkpoint_durable")
    lab.end_in(job, 3)
    ended = lab.wait_event("ended", 60, job=job)
    assert ended["class"] == "walltime_late"
    assert "time limit" in ended["evidence"]
    wait_for(lambda: lab.verdict(job) == "timelimit", 30, "the scheduler's own words")
    successor = lab.successor(job)
    launched = lab.wait_event("launched", 60, job=successor)
    assert launched["step"] > 0
    lab.assert_resumed()
    lab.cancel(successor)
    ended = lab.wait_event("ended", 60, job=successor)
    assert ended["margin_s"] == 120


def test_slurms_own_limit_kills_a_deaf_trainer_and_yet_a_job_follows(lab: Lab) -> None:
    lab.faults({"kind": "ignore_signals", "step": 5})
    lab.render(*ENDLESS)
    job = lab.submit(*lab.unwarned)
    lab.wait_event("checkpoint_durable")
    lab.end_in(job, 3)
    wait_for(lambda: lab.verdict(job) == "timelimit", 60, "the scheduler's own words")
    assert lab.endings(job) == ["walltime_late"]
    successor = lab.successor(job)
    lab.faults()
    assert lab.wait_event("launched", 60, job=successor)["step"] > 0
    lab.assert_resumed()
    lab.cancel(successor)
    lab.wait_until_empty()
