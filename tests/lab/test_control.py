"""People ask: stop, save, hold, resume."""

from __future__ import annotations

import pytest
from harness import CHECKOUT, Lab, LabError, wait_for, waits


def test_stop_saves_ends_and_lets_nothing_follow_until_resume(lab: Lab) -> None:
    lab.faults(waits())
    lab.render()
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.outlast("stop", lab.run_path)
    ended = lab.wait_event("ended", 60)
    lab.faults()
    lab.wait_until_empty()
    assert ended["class"] == "stopped"
    assert lab.successors(job) == []
    assert ended["durable_step"] >= ended["step"] - 2  # the trainer saves when asked
    lab.outlast("resume", lab.run_path)
    lab.finish()
    assert lab.endings() == ["stopped", "done"]
    lab.assert_resumed()


@pytest.mark.seldom
def test_a_teammate_may_stop_the_run(lab: Lab) -> None:
    lab.render("--set", "progress.target_step=6000")
    lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.command("as", "bob", "head", str(CHECKOUT / "bin/outlast"), "stop", lab.run_path)
    lab.wait_event("ended", 60, **{"class": "stopped"})
    lab.wait_until_empty()


@pytest.mark.seldom
def test_save_makes_one_checkpoint_now_and_training_goes_on(lab: Lab) -> None:
    lab.faults(waits(20))
    command = "python3 -u train.py --output_dir {ckpt_dir} --max_steps {target_step} --save_steps 0 "
    command += "--step_time 0.1 {resume}"
    lab.render(
        "--set", "progress.target_step=60", "--set", "checkpoint.save_signal=USR1", "--set", f"command={command}"
    )
    lab.submit()
    lab.wait_event("first_step")
    lab.outlast("save", lab.run_path)
    durable = lab.wait_event("checkpoint_durable", 30)
    assert 0 < durable["step"] < 60
    assert not (lab.folder / "control/save").exists()
    lab.faults()
    lab.finish()
    assert lab.endings() == ["done"]


@pytest.mark.seldom
def test_save_warns_where_the_trainer_cannot_be_asked_and_disturbs_nothing(lab: Lab) -> None:
    lab.faults(waits(20))
    lab.render("--set", "progress.target_step=60")
    lab.submit()
    lab.wait_event("first_step")
    with pytest.raises(LabError, match="save_signal"):
        lab.outlast("save", lab.run_path)
    assert not (lab.folder / "control/save").exists()
    # A file that somebody makes by hand goes to the job, which knows no better.
    lab.alice("touch", f"{lab.run_path}/control/save")
    lab.wait_event("warned", 30)
    lab.faults()
    lab.finish()
    assert lab.endings() == ["done"]


@pytest.mark.seldom
def test_hold_lets_the_job_end_and_no_further_one_train(lab: Lab) -> None:
    lab.render("--set", "progress.target_step=6000")
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    lab.outlast("hold", lab.run_path)
    # A job that sees it too late submits, and the next one finds it.
    wait_for(lambda: "seen in the run's folder: hold" in lab.log(job), 30, "that the job sees it")
    lab.end_in(job, 75)
    lab.wait_event("ended", 60, job=job)
    lab.wait_until_empty()
    assert lab.endings() == ["walltime"]
    assert lab.successors(job) == []
    assert len(lab.events("launched")) == 1
    lab.outlast("resume", lab.run_path)
    wait_for(lambda: len(lab.events("launched")) == 2, 60, "a launch after resume")
    lab.outlast("cancel", lab.run_path)
    lab.wait_until_empty()


@pytest.mark.seldom
def test_what_is_pinned_and_changes_holds_the_next_job_until_a_person_accepts_it(lab: Lab) -> None:
    words = lab.write("words.txt", "one two")
    lab.faults(waits())
    lab.render("--set", 'pins.files=["words.txt"]', "--set", 'pins.commands=["echo $HOME"]')
    job = lab.submit()
    lab.wait_event("pins", answer="written")
    lab.wait_event("checkpoint_durable")
    words.write_text("one two three")
    lab.end_in(job, 60)  # all of it is margin
    lab.wait_event("ended", job=job)
    lab.faults()
    held = lab.wait_event("held", 240)
    assert "words.txt has changed (13 bytes, was 7;" in held["why"]
    lab.wait_until_empty()
    assert lab.endings() == ["walltime", "drift"]
    assert len(lab.events("launched")) == 1
    lab.outlast("resume", lab.run_path, "--accept-pins")
    lab.finish(480)
    assert lab.endings()[-1] == "done"
    lab.assert_resumed()
