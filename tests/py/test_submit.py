"""submit and launch: what is made, and what is asked of the scheduler. Sites and templates are the real ones."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trees
from conftest import Fake

from outlast import commands, driver, ledger, rundir, tree
from outlast.commands import launch
from outlast.rundir import RunDir

ROOT = Path(__file__).parents[2]
FAR = 4102444800  # the year 2100


@pytest.fixture
def here(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder in which things are typed."""
    by = driver.Driver("fake", fake.root)
    monkeypatch.setattr(tree, "root", lambda: ROOT)
    monkeypatch.setattr(driver, "named", lambda name, root: by)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def submit(fake: Fake, *words: str) -> int:
    return commands.main(["submit", "local", "smoke", "--set", f"runs_dir={fake.runs}", *words])


def test_submit_makes_the_run_and_writes_down_its_first_job(fake: Fake, here: Path) -> None:
    fake.says("submit", 0, "41")
    assert submit(fake) == 0
    run = RunDir(fake.runs / "smoke")
    assert (run.path / "project_dir").read_text() == f"{here}\n"
    assert fake.asked == [f"submit {run.script} smoke output={run.path}/logs/%j.out dir={here}"]
    events = ledger.read(run.events)
    assert [(e.name, e.job, e.text("successor")) for e in events] == [("submitted", "", "41")]
    assert "OUTLAST_RUN=" in run.script.read_text()


