"""The verbs for runs, from the words typed to the files and questions that come of them."""

import json
from pathlib import Path

import pytest
import trees
from conftest import Fake, event

from outlast import commands, ledger
from outlast.commands.events import is_over

RUNS = ("- submitted successor=1", "1 started host=n1 durable_step=0", "1 progress step=120")


def test_stop_leaves_a_file_that_says_who_and_why(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", *RUNS)
    assert commands.main(["stop", "r1", "--why", "bad\nlearning rate"]) == 0
    assert len(run.asked("stop")) == 1
    assert run.asked("stop")[0].endswith(": bad learning rate")
    assert "outlast resume r1" in capsys.readouterr().out


def test_a_run_of_a_site_from_outside_is_found_by_its_name(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fake.run("r1", *RUNS)
    folder = trees.outside(tmp_path / "mine", "sea")
    facts = folder / "sea/site.toml"
    facts.write_text(facts.read_text().replace("/lus/{account}/{user}", str(fake.runs)))
    monkeypatch.delenv("OUTLAST_RUNS")
    monkeypatch.setenv("OUTLAST_SITES", str(folder))
    assert commands.main(["hold", "r1"]) == 0
    assert run.asked("hold")


def test_hold_says_what_to_type(fake: Fake) -> None:
    run = fake.run("r1", *RUNS)
    assert commands.main(["hold", str(run.path)]) == 0
    assert run.asked("hold")[1] == f"outlast resume {run.path}"


@pytest.mark.parametrize("verb", ["stop", "save", "hold", "resume", "cancel"])
def test_dry_run_changes_nothing(verb: str, fake: Fake) -> None:
    run = fake.run("r1", *RUNS)
    before = run.events.read_text()
    assert commands.main([verb, "r1", "--dry-run"]) == 0
    assert list((run.path / "control").iterdir()) == []
    assert fake.asked == []
    assert run.events.read_text() == before


def test_save_is_refused_when_no_job_runs(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", RUNS[0])
    assert commands.main(["save", "r1"]) == 1
    assert run.asked("save") == []
    assert "no job is running" in capsys.readouterr().err


def test_resume_clears_the_hold_and_submits_the_runs_own_script(fake: Fake) -> None:
    run = fake.run("r1", *RUNS, "1 ended class=crash then=hold", "1 held why=stuck")
    (run.path / "project_dir").write_text("/home/ann/project\n")
    commands.main(["hold", "r1"])
    fake.says("submit", 0, "2")
    assert commands.main(["resume", "r1"]) == 0
    assert run.asked("hold") == []
    assert fake.asked == [f"submit {run.script} r1 output={run.path}/logs/%j.out dir=/home/ann/project"]
    events = ledger.read(run.events)
    assert [e.name for e in events[-2:]] == ["resumed", "submitted"]
    assert events[-1].text("successor") == "2"


def test_resume_submits_nothing_while_a_job_is_there(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.run("r1", *RUNS)
    fake.says("state.1", 0, "state=pending verdict=none restarts=0")
    assert commands.main(["resume", "r1"]) == 0
    assert fake.asked == []
    assert "job 1 is there already" in capsys.readouterr().out


def test_resume_finds_a_job_that_the_ledger_does_not_know_yet(fake: Fake) -> None:
    fake.run("r1")
    fake.says("find.r1", 0, "5")
    assert commands.main(["resume", "r1"]) == 0
    assert fake.asked == []


def test_resume_waits_with_everything_when_the_scheduler_gives_no_answer(fake: Fake) -> None:
    run = fake.run("r1", *RUNS)
    commands.main(["stop", "r1"])
    fake.says("state.1", 2)
    assert commands.main(["resume", "r1"]) == 75
    assert run.asked("stop")
    assert fake.asked == []


def test_resume_holds_the_run_again_when_the_job_is_refused(fake: Fake) -> None:
    run = fake.run("r1", *RUNS)
    fake.says("submit", 1)
    assert commands.main(["resume", "r1"]) == 1
    assert run.asked("hold")[0].startswith("resume failed: fake refused")


def test_resume_refuses_a_run_that_has_finished(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", *RUNS)
    run.finished.touch()
    assert commands.main(["resume", "r1"]) == 1
    assert f"remove {run.finished}" in capsys.readouterr().err


def test_resume_never_runs_a_script_that_others_can_change(fake: Fake) -> None:
    run = fake.run("r1", *RUNS)
    run.script.chmod(0o770)
    fake.says("submit", 0, "2")
    assert commands.main(["resume", "r1"]) == 1
    assert fake.asked == []


def test_cancel_takes_the_successor_first_and_only_jobs_of_our_ledger(fake: Fake) -> None:
    run = fake.run("r1", *RUNS, "1 submitted successor=2")
    for job, state in (("1", "running"), ("2", "pending"), ("3", "running")):
        fake.says(f"state.{job}", 0, f"state={state} verdict=none restarts=0")
    fake.says("find.r1", 0, "3")
    assert commands.main(["cancel", "r1"]) == 0
    assert fake.asked == ["cancel 2 1"]
    assert run.asked("stop")


def test_cancel_leaves_jobs_alone_that_have_ended(fake: Fake) -> None:
    fake.run("r1", *RUNS, "1 submitted successor=2", "1 ended class=walltime then=submit")
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
    fake.says("state.2", 0, "state=pending verdict=none restarts=0")
    assert commands.main(["cancel", "r1"]) == 0
    assert fake.asked == ["cancel 2"]


def test_cancel_asks_nothing_for_a_job_that_was_lost(fake: Fake) -> None:
    fake.run("r1", *RUNS, "- submitted successor=2")
    fake.says("state.2", 0, "state=running verdict=none restarts=0")
    assert commands.main(["cancel", "r1"]) == 0
    assert fake.asked == ["cancel 2"]


def test_cancel_takes_a_job_too_that_nobody_can_tell_about(fake: Fake) -> None:
    fake.run("r1", *RUNS)
    fake.says("state.1", 2)
    assert commands.main(["cancel", "r1"]) == 0
    assert fake.asked == ["cancel 1"]


def test_status_tells_state_steps_and_the_next_command(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.run("r1", *RUNS, "1 checkpoint_durable step=100")
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
    assert commands.main(["status", "r1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "r1     running, job 1",
        "step   120 of 200; 100 is safe",
        "chain  1",
        "next   outlast events r1 --follow",
    ]


def test_status_json_has_named_fields(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.run("r1", *RUNS)
    assert commands.main(["status", "r1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["step"], told["durable_step"], told["target_step"]) == ("lost", 120, 0, 200)
    assert told["todo"] == "outlast resume r1"


def test_events_follow_ends_with_the_run(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.run("r1", *RUNS, "1 finished step=200", "1 ended class=done then=finish")
    assert commands.main(["events", "r1", "--follow"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("job 1 has done its work")


def test_a_held_run_is_not_over_while_a_job_of_it_goes_on() -> None:
    told = [event(number, line) for number, line in enumerate([*RUNS, "1 held why=stuck"], 1)]
    assert not is_over(told)
    assert is_over([*told, event(9, "1 ended class=crash then=hold")])


def test_a_run_without_a_chain_is_over_with_its_job() -> None:
    told = [event(number, line) for number, line in enumerate([*RUNS, "1 ended class=walltime then=submit"], 1)]
    assert not is_over(told, chain=True)
    assert is_over(told, chain=False)


def test_events_json_keeps_every_field(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.run("r1", *RUNS)
    assert commands.main(["events", "r1", "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["event"], last["job"], last["step"]) == ("progress", "1", 120)


def test_an_unknown_run_is_one_line_and_status_1(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["status", "r9"]) == 1
    assert capsys.readouterr().err.startswith("outlast: no run r9 in ")


def test_a_missing_word_is_wrong_usage(fake: Fake) -> None:
    assert commands.main(["status"]) == 2
    assert commands.main(["no-such-verb"]) == 2


def test_a_run_by_path_needs_no_site(fake: Fake, tmp_path: Path) -> None:
    run = fake.run("r1", *RUNS)
    (tmp_path / "root/sites/broken").mkdir()
    (tmp_path / "root/sites/broken/site.toml").write_text("= no TOML")
    assert commands.main(["status", str(run.path)]) == 0
