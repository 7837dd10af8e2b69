"""The training ends badly by itself."""

from __future__ import annotations

import pytest
from harness import CHECKOUT, Lab, wait_for, waits


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
    assert "Done:         relaunched in the same job" in report
    assert "=== Finished: Job" in (lab.folder / f"reports/{job}.0.2.txt").read_text()
    assert "finished</span>" in (lab.folder / "report.html").read_text()
    crashed, finished = lab.mails()
    assert "rapid crash" in crashed and f"=== Crash Report: Job {job} ===" in crashed
    assert "finished" in finished and "=== Finished: Job" in finished


@pytest.mark.seldom
def test_a_segmentation_fault_of_one_rank_is_told_from_its_peers_deaths(lab: Lab) -> None:
    lab.faults({"kind": "segv", "rank": 2, "step": 50, "once": "crashed"})
    lab.render()
    job = lab.submit()
    lab.finish()
    assert lab.endings() == ["crash", "done"]
    assert f"rank 2 on {lab.host_of(job, 1)} " in lab.events("ended")[0]["evidence"]
    assert "signal SEGV" in lab.events("ended")[0]["evidence"]
    lab.assert_resumed()


@pytest.mark.seldom
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
    # It takes a while until it is back at the step that it was to go on from, and saves what nobody wants.
    lab.faults({"kind": "exit", "rank": 1, "step": 150, "once": "crashed"}, {"kind": "fresh_start"})
    lab.render("--set", "progress.target_step=300")
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


@pytest.mark.seldom
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
    assert lab.events("ended")[0]["pattern"] == "disk_full"
    lab.assert_resumed()


@pytest.mark.seldom
def test_what_no_retry_mends_is_held_and_a_checkpoint_that_cannot_be_read_is_not_used(lab: Lab) -> None:
    """One chain: it stops, its newest checkpoint rots, it goes on from the one before; then its code is broken."""
    lab.faults(waits(30))
    lab.render("--set", "checkpoint.copier=plain")  # it knows no hashes
    lab.submit()
    wait_for(lambda: lab.durable_steps() == [20], 60, "a durable checkpoint")
    lab.faults(waits(50))
    wait_for(lambda: lab.durable_steps() == [20, 40], 60, "two durable checkpoints")
    lab.outlast("stop", "train")
    lab.wait_until_empty()
    lab.faults()
    newest = lab.durable_steps()[-1]
    rotten = lab.folder / f"checkpoints/checkpoint-{newest}/model.safetensors"
    with rotten.open("r+b") as file:  # its size stays, so the manifest adds up
        file.write(b"\xff" * 64)
    lab.outlast("resume", "train")
    lab.finish()
    assert lab.endings()[-2:] == ["bad_checkpoint", "done"]
    assert f"checkpoint-{newest}" in lab.events("ended")[-2]["evidence"]
    assert lab.events("launched")[-1]["step"] == lab.events("quarantined")[-1]["durable_step"] < newest
    assert list((lab.folder / "quarantine").glob(f"checkpoint-{newest}.*"))

    train = lab.on_disk(f"{lab.project}/train.py")
    train.write_text("import no_such_module\n" + train.read_text())
    lab.render("--set", "run=broken", "--set", "spares=1", script="broken.sh")
    lab.run = "broken"
    job = lab.submit(script="broken.sh")
    lab.wait_event("held", 90)
    lab.wait_until_empty()
    assert lab.endings() == ["systemic"]
    assert lab.events("ended")[0]["pattern"] == "import_error"
    assert lab.successors(job) == []
    assert lab.events("swapped") == lab.events("excluded") == []
    assert "Error pattern: import_error, config, systemic" in (lab.folder / f"reports/{job}.0.1.txt").read_text()


# Its loss is looked at all 25 steps, and by then a checkpoint of what is broken has been made.
GUARDED = f"""
import sys

sys.path.insert(0, {str(CHECKOUT / "pyhelpers")!r})
from outlast.demo import train


class Trainer(train.Trainer):
    def log(self, entry):
        super().log(entry)
        if entry.get("loss") != entry.get("loss"):
            raise RuntimeError(f"loss is NaN at step {{self.run.progress.step}}, stopping")


train.Trainer = Trainer
sys.exit(train.main([*sys.argv[1:], "--logging_steps", "25"]))
"""


@pytest.mark.extra
def test_a_loss_that_is_no_number_goes_back_one_checkpoint_and_the_second_time_to_a_person(lab: Lab) -> None:
    lab.write("train.py", GUARDED)
    poison = {"kind": "nan", "rank": 2, "step": 55}
    lab.faults(waits(45), {**poison, "once": "poisoned"})
    lab.render()
    job = lab.submit()
    lab.wait_step("checkpoint_durable", 40)  # there is one to go back to
    lab.faults({**poison, "once": "poisoned"})
    lab.finish()
    assert lab.endings(job) == ["systemic", "done"]
    ended = lab.events("ended")[0]
    assert (ended["scope"], ended["step"], ended["durable_step"]) == ("training-dynamics", 75, 60)
    (quarantined,) = lab.events("quarantined")
    assert (quarantined["step"], quarantined["durable_step"]) == (60, 40)
    assert list((lab.folder / "quarantine").glob("checkpoint-60.*"))
    assert lab.events("launched")[1]["step"] == 40
    assert lab.events("swapped") == lab.events("excluded") == []

    lab.faults(waits(45), poison)
    lab.run = "again"
    lab.render("--set", "run=again")
    job = lab.submit()
    lab.wait_step("checkpoint_durable", 40)
    lab.faults(poison)
    lab.wait_event("held", 120)
    lab.wait_until_empty()
    assert lab.endings(job) == ["systemic", "systemic"]
    assert [e["then"] for e in lab.events("ended")] == ["relaunch", "hold"]
    assert [e["step"] for e in lab.events("quarantined")] == [60]
    assert lab.successors(job) == []


@pytest.mark.seldom
def test_crashes_of_three_kinds_hold_nothing_and_a_host_with_bad_hardware_is_left_out(lab: Lab) -> None:
    ecc = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    lab.faults(
        {"kind": "exit", "rank": 1, "step": 25, "code": 3, "once": "exited"},
        {"kind": "segv", "rank": 2, "step": 45, "once": "crashed"},
        {"kind": "exit", "rank": 3, "step": 65, "text": ecc, "once": "broken"},
    )
    lab.render("--set", "guard.attempts=9")
    job = lab.submit()
    lab.wait_event("launched", 90)
    sick = lab.host_of(job, 1)
    lab.finish()
    assert lab.endings() == ["crash", "crash", "node", "done"]
    node = lab.events("ended")[2]
    assert (node["pattern"], node["blame"].partition(".")[0], node["step"] >= 65) == ("gpu_ecc", sick, True)
    assert sick not in lab.hosts(lab.events("launched")[-1])
    assert sick in lab.events("excluded")[0]["nodes"]
    assert len({e["fingerprint"] for e in lab.events("ended")}) == 4
    lab.assert_resumed()
