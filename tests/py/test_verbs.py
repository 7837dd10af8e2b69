"""The verbs for runs, from the words typed to the files and questions that come of them."""

import errno
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trees
from conftest import Fake, event

from outlast import commands, ledger, runstate
from outlast.badnodes import lock
from outlast.commands import _common
from outlast.commands.events import is_over

ROOT = Path(__file__).parents[2]

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
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
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


def test_save_is_taken_from_a_job_whose_start_is_not_in_the_ledger_yet(fake: Fake) -> None:
    run = fake.run("r1", RUNS[0])
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
    assert commands.main(["save", "r1"]) == 0
    assert run.asked("save")


def test_save_says_that_a_trainer_cannot_be_asked(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", *RUNS)
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
    run.script.write_text(run.script.read_text() + "OUTLAST_PRESET='script'\nOUTLAST_SAVE_SIGNAL=''\n")
    assert commands.main(["save", "r1"]) == 1
    assert run.asked("save") == []
    assert "preset script has no save_signal), so nothing was written; if it saves at USR1" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["stop", "hold", "cancel"])
def test_a_finished_run_is_left_alone(verb: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", *RUNS, "1 finished step=200", "1 ended class=done then=finish")
    run.finished.touch()
    assert commands.main([verb, "r1"]) == 1
    assert list((run.path / "control").iterdir()) == []
    assert capsys.readouterr().err == f"outlast: r1 has finished, so there is nothing to {verb}; nothing was written\n"


def test_stop_of_a_run_that_is_stopped_says_so(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", *RUNS, "1 ended class=stopped then=stop")
    assert commands.main(["stop", "r1"]) == 0
    assert "no job of it is there" in capsys.readouterr().out
    before = run.control("stop").stat()
    assert commands.main(["stop", "r1"]) == 1
    assert "stopped already" in capsys.readouterr().err
    assert run.control("stop").stat() == before


def test_stop_is_written_again_while_a_job_lives(fake: Fake) -> None:
    run = fake.run("r1", *RUNS)
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
    assert [commands.main(["stop", "r1", "--why", why]) for why in ("one", "two")] == [0, 0]
    assert run.asked("stop")[0].endswith(": two")


def test_resume_after_the_end_date_says_what_to_change(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", *RUNS, "1 ended class=walltime then=hold", "1 held why=late")
    run.script.write_text(run.script.read_text() + "OUTLAST_END_DATE='2020-01-01'\n")
    assert commands.main(["resume", "r1"]) == 1
    assert fake.asked == []
    assert f"set OUTLAST_END_DATE in {run.script}" in capsys.readouterr().err


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


def test_of_two_that_resume_at_once_one_submits_and_the_other_finds_its_job(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fake.run("r1", *RUNS, "1 ended class=crash then=hold")
    fake.says("submit", 0, "2")
    fake.says("state.2", 0, "state=pending verdict=none restarts=0")
    submit, codes, other_is_there = _common.submit, [], threading.Event()
    other = threading.Thread(target=lambda: codes.append(commands.main(["resume", "r1"])))

    def submits_while_another_comes(*words: Any) -> str:
        if other.ident:
            other_is_there.set()
        else:
            other.start()
            assert other_is_there.wait(60)
        return submit(*words)

    def waits(_: float, most_s: float) -> float:
        other_is_there.set()
        return most_s

    monkeypatch.setattr(_common, "submit", submits_while_another_comes)
    monkeypatch.setattr(lock.random, "uniform", waits)
    codes.append(commands.main(["resume", "r1"]))
    other.join(60)
    assert codes == [0, 0]
    assert len(fake.asked) == 1
    assert "r1: job 2 is there already, nothing submitted" in capsys.readouterr().out
    assert list(run.path.glob(".submit*")) == []


def test_resume_after_a_resume_that_was_killed(fake: Fake) -> None:
    run = fake.run("r1", *RUNS, "1 ended class=crash then=hold")
    fake.says("submit", 0, "2")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
        (run.path / ".submit.lock").write_text(f"here {lock._system()} {ended.pid} 00\n")
        assert commands.main(["resume", "r1"]) == 0
    assert len(fake.asked) == 1


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


NODES = (
    "1 started nodes=5",
    "1 excluded nodes=n9 why=of_the_start_before",
    "1 started nodes=5",
    "1 excluded nodes=n2 why=hang",
    "1 swapped out=n2 in=n4 slot=1",
    "1 swapped out=n3 in=n5 slot=2 how=move why=again",
    "2 excluded nodes=n8 why=of_another_job",
)


def test_status_tells_of_spares_and_of_nodes_that_are_out_of_use(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fake.run("r1", *RUNS, *NODES)
    with run.script.open("a") as script:
        script.write("OUTLAST_NODES=3\n")
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
    assert commands.main(["status", "r1"]) == 0
    assert capsys.readouterr().out.splitlines()[3:6] == [
        "nodes  1 of 2 spares left",
        "out    n2 (hang)",
        "swaps  n4 for n2; n5 for n3 (again)",
    ]
    assert commands.main(["status", "r1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["nodes"]
    assert (told["count"], told["spares"], told["spares_left"], told["dropped"]) == (5, 2, 1, {"n2": "hang"})
    assert told["swaps"][1] == {"slot": 2, "host": "n3", "replaced_by": "n5", "how": "move", "why": "again"}


def test_status_json_has_named_fields(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.run("r1", *RUNS)
    assert commands.main(["status", "r1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["step"], told["durable_step"], told["target_step"]) == ("lost", 120, None, 200)
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("status", "outlast: missing argument 'RUN'; outlast status --help says what it takes"),
        ("status a b", "outlast: got unexpected extra argument"),
        ("status a --bogus", "outlast: no such option: --bogus; outlast status --help"),
        ("ckpt list", "outlast: missing argument 'WHERE'; outlast ckpt list --help"),
        ("ckpt prune x --newest many", "outlast: invalid value for '--newest'"),
        ("submit local smoke --walltime -1:00:00", "outlast: --walltime is a time such as"),
        (
            "render local smoke --account -x",
            "render: --account takes a value; one that begins with - is typed --account=",
        ),
        ("render local smoke --walltime -1:00:00", "render: --walltime takes a value; one that begins"),
        ("render local smoke more", "render: unrecognized arguments: more; render --help"),
        ("render local smoke --wall 1h", "render: unrecognized arguments: --wall 1h; render --help"),
        ("launch local --bogus -- true", "outlast: unrecognized arguments: --bogus; outlast launch --help"),
        ("watch --bogus -- true", "outlast: unrecognized arguments: --bogus; outlast watch --help"),
        ("no-such-verb", "outlast: no verb 'no-such-verb'"),
    ],
)
def test_wrong_usage_is_one_line(fake: Fake, words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(words.split()) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(said) and told.err.endswith("\n") and told.err.count("\n") == 1


def test_help_is_help_for_every_parser(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["status", "--help"]) == 0
    for verb in ("render", "launch", "watch"):
        with pytest.raises(SystemExit) as end:
            commands.main([verb, "--help"])
        assert end.value.code == 0
    assert capsys.readouterr().err == ""


def test_a_run_by_path_needs_no_site(fake: Fake, tmp_path: Path) -> None:
    run = fake.run("r1", *RUNS)
    (tmp_path / "root/sites/broken").mkdir()
    (tmp_path / "root/sites/broken/site.toml").write_text("= no TOML")
    assert commands.main(["status", str(run.path)]) == 0


def told(*words: str) -> subprocess.CompletedProcess[str]:
    """outlast in a process of its own; where we are root it lacks what makes every folder open to root."""
    bare = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--") if os.geteuid() == 0 else ()
    env = {**os.environ, "PYTHONPATH": str(ROOT / "pyhelpers"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = (*bare, sys.executable, "-m", "outlast", *words)
    return subprocess.run(words, env=env, cwd="/", text=True, capture_output=True, check=False)


@pytest.fixture
def closed() -> Iterator[Path]:
    """A run that nobody but root may enter, in a folder that everybody may."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        run = Path(folder) / "runs/r1"
        run.mkdir(parents=True)
        Path(folder).chmod(0o755)
        (run / "job.sh").write_text("OUTLAST_SCHEDULER=local\n")
        run.chmod(0)
        yield run
        run.chmod(0o700)


@pytest.mark.parametrize("verb", ["status", "events", "summary", "stop", "hold", "save", "resume", "cancel"])
def test_a_run_that_we_may_not_enter_is_one_line(verb: str, closed: Path) -> None:
    answer = told(verb, str(closed))
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert answer.stderr.startswith(f"outlast: {closed}: Permission denied")


def test_a_run_is_not_made_where_we_may_not_look(closed: Path) -> None:
    answer = told("submit", "local", "smoke", "--set", f"runs_dir={closed}")
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert "Permission denied" in answer.stderr


def test_a_run_of_our_name_that_we_may_not_enter_is_told(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_RUNS", str(closed.parent))
    answer = told("status", "r1")
    assert answer.stderr.startswith(f"outlast: {closed}: Permission denied")


def test_what_the_system_refuses_is_one_line(
    fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/lus/x")

    fake.run("r1", *RUNS)
    monkeypatch.setattr(runstate, "status", full)
    assert commands.main(["status", "r1"]) == 1
    assert capsys.readouterr().err == "outlast: /lus/x: No space left on device\n"


def test_a_name_that_is_too_long_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["status", "/tmp/" + "x" * 300]) == 1
    assert "File name too long" in capsys.readouterr().err


def test_a_torn_job_script_is_one_line(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", *RUNS)
    for text in ("", "OUTLAST_SCHEDULER='lo"):
        run.script.write_text(text)
        assert commands.main(["status", "r1"]) == 1
        assert capsys.readouterr().err.startswith(f"outlast: {run.script}")


@pytest.mark.parametrize("t", ["1e400", "-1e400", "NaN", "-5", "1e300", "1" + "0" * 400, "253402300800"])
def test_an_event_of_no_time_is_left_out(t: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("r1", *RUNS)
    with run.events.open("a") as file:
        file.write(f'{{"t":{t},"run":"r1","job":"1","restart":0,"attempt":1,"seq":9,"event":"progress","step":7}}\n')
    assert [commands.main([verb, "r1"]) for verb in ("events", "summary", "status")] == [0, 0, 0]
    assert "step 7" not in capsys.readouterr().out


def test_status_shows_a_hold_on_a_running_job(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.run("r1", *RUNS)
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
    commands.main(["hold", "r1", "--why", "disk"])
    capsys.readouterr()
    commands.main(["status", "r1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "r1     running, job 1"
    assert lines[3].startswith("why    no further job after this one: hold asked for by ") and lines[3].endswith("disk")
    assert lines[4] == "next   outlast resume r1, if the chain shall go on"


def test_status_tells_that_the_trainer_waits_for_its_next_launch(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = "evidence=rank_0_ended_with_code_2"
    fake.run("r1", *RUNS, f"1 ended class=crash {evidence} then=relaunch")
    fake.says("state.1", 0, "state=running verdict=none restarts=0")
    commands.main(["status", "r1"])
    wanted = "the trainer is not running: waits to launch again: crash (rank_0_ended_with_code_2)"
    assert f"why    {wanted}" in capsys.readouterr().out.splitlines()


def test_status_quotes_a_path_for_the_shell(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    run = fake.run("a b", *RUNS)
    commands.main(["status", str(run.path)])
    assert f"outlast resume '{run.path}'" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["status"], ["status", "--json"], ["events"], ["events", "--json"], ["summary"]])
def test_no_verb_tells_a_secret_of_the_ledger_or_of_a_hold(
    words: list[str], fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "https://ada:hunter2@mirror"
    run = fake.run("r1", "7 started", f"7 ended class=launch evidence={secret} then=hold", f"7 held why={secret}")
    (run.path / "control/hold").write_text(f"launch: {secret}\n")
    assert commands.main([words[0], "r1", *words[1:]]) == 0
    told = capsys.readouterr().out
    assert "ada:***@mirror" in told
    assert "hunter2" not in told
