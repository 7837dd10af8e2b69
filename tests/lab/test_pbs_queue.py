"""The next job is dropped, delayed, held, or has lost the place of its log."""

from __future__ import annotations

import time

import pytest
from harness import wait_for, waits
from pbs_lab import DELAYED, HELD, PbsLab

LONGER = ("--set", "progress.target_step=6000")
# A routing queue, by the option that takes any queue; behind it is one that takes three nodes or more.
ROUTED = ("--set", "reservation=prod")


def test_a_successor_that_a_routing_queue_drops_without_a_word_is_missed(pbs_lab: PbsLab) -> None:
    pbs_lab.render(*LONGER, *ROUTED, "--set", "deadline.train_at_most_s=20")
    job = pbs_lab.submit("-q", "capacity")
    held = pbs_lab.wait_event("held", 60, job=job)
    assert pbs_lab.endings() == ["walltime"]
    assert "was accepted and then dropped: no execution queue takes its nodes and walltime" in held["why"]
    assert "outlast resume" in held["todo"]
    pbs_lab.wait_until_empty()
    assert pbs_lab.successors(job) == []


@pytest.mark.hosts(3)
def test_a_delayed_successor_is_in_its_execution_queue_before_its_parent_ends(pbs_lab: PbsLab) -> None:
    pbs_lab.faults({"kind": "exit", "rank": 1, "step": 30, "code": 3, "once": "crashed"})
    pbs_lab.render(
        *("--set", "progress.target_step=100", "--nodes", "3", "--set", "guard.rapid_wait_s=20"),
        *ROUTED,
        *("--set", "guard.attempts=1"),
    )
    job = pbs_lab.submit()
    successor = pbs_lab.successor(job, 90)
    known = pbs_lab.job(successor)
    # It waits for its parent or, when that has just ended, for its time; one that is not routed yet is still in `prod`.
    assert known["queue"] == "small"
    assert known["job_state"] in (HELD, DELAYED)
    begin = time.mktime(time.strptime(known["Execution_Time"]))
    pbs_lab.finish()
    assert pbs_lab.endings() == ["crash", "done"]
    assert pbs_lab.events("started", job=successor)[0]["t"] >= begin
    pbs_lab.assert_resumed()


def test_a_successor_has_a_place_for_its_log_even_if_somebody_took_it_away(pbs_lab: PbsLab) -> None:
    pbs_lab.faults(waits())
    pbs_lab.render()
    job = pbs_lab.submit()
    pbs_lab.wait_event("checkpoint_durable")
    logs = pbs_lab.folder / "logs"
    logs.rename(logs.with_name("logs.away"))  # at once: somebody is writing into it
    pbs_lab.end_in(job, 60)  # all of it is margin
    successor = pbs_lab.successor(job)
    pbs_lab.faults()
    pbs_lab.finish()
    assert pbs_lab.job(successor)["Exit_status"] == "0"
    pbs_lab.assert_resumed()


@pytest.mark.extra
def test_a_successor_that_a_person_holds_waits_and_goes_on_when_it_is_released(pbs_lab: PbsLab) -> None:
    pbs_lab.render(
        "--set", "progress.target_step=250", "--set", "successor=launch", "--set", "deadline.train_at_most_s=20"
    )
    job = pbs_lab.submit()
    successor = pbs_lab.successor(job)
    pbs_lab.alice("qhold", successor)
    pbs_lab.wait_event("ended", 60, job=job)
    wait_for(lambda: pbs_lab.jobs() == [successor], 60, "the end of the first job")
    assert pbs_lab.state(successor) == HELD
    pbs_lab.alice("qrls", successor)
    pbs_lab.finish()
    assert pbs_lab.endings()[0] == "walltime" and pbs_lab.endings()[-1] == "done"
    pbs_lab.assert_resumed()
