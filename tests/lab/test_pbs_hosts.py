"""Hosts die, and PBS sees it late, or not at all."""

from __future__ import annotations

import pytest
from harness import wait_for
from pbs_lab import ENDED, SCALE, PbsLab

# Nobody waits for its end: it is longer than anything here takes.
LONGER = ("--set", "progress.target_step=6000")


def training(lab: PbsLab, *options: str) -> str:
    """The id of a job that has made a checkpoint durable."""
    lab.render(*LONGER, *options)
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    return job


def assert_goes_on_without(lab: PbsLab, job: str, dead: str) -> None:
    """The job has said which host is to blame, and its successor trains on others, from the last checkpoint on."""
    ended = lab.wait_event("ended", lab.detected_s, job=job)
    assert (ended["class"], ended["then"]) == ("node", "submit")
    again = lab.wait_event("launched", 120, job=lab.successor(job))
    assert dead not in lab.hosts(again)
    assert again["step"] >= 20
    assert dead in lab.events("excluded", job=job)[0]["nodes"]
    lab.assert_resumed()
    # The first job has ended by itself, neither killed for its dead host nor run again.
    state = lab.wait_state(job, ENDED)
    assert (state["Exit_status"], state["run_count"]) == ("0", "1")


def test_a_dead_sister_is_found_and_given_up_before_pbs_ends_the_job_for_it(pbs_lab: PbsLab) -> None:
    job = training(pbs_lab)
    dead = pbs_lab.host_of(job, 1)
    pbs_lab.command("off", dead)
    assert_goes_on_without(pbs_lab, job, dead)
    assert pbs_lab.hosts_of(job) == [pbs_lab.host_of(job)]
    pbs_lab.outlast("cancel", pbs_lab.run_path)
    pbs_lab.wait_until_empty()


@pytest.mark.extra
def test_a_dead_sister_of_a_job_that_pbs_would_let_live_is_found_all_the_same(pbs_lab: PbsLab) -> None:
    # The launcher's own limit is beyond what the scenario takes: as with MPICH's, which never notices.
    sets = ["env.PALS_RPC_TIMEOUT=100000", "env.PALS_PING_PERIOD=100000"]
    sets.append('directives=["-W tolerate_node_failures=all"]')
    job = training(pbs_lab, *(word for value in sets for word in ("--set", value)))
    dead = pbs_lab.host_of(job, 1)
    pbs_lab.command("off", dead)
    assert_goes_on_without(pbs_lab, job, dead)
    assert "nothing can be started there" in pbs_lab.events("ended", job=job)[0]["evidence"]
    pbs_lab.outlast("cancel", pbs_lab.run_path)
    pbs_lab.wait_until_empty()


def test_a_sister_that_the_server_cannot_reach_for_a_while_is_not_dead(pbs_lab: PbsLab) -> None:
    # Long enough for PBS to call it down, and not for PBS to end the job for it.
    limit_s = int(60 + 80 * SCALE)
    pbs_lab.render(
        *("--set", f"progress.target_step={20 * limit_s}", "--set", f"deadline.train_at_most_s={limit_s}"),
        *("--set", "deadline.poll_s=3"),
    )
    job = pbs_lab.submit()
    pbs_lab.wait_event("checkpoint_durable")
    sister = pbs_lab.host_of(job, 1)
    # Only the way to the head: on the others the ranks meet. (A MoM that is stopped OpenPBS did not miss within 90 s.)
    away = "ip route {} blackhole $(getent ahostsv4 head | cut -d ' ' -f 1 | head -n 1)"
    pbs_lab.root(sister, "bash", "-c", away.format("add"))
    wait_for(lambda: sister in pbs_lab.manager("pbsnodes", "-l"), 90, "a node that PBS calls down")
    # Two looks of ours later the same launch trains.
    step = pbs_lab.events()[-1]["t"]
    wait_for(lambda: pbs_lab.events()[-1]["t"] > step + 10, 60, "training that goes on")
    pbs_lab.root(sister, "bash", "-c", away.format("del"))
    wait_for(lambda: not pbs_lab.manager("pbsnodes", "-l"), 90, "a node that is back")
    assert pbs_lab.wait_event("ended", 30 + limit_s, job=job)["class"] == "walltime"
    assert pbs_lab.events("excluded") == []
    pbs_lab.outlast("cancel", pbs_lab.run_path)
    pbs_lab.wait_until_empty()


def test_a_sister_that_is_back_at_once_ends_the_job_and_is_named(pbs_lab: PbsLab) -> None:
    job = training(pbs_lab)
    rebooted = pbs_lab.host_of(job, 1)
    pbs_lab.command("off", rebooted)
    pbs_lab.command("on", rebooted)
    ended = pbs_lab.wait_event("ended", 60 + 120 * SCALE, job=job)
    assert (ended["class"], ended["then"]) == ("node", "submit")
    assert rebooted in str(pbs_lab.wait_event("excluded", job=job)["nodes"])
    again = pbs_lab.wait_event("launched", 120, job=pbs_lab.successor(job))
    assert again["step"] >= 20
    pbs_lab.assert_resumed()
    assert pbs_lab.job(job)["substate"] == "93"
    pbs_lab.outlast("cancel", pbs_lab.run_path)
    pbs_lab.wait_until_empty()


@pytest.mark.hosts(3)
def test_the_first_host_dies_and_pbs_runs_the_job_again_once(pbs_lab: PbsLab) -> None:
    job = training(pbs_lab)
    dead = pbs_lab.host_of(job)
    pbs_lab.command("off", dead)
    again = pbs_lab.wait_event("launched", pbs_lab.detected_s, job=job, restart=1)
    assert dead not in pbs_lab.hosts(again)
    assert again["step"] >= 20
    assert (pbs_lab.endings(), pbs_lab.successors(job)) == ([], [])
    assert pbs_lab.job(job)["run_count"] == "2"
    pbs_lab.assert_resumed()
    pbs_lab.outlast("cancel", pbs_lab.run_path)
    pbs_lab.wait_until_empty()


@pytest.mark.hosts(3)
@pytest.mark.extra
def test_the_first_host_dies_and_the_insurance_runs_instead_of_the_job(pbs_lab: PbsLab) -> None:
    job = training(pbs_lab, "--set", "successor=launch")
    child = pbs_lab.successor(job)
    dead = pbs_lab.host_of(job)
    pbs_lab.command("off", dead)
    again = pbs_lab.wait_event("launched", pbs_lab.detected_s, job=child)
    assert dead not in pbs_lab.hosts(again)
    assert again["step"] >= 20
    lost = pbs_lab.job(job)
    assert (lost["job_state"], lost["substate"], lost["Exit_status"], lost["run_count"]) == ("F", "93", "-20", "1")
    assert pbs_lab.endings() == []
    pbs_lab.assert_resumed()
    pbs_lab.outlast("cancel", pbs_lab.run_path)
    pbs_lab.wait_until_empty()
