"""Something befalls a job with spares: who is left out, and from where it goes on."""

from __future__ import annotations

import pytest
import torch_job
from harness import Event, Lab, wait_for
from test_torch import assert_each_step_has_one_loss

RANK = f"^[^ ]*python -u {torch_job.TRAINER}"
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def train(lab: Lab, *options: str, nodes: int = 4, steps: int = 200) -> str:
    """The id of a job with one rank on each of its hosts."""
    told = [f"nodes={nodes}", "ranks_per_node=1", f"progress.target_step={steps}", *options]
    lab.render(*(word for text in told for word in ("--set", text)))
    return lab.submit()


def train_with_torch(lab: Lab, *options: str, steps: int, words: str = "--every 20") -> str:
    """The same, but the ranks are torch's, so none goes on without the others."""
    torch_job.render(lab, *options, words=words, steps=steps)
    return lab.submit()


def is_training(lab: Lab, host: str) -> bool:
    """Does a rank run there?"""
    return bool(lab.root(host, "pgrep", "-f", RANK, check=False))


def assert_spare_has_the_place(lab: Lab, job: str, slot: int) -> Event:
    """The second launch of the job has another host in that place and the others in theirs; the first one's ending."""
    first, second = (lab.hosts(event) for event in lab.events("launched", job=job)[:2])
    (swap,) = lab.events("swapped", job=job)
    assert (swap["slot"], swap["out"].partition(".")[0]) == (slot, first[slot])
    assert second[slot] not in first
    assert [*second[:slot], *second[slot + 1 :]] == [*first[:slot], *first[slot + 1 :]]
    return lab.events("ended", job=job, attempt=1)[0]


def reboot(lab: Lab, host: str) -> None:
    """It loses its power, and is back before the scheduler misses it."""
    lab.command("off", host)
    lab.root("head", "sleep", "20")
    lab.command("on", host)


@pytest.mark.torch
@pytest.mark.extra
@pytest.mark.hosts(6)
def test_hosts_that_are_back_after_20_s_are_left_out_of_their_job(lab: Lab) -> None:
    lab.miss_hosts_for(300)
    job = train_with_torch(lab, "spares=2", steps=400)
    lab.wait_event("checkpoint_durable", 120, step=40)
    first = lab.hosts(lab.events("launched")[0])
    reboot(lab, first[2])
    lab.wait_event("launched", lab.detected_s + 60, job=job, attempt=2)
    ended = assert_spare_has_the_place(lab, job, 2)
    assert (ended["class"], ended["then"], ended["blame"].partition(".")[0]) == ("node", "relaunch", first[2])
    # Ranks and hosts have different orders now.
    lab.wait_event("checkpoint_durable", 60, attempt=2)
    reboot(lab, first[3])
    again = lab.wait_event("launched", lab.detected_s + 60, job=job, attempt=3)
    assert not {first[2], first[3]} & set(lab.hosts(again))
    lab.finish()
    assert lab.endings() == ["node", "node", "done"]
    lab.assert_resumed()
    assert_each_step_has_one_loss(lab, 400)


@pytest.mark.torch
@pytest.mark.extra
@pytest.mark.hosts(6)
def test_a_host_that_is_cut_off_is_left_out_and_what_lives_there_writes_nothing(lab: Lab) -> None:
    lab.miss_hosts_for(300)
    job = train_with_torch(lab, "spares=1", steps=300)
    lab.wait_event("checkpoint_durable", 120, step=40)
    cut = lab.host_of(job, 2)
    lab.command("cut", cut)
    again = lab.wait_event("launched", lab.detected_s + 60, job=job, attempt=2)
    ended = assert_spare_has_the_place(lab, job, 2)
    assert (ended["class"], ended["then"]) == ("node", "relaunch")
    assert again["step"] >= 40
    # The file servers are behind another cable, so its rank could write.
    assert is_training(lab, cut)
    lab.wait_event("first_step", 60, job=job, attempt=2)
    lab.command("heal", cut)
    wait_for(lambda: not is_training(lab, cut), 120, "the end of the old rank")
    lab.finish()
    assert lab.endings() == ["node", "done"]
    lab.assert_resumed()
    assert_each_step_has_one_loss(lab, 300)


@pytest.mark.torch
@pytest.mark.extra
@pytest.mark.hosts(6)
@pytest.mark.parametrize("rank", [0, 2])
def test_the_host_of_a_rank_that_stops_is_named_whichever_it_is(lab: Lab, rank: int) -> None:
    job = train_with_torch(lab, "spares=1", "watchdog.idle_s=10", "watchdog.save_s=60", steps=200)
    lab.wait_event("checkpoint_durable", 120, step=40)
    victim = lab.host_of(job, rank)
    lab.root(victim, "pkill", "-STOP", "-f", RANK)
    ended = lab.wait_event("ended", 120, job=job)
    assert (ended["class"], ended["blame"].partition(".")[0]) == ("hang", victim)
    if rank:
        lab.wait_event("launched", 60, job=job, attempt=2)
        assert_spare_has_the_place(lab, job, rank)
        lab.finish()
        assert lab.endings() == ["hang", "done"]
    else:
        # It runs the script, so no spare can take its place.
        assert ended["then"] == "submit"
        again = lab.wait_event("launched", 120, job=lab.successor(job))
        assert lab.scheduler == "pbs" or victim not in lab.hosts(again)
        lab.finish()
    lab.assert_resumed()
    assert_each_step_has_one_loss(lab, 200)


@pytest.mark.extra
@pytest.mark.hosts(6)
@pytest.mark.parametrize("insured", [False, True], ids=["requeue", "insurance"])
def test_the_first_host_dies_and_only_another_start_has_spares_again(lab: Lab, insured: bool) -> None:
    job = train(lab, "spares=1", *(["successor=launch"] if insured else []), steps=500)
    lab.wait_event("checkpoint_durable")
    dead = lab.host_of(job)
    then = {"job": lab.successor(job)} if insured else {"job": job, "restart": 1}
    lab.command("off", dead)
    again = lab.wait_event("launched", lab.detected_s, **then)
    assert dead not in lab.hosts(again)
    assert len(lab.hosts(again)) == 4
    assert again["step"] > 0
    assert lab.events("started", **then)[0]["nodes"] == 5
    lab.finish()
    assert lab.endings()[-1] == "done"
    assert lab.events("swapped") == []
    lab.assert_resumed()


@pytest.mark.extra
@pytest.mark.hosts(7)
def test_three_crashes_on_three_hosts_and_the_fourth_attempt_finishes(lab: Lab) -> None:
    lab.faults(
        *({"kind": "exit", "rank": n, "step": 5 + 20 * n, "text": ECC, "once": f"broken.{n}"} for n in (1, 2, 3))
    )
    job = train(lab, "spares=3", steps=120)
    lab.finish()
    assert lab.endings(job) == ["node", "node", "node", "done"]
    launches = [lab.hosts(event) for event in lab.events("launched", job=job)]
    assert len(launches) == 4
    assert [event["slot"] for event in lab.events("swapped")] == [1, 2, 3]
    assert len({host for hosts in launches for host in hosts}) == 7
    assert set(launches[0]) & set(launches[-1]) == {launches[0][0]}
    assert lab.successors(job) == []
    lab.assert_resumed()
