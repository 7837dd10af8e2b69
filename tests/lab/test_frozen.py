"""The shared file system stops answering for a minute. Who asks it something meanwhile is not even killed by KILL."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from harness import Lab, wait_for

pytestmark = pytest.mark.freezes

MINUTE = 60
# The trainer would look for accidents in its folder on the shared file system, again and again.
NO_FAULTS = ("--set", "env.OUTLAST_DEMO_FAULTS=")


# Nobody waits for its end: it is longer than anything here takes.
ENDLESS = ("--set", "progress.target_step=6000")
# On a node: a job has written down how it ended. Whom nothing answers can still decide.
DECIDED = """grep -hs '"event":"ended"' /mnt/bb/alice/*/state/events.jsonl"""


def freeze_for(lab: Lab, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Freeze, do something else, thaw."""
    lab.command("freeze")
    until = time.monotonic() + seconds
    meanwhile()
    wait_for(lambda: time.monotonic() > until, seconds + 5, "the end of the freeze")
    lab.command("thaw")


def wait_for_saves(lab: Lab, job: str) -> None:
    """The trainer goes on to a checkpoint after the next one, where it saves on its nodes."""

    def newest() -> int:
        names = [name for name in lab.saves(job) if name.startswith("checkpoint-")]
        return max(int(name.removeprefix("checkpoint-")) for name in names)

    if lab.saves_on_nodes:
        before = newest()
        wait_for(lambda: newest() > before + 20, MINUTE, "two more checkpoints on the node")


@pytest.mark.seldom
def test_training_does_not_notice(lab: Lab) -> None:
    lab.render(*NO_FAULTS, "--set", "progress.target_step=1000")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    freeze_for(lab, MINUTE, lambda: wait_for_saves(lab, job))
    lab.finish(180)
    assert lab.endings() == ["done"]
    assert lab.durable_steps()[-1] == 1000
    lab.assert_resumed()


@pytest.mark.seldom
def test_the_job_ends_meanwhile_and_is_followed(lab: Lab) -> None:
    lab.render(*NO_FAULTS, *ENDLESS)
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    host = lab.host_of(job)

    def end() -> None:
        # With its margin of a minute it has to stop after a quarter of a minute.
        lab.end_in(job, 75)
        if lab.saves_on_nodes:
            wait_for(lambda: lab.root(host, "bash", "-c", DECIDED, check=False), MINUTE, "the decision")

    freeze_for(lab, MINUTE, end)
    ended = lab.wait_event("ended", 60, job=job, **{"class": "walltime"})
    successor = lab.successor(job)
    again = lab.wait_event("launched", 120, job=successor)
    assert again["step"] >= ended["durable_step"]
    lab.wait_event("first_step", 60, job=successor)
    lab.assert_resumed()
    lab.outlast("cancel", lab.run_path)
    lab.wait_until_empty()


@pytest.mark.seldom
def test_the_successor_starts_meanwhile(lab: Lab) -> None:
    lab.render(*NO_FAULTS, *ENDLESS)
    job = lab.submit()
    lab.wait_event("first_step")
    lab.end_in(job, 60)  # all of it is margin
    successor = lab.successor(job, 90)
    wait_for(lambda: successor in lab.jobs("running"), 60, "the successor's start")
    freeze_for(lab, MINUTE)
    lab.wait_event("first_step", 120, job=successor)
    lab.assert_resumed()
    lab.outlast("cancel", lab.run_path)
    lab.wait_until_empty()
