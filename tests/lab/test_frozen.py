"""The shared file system stops answering for a minute. Who asks it something meanwhile is not even killed by KILL."""

from __future__ import annotations

import time

from harness import Lab, wait_for

MINUTE = 60


def freeze_for(lab: Lab, seconds: float) -> None:
    lab.command("freeze")
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > until, seconds + 5, "the end of the freeze")
    lab.command("thaw")


def test_training_does_not_notice(lab: Lab) -> None:
    lab.render("--set", "progress.target_step=1000")
    lab.submit()
    lab.wait_event("checkpoint_durable")
    freeze_for(lab, MINUTE)
    lab.finish(180)
    assert lab.endings() == ["done"]
    assert lab.durable_steps()[-1] == 1000
    lab.assert_resumed()


def test_the_job_ends_meanwhile_and_is_followed(lab: Lab) -> None:
    lab.render("--set", "progress.target_step=300", "--set", "deadline.train_at_most_s=25")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    freeze_for(lab, MINUTE)
    lab.wait_event("ended", 30, job=job, **{"class": "walltime"})
    lab.finish(240)
    lab.successor(job)
    lab.assert_resumed()


def test_the_successor_starts_meanwhile(lab: Lab) -> None:
    lab.render("--set", "progress.target_step=300", "--set", "deadline.train_at_most_s=25")
    job = lab.submit()
    successor = lab.successor(job, 90)
    wait_for(lambda: successor in lab.jobs("running"), 60, "the successor's start")
    freeze_for(lab, MINUTE)
    lab.finish(240)
    lab.assert_resumed()
