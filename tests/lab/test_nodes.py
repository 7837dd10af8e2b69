"""Hosts die, or seem to."""

from __future__ import annotations

import time

import pytest
from harness import Lab, wait_for, waits
from scenarios import extra

LEFT_ALONE = pytest.mark.only("slurm", "PBS leaves a job alone that has lost a sister: its own launcher is faster")


@pytest.mark.seldom
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=LEFT_ALONE)], ids=["batch-host", "worker"])
def test_a_host_dies_and_slurm_requeues_the_job_once(lab: Lab, number: int) -> None:
    lab.faults(waits())
    # So rarely do we look for dead hosts that Slurm is always the first to see one.
    lab.render("--set", "deadline.poll_s=60")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    dead = lab.host_of(job, number)
    lab.command("off", dead)
    lab.faults()
    again = lab.wait_event("launched", lab.detected_s, job=job, restart=1)
    assert dead not in lab.hosts(again)
    assert again["step"] > 0
    lab.finish()
    assert lab.endings()[-1] == "done"
    assert len(lab.events("launched")) == 2
    assert lab.successors(job) == []
    lab.assert_resumed()


@pytest.mark.seldom
@pytest.mark.parametrize("number", [extra(0), 1], ids=["batch-host", "worker"])
def test_a_host_dies_and_the_insurance_goes_on_without_it(lab: Lab, number: int) -> None:
    lab.faults(waits())
    lab.render("--set", "successor=launch")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    successor = lab.successor(job)
    dead = lab.host_of(job, number)
    lab.command("off", dead)
    lab.faults()
    again = lab.wait_event("launched", lab.detected_s, job=successor)
    assert dead not in lab.hosts(again)
    lab.finish()
    assert lab.endings()[-1] == "done"
    if number:
        # The survivors may die of it before Slurm says that the host is dead; then the ending has a second name.
        assert lab.endings(job) in (["node"], ["crash", "node"])
        assert dead in lab.events("ended", job=job)[-1]["evidence"] + str(lab.events("excluded"))
    lab.assert_resumed()


@pytest.mark.seldom
def test_of_two_copies_of_a_cut_off_job_only_one_goes_on(lab: Lab) -> None:
    lab.faults(waits())
    lab.render()
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    cut = lab.host_of(job)
    lab.command("cut", cut)
    lab.faults()
    lab.wait_event("launched", lab.detected_s, job=job, restart=1)
    # The old script cannot hear Slurm, and its ranks on the other host are gone.
    lab.command("heal", cut)
    lab.finish()
    lab.assert_resumed()
    assert [e["class"] for e in lab.events("ended", restart=1)] == ["done"]
    assert not {"hold", "finish"} & {e["then"] for e in lab.events("ended", restart=0)}
    assert lab.events("submitted") == []


@pytest.mark.seldom
def test_a_blip_of_the_network_disturbs_nothing(lab: Lab) -> None:
    # Long enough for some questions to the scheduler, which get no answer.
    blip_s = 4.0
    lab.miss_hosts_for(300)  # as on a real machine: a heal that is late makes it no loss
    lab.render("--set", "progress.target_step=200", "--set", "deadline.poll_s=1")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    host = lab.host_of(job)
    lab.command("cut", host)
    until = time.monotonic() + blip_s
    wait_for(lambda: time.monotonic() > until, blip_s + 1, "the end of the blip")
    lab.command("heal", host)
    lab.finish()
    assert lab.endings() == ["done"]


@pytest.mark.only("slurm", "a node that is marked offline keeps its job on PBS")
def test_the_scheduler_gives_a_node_up_at_once(lab: Lab) -> None:
    lab.render("--set", "progress.target_step=6000", "--set", "successor=launch")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    down = lab.host_of(job, 1)
    lab.root("head", "scontrol", "update", f"nodename={down}", "state=down", "reason=test")
    ended = lab.wait_event("ended", 60, job=job)
    assert ended["class"] == "node"
    successor = lab.successor(job)
    again = lab.wait_event("launched", 60, job=successor)
    assert down not in lab.hosts(again)
    assert lab.job(successor)["ExcNodeList"] == down
    lab.assert_resumed()
    bad = lab.folder.parent / "bad_nodes.txt"
    wait_for(lambda: bad.exists() and f"job={job}." in bad.read_text(), 30, "the strike")
    assert bad.read_text().startswith(f"{down}  ")
    ours = ("--run", lab.run_path)
    assert lab.outlast("badnodes", "exclude", *ours) == f"{down}\n"
    lab.cancel(successor)
    lab.wait_until_empty()
