"""outlast badnodes, as it is typed, and what a submit leaves out."""

import io
import json
import re
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Fake

from outlast import commands
from outlast.commands import _badnodes, _common

TODAY = date(2026, 11, 30)
SINFO = "Not responding  slurm  2026-11-29T18:00:00  n[01-02]\nmaintenance  root  2026-11-29T18:00:00  n03\n"


@pytest.fixture(autouse=True)
def a_day_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be midnight between a test's lines, or between its file's first line and its own."""
    noon = datetime.combine(TODAY, time(12), UTC)
    monkeypatch.setattr(_badnodes, "today", lambda: TODAY)
    monkeypatch.setattr(_common, "datetime", SimpleNamespace(now=lambda _: noon))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with two bad nodes, one whose time is over and one line that nobody can read."""
    file = tmp_path / "bad.txt"
    file.write_text(f"n1  {TODAY}  hang\nn2  {TODAY}  ECC  strikes=2\nn9  2020-01-01  old\nlost\n")
    monkeypatch.setenv("OUTLAST_BAD_NODES", str(file))
    return file


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = commands.main(["badnodes", *words])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_list_names_the_worst_first_and_what_it_cannot_read(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = typed(capsys, "list")
    assert status == 0
    assert re.split(r"  +", out.splitlines()[0]) == "host ends strikes score since reason source comment".split()
    assert out.splitlines()[1].split()[:4] == ["n2", str(TODAY + timedelta(days=28)), "2", "2.00"]
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["n2", "n1"]
    assert "line 4: lost" in err
    rows = json.loads(typed(capsys, "list", "--all", "--json")[1])["nodes"]
    assert [row["host"] for row in rows] == ["n2", "n1", "n9"]


def test_list_of_nothing_says_so_and_where_an_older_list_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(capsys, "list", "--file", str(tmp_path / "bad_nodes.txt"))[1] == ""
    (tmp_path / ".bad_nodes.txt").write_text(f"n1 {TODAY} hang\n")
    status, out, err = typed(capsys, "list", "--file", str(tmp_path / "bad_nodes.txt"))
    assert (status, out) == (0, "")
    assert f"type mv {tmp_path}/.bad_nodes.txt {tmp_path}/bad_nodes.txt" in err


def test_add_takes_lists_and_says_until_when(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = typed(capsys, "add", "n[1,7]", "n8.example.org", "--reason", "GPU is lost")
    assert status == 0
    assert out.splitlines()[0] == f"n1 is out until {TODAY + timedelta(days=28)} (GPU_is_lost)"
    assert f"n8  {TODAY}  GPU_is_lost\n" in file.read_text()
    before = file.read_text()
    assert "would be" in typed(capsys, "add", "n5", "--reason", "x", "--dry-run")[1]
    assert file.read_text() == before


@pytest.mark.parametrize(
    "words", [["n[1", "--reason", "x"], ["10.0.0.1", "--reason", "x"], ["n1"], ["-", "--reason", "x"]]
)
def test_add_refuses_what_is_no_host_or_has_no_reason(
    file: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    before = file.read_text()
    assert typed(capsys, "add", *words)[0] == 2
    assert file.read_text() == before


def test_add_refuses_many_of_a_job_at_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = ["add", "n[11-13]", "--reason", "hang", "--job-nodes"]
    status, _, err = typed(capsys, *many, "59")
    assert status == 2
    assert "3 of 59 nodes at once" in err
    assert typed(capsys, *many, "60")[0] == 0
    assert typed(capsys, *many, "4", "--all")[0] == 0


def test_remove_takes_out_what_is_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = typed(capsys, "remove", "n1", "n5")
    assert (status, out) == (0, "removed n1\n")
    assert "not in" in err
    assert file.read_text().startswith("n2  ")
    assert typed(capsys, "remove", "n5")[0] == 2


def test_age_takes_out_what_is_over(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_text()
    assert typed(capsys, "age", "--dry-run")[1] == "would remove n9\n"
    assert file.read_text() == before
    assert typed(capsys, "age")[1] == "removed n9\n"
    assert file.read_text() == before.replace("n9  2020-01-01  old\n", "")
    assert typed(capsys, "age")[1] == "nothing is over\n"


def test_import_from_a_file_from_stdin_and_from_the_scheduler(
    file: Path, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "sinfo"
    output.write_text(SINFO)
    status, out, _ = typed(capsys, "import", str(output))
    assert (status, out.split(";")[0]) == (0, "took n01 n02 of 3 nodes that are out of service")
    assert f"n01  {TODAY}  Not_responding  source=import" in file.read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO(SINFO))
    assert typed(capsys, "import", "-")[1].startswith("nothing new")
    fake.says("reasons", 0, SINFO)
    assert typed(capsys, "import", "--scheduler", "fake", "--all")[1].startswith("took n03")


def test_import_refuses_another_output(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.write_text("PARTITION AVAIL\nbatch up\n")
    assert typed(capsys, "import", str(other))[0] == 2
    assert typed(capsys, "import", str(tmp_path / "gone"))[0] == 1


def test_exclude_prints_what_the_scheduler_takes(file: Path, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.says("known", 0, "n1\nn2\n")
    assert typed(capsys, "exclude", "--scheduler", "fake")[1] == "n[1-2]\n"
    assert typed(capsys, "exclude", "--scheduler", "fake", "--most", "1")[1] == "n2\n"
    fake.says("known", 0, "n1\n")
    assert typed(capsys, "exclude", "--scheduler", "fake")[1] == "n1\n"
    fake.says("known", 2)
    status, out, err = typed(capsys, "exclude", "--scheduler", "fake")
    assert (status, out) == (0, "n[1-2]\n")
    assert "does not say which nodes it has" in err


def test_exclude_says_where_no_node_can_be_left_out(file: Path, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = typed(capsys, "exclude", "--scheduler", "fake")
    assert (status, out) == (0, "n2,n1\n")
    assert "fake keeps no job off a node" in err


def test_the_file_is_the_one_of_the_run_the_one_named_or_the_only_one(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUTLAST_BAD_NODES", raising=False)
    run = fake.run()
    beside = fake.runs / "bad_nodes.txt"
    assert typed(capsys, "add", "n1", "--reason", "x", "--run", "r1")[0] == 0
    assert beside.exists()
    assert typed(capsys, "list")[1].splitlines()[1].startswith("n1 ")
    run.script.write_text(f"OUTLAST_BAD_NODES={tmp_path}/'of '\"$USER\"\n")
    monkeypatch.setenv("USER", "ada")
    assert run.bad_nodes == tmp_path / "of ada"
    monkeypatch.setenv("OUTLAST_RUNS", str(tmp_path / "nowhere"))
    status, _, err = typed(capsys, "list")
    assert status == 2
    assert "--file" in err


# ---- what a submit leaves out


def resumed(fake: Fake, own: str = "") -> str:
    run = fake.run()
    run.script.write_text(f"#!/bin/bash\nOUTLAST_SCHEDULER=fake\nOUTLAST_EXCLUDE={own}\n")
    run.script.chmod(0o700)
    fake.says("submit", 0, "41")
    commands.main(["resume", "r1"])
    found = re.search(r"exclude=(\S+)", fake.asked[-1])
    return found[1] if found else ""


def bad(fake: Fake, text: str) -> None:
    fake.runs.mkdir(exist_ok=True)
    (fake.runs / "bad_nodes.txt").write_text(text)


def test_submit_leaves_out_bad_nodes_beside_the_jobs_own(fake: Fake) -> None:
    bad(fake, f"n1  {TODAY}  hang\nn9  {TODAY}  hang\nn4  2020-01-01  old\n")
    fake.says("known", 0, "n1\nn2\nn3\n")
    assert resumed(fake, "'n[2-3]'") == "n[1-3]"


def test_submit_asks_for_nothing_where_no_node_is_bad_or_none_can_be_left_out(fake: Fake) -> None:
    assert resumed(fake) == ""
    assert "known" not in (fake.root / "lib/scheduler/asked").read_text()


def test_submit_goes_on_where_nobody_says_which_nodes_there_are(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    bad(fake, f"n1  {TODAY}  hang\n")
    fake.says("known", 2)
    assert resumed(fake) == ""
    assert "no bad node is left out" in capsys.readouterr().err


def test_submit_that_is_refused_with_the_bad_nodes_left_out_is_tried_without(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    bad(fake, f"n1  {TODAY}  hang\n")
    fake.says("known", 0, "n1\n")
    fake.run()
    fake.says("submit", 1)
    assert commands.main(["resume", "r1"]) == 1
    assert ["exclude=" in line for line in fake.asked] == [True, False]
    assert "trying without the list of bad nodes" in capsys.readouterr().err


def test_a_strike_that_is_no_number_is_wrong_usage(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_text()
    status, _, err = typed(capsys, "add", "n5", "--reason", "hang", "--strikes", "nan")
    assert (status, err) == (2, "outlast: --strikes nan is no number from 0.5 to 8\n")
    assert file.read_text() == before
