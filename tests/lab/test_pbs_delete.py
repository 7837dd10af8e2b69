"""Somebody deletes the job, or the one that waits for its end, as only PBS knows it. Nothing may follow by itself."""

from __future__ import annotations

import pytest
from harness import wait_for
from pbs_lab import HELD, PbsLab
from scenarios import extra

# Nobody waits for its end: it is longer than anything here takes.
LONGER = ("--set", "progress.target_step=6000")
INSURED = ("--set", "successor=launch")
SERVER = "aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov"

# Who types it, and what he types before the job's id.
WAYS = {
    "owner": ("alice", ()),
    "operator": ("root", ()),
    "owner-force": ("alice", ("-W", "force")),
    "operator-force": ("root", ("-W", "force")),
}


def delete(lab: PbsLab, way: str, *jobs: str) -> None:
    who, options = WAYS[way]
    words = ["qdel", *options, *jobs]
    lab.manager(*words) if who == "root" else lab.alice(*words)


def assert_over(lab: PbsLab, job: str, who: str = "alice") -> None:
    """The job says who ended it, and no other one trains."""
    ended = lab.wait_event("ended", 45, job=job)
    assert (ended["class"], ended["then"]) == ("cancelled", "stop")
    assert f"{who}@{SERVER}" in ended["evidence"]
    assert_nothing_trains(lab, job)
    assert lab.job(job)["substate"] == "91"


def assert_nothing_trains(lab: PbsLab, job: str) -> None:
    lab.wait_until_empty()
    assert {e["job"] for e in lab.events("launched")} <= {job}
    assert not (lab.folder / "finished").exists()
    assert lab.events("excluded") == []


def training(lab: PbsLab, *options: str) -> str:
    """The id of a job that has made a checkpoint durable."""
    lab.render(*LONGER, *options)
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    return job


def test_qdel_by_force_tells_the_job_nothing_and_nothing_follows(pbs_lab: PbsLab) -> None:
    job = training(pbs_lab)
    delete(pbs_lab, "owner-force", job)
    assert_nothing_trains(pbs_lab, job)
    assert (pbs_lab.job(job)["substate"], pbs_lab.job(job)["Exit_status"]) == ("91", "265")
    assert pbs_lab.endings() == []
    pbs_lab.outlast("resume", pbs_lab.run_path)
    again = wait_for(lambda: pbs_lab.events("launched")[1:], 60, "a launch after resume")[0]
    assert again["step"] >= 20
    pbs_lab.outlast("cancel", pbs_lab.run_path)
    pbs_lab.wait_until_empty()
    pbs_lab.assert_resumed()


def test_qdel_before_the_job_has_started(pbs_lab: PbsLab) -> None:
    pbs_lab.render(*LONGER)
    job = pbs_lab.submit("-h")
    pbs_lab.wait_state(job, HELD)
    delete(pbs_lab, "owner", job)
    assert_nothing_trains(pbs_lab, job)
    assert (pbs_lab.job(job)["substate"], pbs_lab.events()) == ("91", [])


@pytest.mark.parametrize("way", ["owner", extra("operator")])
def test_qdel_of_the_parent_takes_the_insurance_along(pbs_lab: PbsLab, way: str) -> None:
    job = training(pbs_lab, *INSURED)
    child = pbs_lab.successor(job)
    # People type it twice, and the second one sends TERM again, to all processes of the script.
    delete(pbs_lab, way, job, job)
    assert_over(pbs_lab, job, who=WAYS[way][0])
    assert len(pbs_lab.successors(job)) == 1
    assert "outlast resume" in pbs_lab.log(job)
    # No shell stands above the script that dies of the TERM (271): it is its own, or KILL's on a busy machine.
    assert pbs_lab.job(job)["Exit_status"] in ("0", "265")
    # The parent has deleted it: it never started.
    assert pbs_lab.job(child)["substate"] == "91"
    assert "stime" not in pbs_lab.job(child)


@pytest.mark.parametrize("way", ["owner-force", extra("operator-force")])
def test_qdel_of_the_parent_by_force_starts_the_insurance_which_leaves(pbs_lab: PbsLab, way: str) -> None:
    job = training(pbs_lab, *INSURED)
    child = pbs_lab.successor(job)
    delete(pbs_lab, way, job)
    held = pbs_lab.wait_event("held", 60, job=child)
    assert f"somebody cancelled job {job}" in held["why"]
    assert_nothing_trains(pbs_lab, job)
    assert pbs_lab.job(child)["Exit_status"] == "1"


@pytest.mark.extra
def test_qdel_of_the_child_and_then_of_the_parent(pbs_lab: PbsLab) -> None:
    job = training(pbs_lab, *INSURED)
    child = pbs_lab.successor(job)
    delete(pbs_lab, "owner", child)
    delete(pbs_lab, "owner", job)
    assert_over(pbs_lab, job)
    assert len(pbs_lab.successors(job)) == 1


@pytest.mark.parametrize("first", ["child", extra("parent")])
def test_qdel_of_both_in_one_command(pbs_lab: PbsLab, first: str) -> None:
    job = training(pbs_lab, *INSURED)
    child = pbs_lab.successor(job)
    delete(pbs_lab, "owner", *((child, job) if first == "child" else (job, child)))
    assert_over(pbs_lab, job)
    assert "stime" not in pbs_lab.job(child)


def test_qdel_of_the_child_alone_lets_the_job_train_and_nothing_follow(pbs_lab: PbsLab) -> None:
    job = training(pbs_lab, *INSURED)
    child = pbs_lab.successor(job)
    delete(pbs_lab, "owner", child)
    pbs_lab.end_in(job, 60)  # all of it is margin
    pbs_lab.wait_until_empty()
    assert pbs_lab.endings() == ["walltime"]
    assert pbs_lab.successors(job) == [child]
    (warned,) = pbs_lab.events("warned", job=job)
    assert f"job {child}, which was to follow, is gone" in warned["text"]
    assert "outlast resume" in warned["text"]
