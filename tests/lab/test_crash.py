"""The training ends badly by itself."""

from __future__ import annotations

import pytest
from harness import Lab


def test_a_crash_by_code_is_relaunched_in_the_same_job(lab: Lab) -> None:
    lab.faults({"kind": "exit", "rank": 1, "step": 50, "code": 3, "once": "crashed"})
    lab.render("--set", "mail.to=alice")
    job = lab.submit()
    lab.finish()
    assert lab.endings() == ["crash", "done"]
    crash = lab.events("ended")[0]
    assert "rank 1 on" in crash["evidence"]
    assert "code 3" in crash["evidence"]
    assert crash["then"] == "relaunch"
    assert {e["job"] for e in lab.events("ended")} == {job}
    assert lab.events("launched")[1]["step"] >= 20
    lab.assert_resumed()
    report = (lab.folder / f"reports/{job}.0.1.txt").read_text()
    assert f"=== Crash Report: Job {job} ===" in report
    assert "Done:         launched again in the same job" in report
    assert "=== Finished: Job" in (lab.folder / f"reports/{job}.0.2.txt").read_text()
    assert "finished</span>" in (lab.folder / "report.html").read_text()
    crashed, finished = lab.mails()
    assert "rapid crash" in crashed and f"=== Crash Report: Job {job} ===" in crashed
    assert "finished" in finished and "=== Finished: Job" in finished


def test_a_segmentation_fault_of_one_rank_is_told_from_its_peers_deaths(lab: Lab) -> None:
    lab.faults({"kind": "segv", "rank": 2, "step": 50, "once": "crashed"})
    lab.render()
    job = lab.submit()
    lab.finish()
    assert lab.endings() == ["crash", "done"]
    assert f"rank 2 on {lab.host_of(job, 1)} " in lab.events("ended")[0]["evidence"]
    assert "signal SEGV" in lab.events("ended")[0]["evidence"]
    lab.assert_resumed()


def test_a_rank_that_stays_after_another_died_does_not_keep_the_job(lab: Lab) -> None:
    lab.faults(
        {"kind": "kill", "rank": 3, "step": 50, "once": "crashed"},
        {"kind": "stay", "rank": 0, "once": "stayed"},
        {"kind": "stay", "rank": 1, "once": "stayed.too"},
    )
    lab.render()
    lab.submit()
    lab.finish()
    assert lab.endings() == ["crash", "done"]
    assert "rank 3 on" in lab.events("ended")[0]["evidence"]
    assert "signal KILL" in lab.events("ended")[0]["evidence"]
    lab.assert_resumed()


@pytest.mark.seldom
def test_three_jobs_without_progress_hold_the_run(lab: Lab) -> None:
    lab.faults({"kind": "exit", "rank": 0, "step": 5, "code": 1})
    lab.render("--set", "guard.attempts=1", "--set", "guard.same_failure=9", "--set", "mail.to=alice")
    lab.submit()
    held = lab.wait_event("held", 150)
    lab.wait_until_empty()
    assert lab.endings() == ["crash"] * 3
    assert len({e["job"] for e in lab.events("ended")}) == 3
    assert "3 jobs in a row" in held["why"]
    assert "outlast resume" in held["todo"]
    assert (lab.folder / "control/hold").exists()
    (mail,) = lab.mails()
    assert held["why"] in mail
    assert f"=== Crash Report: Job {held['job']} ===" in mail


@pytest.mark.seldom
def test_the_same_failure_at_the_same_step_three_times_holds_the_run(lab: Lab) -> None:
    lab.faults({"kind": "exit", "rank": 0, "step": 30, "code": 1})
    lab.render("--set", "guard.attempts=9")
    lab.submit()
    held = lab.wait_event("held", 150)
    lab.wait_until_empty()
    assert lab.endings() == ["crash"] * 3
    assert "same failure" in held["why"]
    assert len({e["job"] for e in lab.events("ended")}) == 1


@pytest.mark.seldom
def test_a_trainer_that_starts_at_0_instead_of_its_checkpoint_is_stopped_and_held(lab: Lab) -> None:
    lab.faults({"kind": "exit", "rank": 1, "step": 50, "once": "crashed"}, {"kind": "fresh_start"})
    lab.render()
    job = lab.submit()
    lab.wait_event("held", 90)
    lab.wait_until_empty()
    assert lab.endings() == ["crash", "wrong_resume"]
    assert lab.successors(job) == []
    assert lab.durable_steps()[-1] == lab.events("launched")[1]["step"]


@pytest.mark.seldom
def test_an_exit_with_0_long_before_the_target_is_held(lab: Lab) -> None:
    lab.faults({"kind": "exit0", "step": 30})
    lab.render()
    job = lab.submit()
    lab.wait_event("held", 90)
    lab.wait_until_empty()
    assert lab.endings() == ["early_exit"]
    assert lab.successors(job) == []


def test_a_command_that_is_not_there_stops_the_run(lab: Lab) -> None:
    lab.render("--set", "command=pithon -u train.py {resume}")
    job = lab.submit()
    lab.wait_event("held", 60)
    lab.wait_until_empty()
    assert lab.endings() == ["launch"]
    assert "127" in lab.events("ended")[0]["evidence"]
    assert lab.successors(job) == []


@pytest.mark.seldom
@pytest.mark.parametrize("kind", ["enospc"])
def test_a_full_disk_on_a_node_is_storage_and_nobodys_crash(lab: Lab, kind: str) -> None:
    lab.faults({"kind": kind, "step": 30, "once": "full"})
    lab.render()
    lab.submit()
    lab.finish()
    assert lab.endings() == ["storage", "done"]
    assert "No space left on device" in lab.events("ended")[0]["evidence"]
    lab.assert_resumed()