def test_submit_json_names_job_run_and_folder(fake: Fake, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake.says("submit", 0, "41")
    assert submit(fake, "--json", "--set", "run=r2") == 0
    assert json.loads(capsys.readouterr().out) == {"run": "r2", "job": "41", "dir": str(fake.runs / "r2")}


def test_submit_dry_run_changes_nothing(fake: Fake, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(fake, "--dry-run") == 0
    assert str(fake.runs / "smoke") in capsys.readouterr().out
    assert not fake.runs.exists()
    assert fake.asked == []


def test_submit_dry_run_answers_programs_too(fake: Fake, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(fake, "--dry-run", "--json") == 0
    answer = {"run": "smoke", "dir": str(fake.runs / "smoke"), "project": str(here), "by": "fake"}
    assert json.loads(capsys.readouterr().out) == answer
    assert fake.asked == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("~/llm", "{home}/llm"), ("llm", "{here}/llm"), ("..", "{here}/.."), ("/a/b", "/a/b"), ("{home}/x", "{home}/x")],
)
def test_render_and_submit_take_a_project_dir_as_a_shell_does(
    fake: Fake,
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    meant: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    whole = os.path.normpath(meant.format(home=tmp_path, here=here))
    fake.says("submit", 0, "41")
    words = ["local", "smoke", "--set", f"project_dir={typed}", "--set", f"runs_dir={fake.runs}"]
    assert commands.main(["render", *words]) == 0
    (line,) = [text for text in capsys.readouterr().out.splitlines() if text.startswith("OUTLAST_PROJECT_DIR=")]
    told = subprocess.run(["bash", "-c", f'{line}; echo "$OUTLAST_PROJECT_DIR"'], capture_output=True, text=True)
    assert told.stdout == f"{whole}\n"
    assert commands.main(["submit", *words]) == 0
    assert (fake.runs / "smoke/project_dir").read_text() == f"{whole}\n"


def test_submit_refuses_a_project_dir_in_nobodys_home(
    fake: Fake, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(fake, "--set", "project_dir=~nobody-of-that-name/llm") == 2
    assert "is in nobody's home" in capsys.readouterr().err


def test_submit_takes_a_site_from_outside(fake: Fake, here: Path, tmp_path: Path) -> None:
    fake.says("submit", 0, "41")
    folder = trees.outside(tmp_path / "mine", "sea")
    words = ["submit", "sea", "small", "--site-dir", str(folder), "--set", f"runs_dir={fake.runs}"]
    assert commands.main(words) == 0
    assert "export WHENCE=sea" in (fake.runs / "small/job.sh").read_text()


def test_submit_leaves_nothing_behind_when_the_job_is_refused(fake: Fake, here: Path) -> None:
    fake.says("submit", 1)
    assert submit(fake) == 1
    assert not (fake.runs / "smoke").exists()


def test_submit_keeps_the_run_when_nobody_knows_whether_it_is_submitted(
    fake: Fake, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(fake) == 75
    assert (fake.runs / "smoke/job.sh").exists()
    assert f"outlast resume {fake.runs}/smoke" in capsys.readouterr().err


def test_submit_never_touches_a_run_that_is_there(fake: Fake, here: Path) -> None:
    fake.says("submit", 0, "41")
    submit(fake)
    assert submit(fake) == 1
    assert len(fake.asked) == 1


def test_of_two_that_submit_one_run_at_once_one_makes_it(
    fake: Fake, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.says("submit", 0, "41")
    monkeypatch.setattr(rundir, "is_run", lambda path: False)  # neither has seen the other's
    assert [submit(fake), submit(fake)] == [0, 1]
    assert len(fake.asked) == 1
    assert "is a run already; type outlast resume" in capsys.readouterr().err
    assert [file for file in (fake.runs / "smoke").iterdir() if file.name.startswith(".")] == []


def test_submit_warns_of_an_end_date_that_has_come(fake: Fake, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake.says("submit", 0, "41")
    assert submit(fake, "--set", "guard.end_date=2020-01-01") == 0
    assert "guard.end_date 2020-01-01 has come: the first job will hold the run" in capsys.readouterr().err


def test_submit_refuses_a_project_folder_with_a_line_end(
    fake: Fake, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a\nb").mkdir()
    monkeypatch.chdir(here / "a\nb")
    assert submit(fake) == 2
    assert "has a line end or a control character" in capsys.readouterr().err
    assert not fake.runs.exists()


def test_submit_refuses_what_render_refuses(fake: Fake, here: Path) -> None:
    assert submit(fake, "--set", "no.such.key=1") == 2
    assert not fake.runs.exists()


def test_launch_runs_in_the_allocations_shape_and_without_a_chain(
    fake: Fake, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[RunDir] = []
    monkeypatch.setattr(launch, "watch", lambda run: started.append(run) or 0)
    fake.says("nodes", 0, "n1")
    fake.says("end_time", 0, str(FAR))
    assert (
        launch.main(["local", "--set", f"runs_dir={fake.runs}", "--set", "run=r1", "--", "train", "--x", "{resume}"])
        == 0
    )
    run = RunDir(fake.runs / "r1")
    assert started == [run]
    assert (run.setting("CHAIN"), run.setting("NODES")) == ("0", "1")
    assert "OUTLAST_COMMAND=(train --x" in run.script.read_text()


def test_launch_guesses_a_site_from_outside(
    fake: Fake, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[RunDir] = []
    monkeypatch.setattr(launch, "watch", lambda run: started.append(run) or 0)
    monkeypatch.setattr(launch.platform, "node", lambda: "lake7")
    fake.says("nodes", 0, "lake7")
    folder = trees.outside(tmp_path / "mine", "sea")
    words = ["--site-dir", str(folder), "--walltime", "1h", "--set", f"runs_dir={fake.runs}", "--", "train"]
    assert launch.main(words) == 0
    assert started[0].setting("SITE") == "sea"


@pytest.mark.parametrize(
    ("site", "nodes", "walltime"),
    [("aurora", 2, "50m"), ("aurora", 300, "24h"), ("polaris", 2, "50m"), ("frontier", 32, "20h")],
)
def test_launch_takes_the_allocation_that_there_is_whatever_a_queue_would_give(
    fake: Fake, here: Path, site: str, nodes: int, walltime: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.says("nodes", 0, "\n".join(f"n{number}" for number in range(nodes)))
    words = ["--walltime", walltime, "--set", f"runs_dir={fake.runs}", "--dry-run", "--", "true"]
    assert commands.main(["launch", site, *words]) == 0, capsys.readouterr().err


def test_launch_asks_for_the_account_that_names_the_folder_of_runs(
    fake: Fake, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.says("nodes", 0, "n1")
    words = ["launch", "frontier", "--walltime", "1h", "--dry-run"]
    assert commands.main([*words, "--", "true"]) == 2
    assert (
        "frontier's runs lie in a folder of the project that pays; type --set account=NAME" in capsys.readouterr().err
    )
    assert commands.main([*words, "--set", "account=abc123", "--", "true"]) == 0
    assert "/lustre/orion/abc123/scratch/" in capsys.readouterr().out


def test_launch_outside_an_allocation_says_so(fake: Fake, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["launch", "local", "--", "true"]) == 1
    assert "is this inside an allocation?" in capsys.readouterr().err


def test_launch_without_a_command_is_wrong_usage(fake: Fake, here: Path) -> None:
    assert commands.main(["launch", "local"]) == 2


def test_launch_leaves_what_stands_behind_the_dashes_alone() -> None:
    assert launch.split(["local", "--", "train", "--", "--set"]) == (["local"], ["train", "--", "--set"])


def test_launch_turns_ctrl_c_into_a_stop(fake: Fake, tmp_path: Path) -> None:
    run = fake.run("r1")
    wait = 'until [[ -e "$(dirname "$0")/control/stop" ]]; do sleep 0.1; done; exit 7'
    run.script.write_text(f"#!/bin/bash\n{wait}\n")
    code = (
        "import sys; from pathlib import Path; from outlast.commands import launch; from outlast.rundir import RunDir; "
    )
    code += "sys.exit(launch.watch(RunDir(Path(sys.argv[1]))))"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "pyhelpers")}
    words = [sys.executable, "-c", code, str(run.path)]
    ours = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert ours.stderr is not None
    assert "Ctrl-C stops it" in ours.stderr.readline()
    os.killpg(ours.pid, signal.SIGINT)
    assert ours.wait(timeout=100) == 7
    assert run.asked("stop") == ["Ctrl-C at the terminal that launched it"]
