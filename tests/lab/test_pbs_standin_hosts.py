"""The stand-in for PBS: hosts die, return and are released (test_pbs_standin.py has more)."""

from __future__ import annotations

import re
import time

import pytest
from pbs_cluster import FOLDER, LIMIT_S, SCALE, SECOND, TWO, Cluster, slow_on_real, wait_for, wrapped


def first_and_second(pbs: Cluster, job: str) -> list[str]:
    return [word.partition("/")[0] for word in pbs.job(job)["exec_host"].split("+")]


def test_a_host_of_the_job_is_released_at_once_and_its_processes_get_kill(pbs: Cluster) -> None:
    script = f"""
pbs_tmrsh {SECOND} /bin/bash -c "trap 'touch {FOLDER}/got-TERM' TERM; echo ready; while :; do sleep 0.1; done" &
while :; do sleep 0.1; done
"""
    job = pbs.running(script, *TWO)
    pbs.until(job, lambda now: now["substate"] == 42)
    first, second = first_and_second(pbs, job)
    assert pbs.alice(f"pbs_release_nodes -j {job} {second}").code == 0
    wait_for(lambda: not pbs.root("pgrep -u alice -f got-[T]ERM", host=second).out, lambda: pbs.log(job))
    now = pbs.job(job)
    assert now["exec_host"] == f"{first}/0" and now["Resource_List"]["nodect"] == 1
    assert pbs.alice("ls got-TERM").code != 0
    # The client waits for ever.
    assert "pbs_tmrsh" in pbs.root("pgrep -a -u alice", host=first).out
    lines = f"{first}.hsn.cm.aurora.alcf.anl.gov\n"
    wait_for(lambda: pbs.root(f"cat /var/spool/pbs/aux/{job}", host=first).out == lines, lambda: lines)
    assert pbs.alice(f"pbs_release_nodes -j {job} {second}").code == 162
    said = pbs.alice(f"pbs_release_nodes -j {job} {first}")
    assert (said.code, said.err) == (
        162,
        f"pbs_release_nodes: Can't free '{first}' since it's on a primary execution host \n",
    )


def test_a_dead_host_can_be_released_before_pbs_has_seen_it(pbs: Cluster) -> None:
    job = pbs.running("echo ready\nwhile :; do sleep 0.1; done\n", *TWO)
    pbs.until(job, lambda now: now["substate"] == 42)
    _, second = first_and_second(pbs, job)
    pbs.off(second)
    assert pbs.alice(f"pbs_release_nodes -j {job} {second}").code == 0
    wait_for(lambda: second in pbs.alice("pbsnodes -l").out, lambda: pbs.alice("pbsnodes -l").out, 90)
    time.sleep(440 * SCALE if SCALE < 1 else 5)
    assert pbs.job(job)["job_state"] == "R"


def test_the_power_loss_of_a_host_is_seen_after_a_minute(pbs: Cluster) -> None:
    host = pbs.hosts[3]
    began = time.monotonic()
    pbs.off(host)
    wait_for(lambda: host in pbs.alice("pbsnodes -l").out, lambda: pbs.alice("pbsnodes -a").out, 90)
    assert time.monotonic() - began > 20 * SCALE
    assert re.search(
        rf"{host}\n(     .*\n)*     state = (down|state-unknown,down)\n", pbs.alice(f"pbsnodes {host}").out
    )
    assert "node down: communication closed" in pbs.alice(f"pbsnodes {host}").out


def test_a_mom_that_dies_on_a_living_host_is_seen_at_once(pbs: Cluster) -> None:
    host = pbs.hosts[3]
    pbs.root("pkill -KILL -x pbs_mom", host=host)
    # Long before a host that lost its power.
    wait_for(lambda: host in pbs.alice("pbsnodes -l").out, lambda: pbs.alice("pbsnodes -a").out, 30)
    pbs.off(host)


@slow_on_real
def test_the_death_of_a_sister_kills_the_job_minutes_later_and_it_runs_again(pbs: Cluster) -> None:
    job = pbs.running(
        "trap 'echo TERM' TERM\necho ready $(date +%s%N)\nwhile :; do sleep 0.1; done\n".replace(
            "ready ", "ready\necho "
        ),
        *TWO,
    )
    _, second = first_and_second(pbs, job)
    began = time.monotonic()
    pbs.off(second)
    again = pbs.until(job, lambda now: now.get("run_count") == 2 and now["job_state"] == "R", 600 * SCALE + LIMIT_S)
    assert time.monotonic() - began > 300 * SCALE
    assert second not in again["exec_host"]
    assert "TERM" not in pbs.log(job)


@slow_on_real
def test_a_job_that_tolerates_the_death_of_a_sister_runs_on(pbs: Cluster) -> None:
    job = pbs.running("echo ready\nwhile :; do sleep 0.1; done\n", *TWO, "-W", "tolerate_node_failures=all")
    _, second = first_and_second(pbs, job)
    pbs.off(second)
    time.sleep(560 * SCALE)
    assert (pbs.job(job)["job_state"], pbs.job(job)["run_count"]) == ("R", 1)


