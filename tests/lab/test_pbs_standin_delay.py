"""The stand-in for PBS: jobs that wait for a time, in an execution queue or in a routing one (measured, 23.06.06)."""

from __future__ import annotations

import time

from pbs_cluster import Cluster

THREE = ("-l", "select=3", "-l", "place=scatter")


def at(seconds: int) -> str:
    """As qsub's and qalter's -a take it."""
    return time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + seconds))


def assert_kept(pbs: Cluster, job: str) -> None:
    """A job that waits for its time starts then, and not before; of the time nothing is left."""
    begin = int(time.time()) + 5
    assert pbs.alice(f"qalter -a {at(5)} {job}").code == 0
    ended = pbs.ended(job)
    assert time.mktime(time.strptime(ended["stime"])) >= begin
    assert "Execution_Time" not in ended


def parent(pbs: Cluster) -> str:
    return pbs.running("echo ready; sleep 600\n")


def test_a_delayed_job_stays_in_its_routing_queue_and_its_dependency_does_not_count(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-q", "prod", *THREE, "-a", at(600), "-W", f"depend=afterany:{parent(pbs)}")
    now = pbs.job(job)
    assert (now["job_state"], now["queue"], now["Hold_Types"]) == ("W", "prod", "n")


def test_a_delayed_job_is_routed_when_its_time_comes(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-q", "prod", *THREE, "-a", at(10))
    assert pbs.ended(job)["queue"] == "small"


def test_a_delayed_job_that_nobody_takes_is_dropped_when_its_time_comes(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-q", "prod", "-l", "select=2", "-a", at(10))
    dropped = pbs.ended(job)
    assert dropped["substate"] == 92
    assert "Exit_status" not in dropped and "stime" not in dropped


def test_a_job_that_waits_for_another_is_routed_at_once(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-q", "prod", *THREE, "-W", f"depend=afterany:{parent(pbs)}")
    now = pbs.job(job)
    assert (now["job_state"], now["queue"], now["Hold_Types"]) == ("H", "small", "s")


def test_a_delay_that_is_given_later_counts_from_the_end_of_the_parent_on(pbs: Cluster) -> None:
    first = parent(pbs)
    job = pbs.submit("true\n", "-W", f"depend=afterany:{first}")
    assert pbs.alice(f"qalter -a {at(600)} {job}").code == 0
    assert pbs.job(job)["job_state"] == "H"
    pbs.root(f"qdel -W force {first}")
    pbs.until(job, lambda now: now["job_state"] == "W")
    assert_kept(pbs, job)


def test_a_job_that_begins_later(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-a", at(600))
    assert (pbs.job(job)["job_state"], pbs.job(job)["substate"]) == ("W", 30)
    assert_kept(pbs, job)
