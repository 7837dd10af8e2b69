"""PBS's server goes away and returns; test_scheduler.py has more."""

from __future__ import annotations

from harness import wait_for, waits
from pbs_lab import PbsLab

# Nobody waits for its end: it is longer than anything here takes.
LONGER = ("--set", "progress.target_step=6000")


def restart(lab: PbsLab) -> None:
    """Jobs run on, but the server has lost what it would have said of them."""
    lab.command("ctl", "stop")
    lab.command("ctl", "start")
    wait_for(lambda: lab.jobs(), 60, "a server that answers")


def test_a_restart_of_the_server_in_mid_job_disturbs_nothing(pbs_lab: PbsLab) -> None:
    pbs_lab.faults(waits())
    pbs_lab.render()
    job = pbs_lab.submit()
    pbs_lab.wait_event("checkpoint_durable")
    restart(pbs_lab)
    pbs_lab.end_in(job, 60)  # all of it is margin
    assert pbs_lab.wait_event("ended", 60, job=job)["class"] == "walltime"
    pbs_lab.faults()
    pbs_lab.finish()
    assert pbs_lab.job(job)["Exit_status"] == "0"
    pbs_lab.assert_resumed()


def test_qdel_after_a_restart_is_a_cancel_though_pbs_does_not_say_so(pbs_lab: PbsLab) -> None:
    pbs_lab.render(*LONGER, "--set", "successor=launch")
    job = pbs_lab.submit()
    pbs_lab.wait_event("checkpoint_durable")
    child = pbs_lab.successor(job)
    restart(pbs_lab)
    pbs_lab.cancel(job)
    ended = pbs_lab.wait_event("ended", 45, job=job)
    assert (ended["class"], ended["then"]) == ("cancelled", "stop")
    pbs_lab.wait_until_empty()
    assert "stime" not in pbs_lab.job(child)
    assert {e["job"] for e in pbs_lab.events("launched")} == {job}


def test_a_server_that_cannot_be_reached_holds_up_no_deadline(pbs_lab: PbsLab) -> None:
    pbs_lab.faults(waits(25, "trains"))
    pbs_lab.render(*LONGER, "--set", "deadline.train_at_most_s=30")
    job = pbs_lab.submit()
    pbs_lab.wait_for_file("trains")
    pbs_lab.command("cut", "head")  # each call of a client takes 72 s now, where it is not bounded
    ended = pbs_lab.wait_event("ended", 60, job=job)
    assert ended["class"] == "walltime"
    wait_for(lambda: "trying again" in pbs_lab.log(job), 120, "a submit without an answer")
    pbs_lab.command("heal", "head")
    successor = pbs_lab.successor(job, 120)
    assert pbs_lab.wait_event("launched", 90, job=successor)["step"] >= ended["durable_step"]
    assert len(pbs_lab.jobs()) == 1
    pbs_lab.outlast("cancel", pbs_lab.run_path)
    pbs_lab.wait_until_empty()
    pbs_lab.assert_resumed()