@slow_on_real
@pytest.mark.parametrize("rerun", ["y", "n"])
def test_the_death_of_the_first_host(pbs: Cluster, rerun: str) -> None:
    job = pbs.running("echo ready\nwhile :; do sleep 0.1; done\n", *TWO, "-r", rerun)
    first, _ = first_and_second(pbs, job)
    began = time.monotonic()
    pbs.off(first)
    if rerun == "y":
        again = pbs.until(job, lambda now: now.get("run_count") == 2 and now["job_state"] == "R", 500 * SCALE + LIMIT_S)
        assert first not in again["exec_host"]
    else:
        ended = pbs.ended(job, 500 * SCALE + LIMIT_S)
        assert (ended["substate"], ended["Exit_status"]) == (93, -20)
        assert "terminated" not in ended["comment"] and "failed" not in ended["comment"]
    assert time.monotonic() - began > 300 * SCALE


@slow_on_real
def test_a_first_host_that_is_back_at_once_is_not_missed_and_its_job_runs_until_somebody_deletes_it(
    pbs: Cluster,
) -> None:
    job = pbs.running("echo ready\nwhile :; do sleep 0.1; done\n", *TWO)
    pbs.until(job, lambda now: now["substate"] == 42)
    first, _ = first_and_second(pbs, job)
    pbs.reboot(first)
    time.sleep(440 * SCALE)
    now = pbs.job(job)
    assert (now["job_state"], now["substate"], now["run_count"]) == ("R", 42, 1)
    assert pbs.root("pgrep -u alice", host=first).out == ""
    assert pbs.alice(f"qdel {job}").code == 0
    ended = pbs.ended(job)
    assert ended["substate"] == 91 and "Exit_status" not in ended


@slow_on_real
def test_a_sister_that_is_back_at_once_ends_the_job(pbs: Cluster) -> None:
    job = pbs.running("trap 'echo TERM' TERM\necho ready\nwhile :; do sleep 0.1; done\n", *TWO)
    _, second = first_and_second(pbs, job)
    pbs.reboot(second)
    ended = pbs.ended(job, 120 * SCALE + LIMIT_S)
    assert (ended["substate"], ended["Exit_status"]) == (93, 271)
    assert re.search(rf"=>> PBS: job killed: node 1 \({second}\S*\) requested job die, code 15009", pbs.log(job))
    assert "TERM" in pbs.log(job)


@slow_on_real
def test_it_has_failed_then_although_its_script_ends_with_0(pbs: Cluster) -> None:
    job = pbs.running("trap 'exit 0' TERM\necho ready\nwhile :; do sleep 0.1; done\n", *TWO, *wrapped())
    _, second = first_and_second(pbs, job)
    pbs.reboot(second)
    ended = pbs.ended(job, 120 * SCALE + LIMIT_S)
    assert (ended["substate"], ended["Exit_status"]) == (93, 0)


@slow_on_real
def test_a_job_whose_sister_is_dead_at_the_start_waits_and_goes_back(pbs: Cluster) -> None:
    with pbs.holding_up("losses"):  # until it is placed there
        pbs.off(pbs.hosts[1])
        job = pbs.submit("sleep 600\n", *TWO)
        assert pbs.until(job, lambda now: now["job_state"] == "R")["substate"] == 41
    again = pbs.until(job, lambda now: now.get("run_count") == 2 and now["job_state"] == "R", 120 * SCALE + LIMIT_S)
    assert pbs.hosts[1] not in again["exec_host"]


@slow_on_real
def test_a_job_that_tolerates_starts_with_a_dead_sister_in_its_nodefile(pbs: Cluster) -> None:
    with pbs.holding_up("losses"):
        pbs.off(pbs.hosts[1])
        job = pbs.submit("cat $PBS_NODEFILE; sleep 600\n", *TWO, "-W", "tolerate_node_failures=all")
        pbs.said(job, lambda log: pbs.hosts[1] in log, 60 * SCALE + LIMIT_S)


@slow_on_real
def test_a_tmrsh_to_a_dead_sister_hangs_and_then_says_0(pbs: Cluster) -> None:
    script = f"pbs_tmrsh {SECOND} /bin/sleep 900 &\necho ready\nwait $!\necho client $?\nsleep 900\n"
    job = pbs.running(script, *TWO)
    _, second = first_and_second(pbs, job)
    wait_for(lambda: pbs.root("pgrep -f 'sleep 90[0]'", host=second).out, lambda: pbs.log(job))
    began = time.monotonic()
    pbs.off(second)
    pbs.said(job, lambda log: "client 0" in log, 400 * SCALE + LIMIT_S)
    assert time.monotonic() - began > 300 * SCALE


def test_named_hosts_can_be_asked_for_but_none_left_out(pbs: Cluster) -> None:
    job = pbs.submit(
        "cat $PBS_NODEFILE\n", "-l", "select=1:host=X4407C0S2B0N0+1:host=x4407c0s0b0n0", "-l", "place=scatter"
    )
    pbs.ended(job)
    assert [name.partition(".")[0] for name in pbs.log(job).split()] == ["x4407c0s2b0n0", "x4407c0s0b0n0"]
    job = pbs.submit("true\n", "-l", "select=1:host=!x4407c0s0b0n0")
    comment = pbs.until(job, lambda now: "comment" in now)["comment"]
    assert comment.startswith("Can Never Run: Insufficient amount of resource: host (")


def test_why_a_job_waits(pbs: Cluster) -> None:
    pbs.running("echo ready; sleep 600\n", "-l", "select=4", "-l", "place=scatter")
    job = pbs.submit("true\n", *TWO)
    assert pbs.until(job, lambda now: "comment" in now)["comment"] == "Not Running: Not enough free nodes available"
    job = pbs.submit("true\n", "-l", "select=5", "-l", "place=scatter")
    assert pbs.until(job, lambda now: "comment" in now)["comment"] == "Can Never Run: Not enough total nodes available"
