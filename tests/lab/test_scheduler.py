"""The scheduler takes the job away, refuses, or does not answer."""

from __future__ import annotations

import pytest
from harness import Lab, wait_for, waits

LONGER = ("--set", "progress.target_step=300")


def urgent_job_of_bob(lab: Lab, nodes: int, seconds: int) -> None:
    script = f"#!/bin/bash\nsleep {seconds}\n"
    lab.command("as", "bob", "head", "bash", "-c", f"cat >j.sh <<'END'\n{script}END\nsbatch -p urgent -N {nodes} j.sh")


@pytest.mark.only("slurm", "PBS preempts in ways that were not measured")
def test_preempted_by_cancelling_another_job_follows(lab: Lab) -> None:
    lab.faults(waits())
    lab.render()
    job = lab.submit("--partition=low-cancel", "--no-requeue")
    lab.wait_event("checkpoint_durable")
    urgent_job_of_bob(lab, 4, 5)
    ended = lab.wait_event("ended", 60, job=job)
    lab.faults()
    assert ended["class"] == "preempted"
    lab.successor(job)
    lab.finish()
    lab.assert_resumed()


@pytest.mark.only("slurm", "PBS preempts in ways that were not measured")
def test_preempted_by_requeueing_the_same_job_goes_on(lab: Lab) -> None:
    lab.faults(waits())
    lab.render()
    job = lab.submit("--partition=low-requeue")
    lab.wait_event("checkpoint_durable")
    urgent_job_of_bob(lab, 4, 5)
    ended = lab.wait_event("ended", 60, job=job)
    lab.faults()
    assert (ended["class"], ended["then"]) == ("requeued", "leave")
    lab.finish()
    assert lab.events("submitted") == []
    assert {e["job"] for e in lab.events()} == {job}
    lab.assert_resumed()


def test_an_operators_requeue_is_not_doubled(lab: Lab) -> None:
    lab.faults(waits())
    lab.render()
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.requeue(job)
    ended = lab.wait_event("ended", 60, job=job)
    lab.faults()
    assert (ended["class"], ended["then"]) == ("requeued", "leave")
    lab.finish()
    assert lab.events("submitted") == []
    assert [e["restart"] for e in lab.events("launched")] == [0, 1]
    lab.assert_resumed()


@pytest.mark.race
def test_a_requeue_while_the_job_settles_does_not_double_the_run(lab: Lab) -> None:
    lab.render(*LONGER, "--set", "deadline.train_at_most_s=15")
    job = lab.submit()
    lab.wait_event("submitted", 60)
    lab.requeue(job, check=False)
    lab.finish(300)
    # Running anew, it found its child still waiting and made no other.
    assert len(set(lab.successors(job))) == 1
    lab.assert_resumed()
    assert_never_two_at_once(lab)


@pytest.mark.seldom
@pytest.mark.race
def test_a_second_job_by_hand_leaves_the_run_to_the_first(lab: Lab) -> None:
    lab.render("--set", "progress.target_step=150")
    jobs = {lab.submit(), lab.submit()}
    lab.finish()
    assert lab.endings() == ["done"]
    assert len(lab.events("launched")) == 1
    owner = lab.events("launched")[0]["job"]
    (other,) = jobs - {owner}
    lab.wait_event("left", 30, job=other)


@pytest.mark.seldom
@pytest.mark.race
def test_a_job_by_hand_that_races_the_successor_does_not_double_the_run(lab: Lab) -> None:
    lab.render(*LONGER, "--set", "deadline.train_at_most_s=15")
    lab.submit()
    lab.wait_event("submitted", 60)
    lab.submit()
    lab.finish(300)
    lab.assert_resumed()
    assert_never_two_at_once(lab)


def assert_never_two_at_once(lab: Lab) -> None:
    """Between a launch and its end no other job launches."""
    owner = None
    for event in lab.events():
        who = (event["job"], event["restart"])
        if event["event"] == "launched":
            assert owner in (None, who), event
            owner = who
        elif event["event"] == "ended" and owner == who:
            owner = None


def test_a_controller_that_is_down_when_the_job_ends_is_waited_for(lab: Lab) -> None:
    lab.faults(waits(5, "trains"))
    lab.render("--set", "deadline.train_at_most_s=30")
    job = lab.submit()
    lab.wait_for_file("trains")
    lab.command("ctl", "stop")
    lab.wait_event("ended", 60, job=job, **{"class": "walltime"})
    wait_for(lambda: "trying again" in lab.log(job), 60, "a submit without an answer")
    lab.command("ctl", "start")
    lab.wait_event("submitted", 90, job=job)
    lab.finish(240)
    lab.successor(job)
    lab.assert_resumed()


@pytest.mark.seldom
def test_a_controller_that_hangs_does_not_make_two_successors(lab: Lab) -> None:
    lab.faults(waits(5, "trains"))
    lab.render("--set", "deadline.train_at_most_s=30")
    job = lab.submit()
    lab.wait_for_file("trains")
    lab.command("ctl", "hang")
    lab.wait_event("ended", 60, job=job, **{"class": "walltime"})
    wait_for(lambda: "trying again" in lab.log(job), 90, "a submit without an answer")
    lab.command("ctl", "cont")
    lab.wait_event("submitted", 90, job=job)
    assert len([other for other in lab.jobs() if other != job]) == 1
    lab.finish(240)
    assert_never_two_at_once(lab)


@pytest.mark.seldom
def test_a_controller_that_never_comes_back_leaves_a_line_to_type(lab: Lab) -> None:
    sets = ["deadline.startup_s=20", "deadline.margin_s=60", "walltime_s=105", "deadline.train_at_most_s=30"]
    lab.faults(waits(25, "trains"))
    lab.render(*(word for value in sets for word in ("--set", value)))
    job = lab.submit()
    lab.wait_for_file("trains")
    host = lab.host_of(job)
    lab.command("ctl", "stop")
    lab.wait_event("ended", 60, job=job, **{"class": "walltime"})
    wait_for(lambda: not lab.runs_script(host), 150, "the end of the script")
    assert lab.successors(job) == []
    assert "outlast resume" in lab.log(job)
    assert lab.durable_steps()


def test_a_successor_that_is_refused_for_good_holds_the_run(lab: Lab) -> None:
    lab.faults(waits(once="trains"))
    lab.render()
    job = lab.submit()
    lab.wait_for_file("trains")
    lab.end_in(job, 75)  # in a quarter of a minute; Slurm changes no job whose partition takes none
    lab.accept_jobs(False)
    held = lab.wait_event("held", 60, job=job)
    assert lab.endings(job) == ["walltime"]
    assert "refused" in held["why"]
    assert lab.refusal in held["why"]
    lab.wait_until_empty()
    assert lab.successors(job) == []
    lab.accept_jobs(True)
    lab.outlast("resume", str(held["todo"]).split()[-1])
    lab.finish()
    lab.assert_resumed()


@pytest.mark.only("slurm", "PBS excludes no host")
def test_an_unknown_host_in_the_exclude_list_is_left_out_for_the_successor(lab: Lab) -> None:
    lab.faults(waits(once="trains"))
    lab.render("--set", 'exclude=["frontier00004", "frontier09999"]')
    job = lab.submit("--exclude=frontier00004")
    lab.wait_for_file("trains")
    lab.end_in(job, 60)  # all of it is margin
    successor = lab.successor(job, 60)
    assert lab.job(successor)["ExcNodeList"] == "frontier00004"
    lab.finish(240)
    lab.assert_resumed()
