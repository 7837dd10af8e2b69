"""What a run is pinned to, and what is told of what has changed."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from conftest import Fake

from outlast import commands, ledger, pins
from outlast.pins import Pins
from outlast.rundir import RunDir

LIMIT_S = 60.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "tokenizer/__pycache__").mkdir(parents=True)
    (project / "tokenizer/vocab.json").write_text("{}")
    (project / "tokenizer/__pycache__/x.pyc").write_text("")
    (project / "train.txt").write_text("once upon a time")
    return project


def look(project: Path, *names: str, known: Pins | None = None, git: bool = False, **commands: str) -> Pins:
    return pins.look(names, project, known, LIMIT_S, git, commands)


def anew(path: Path, text: str) -> None:
    """Write a file, with another time of change than it had."""
    path.write_text(text)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000_000))


def test_a_folder_is_all_files_in_it_and_a_file_itself(project: Path) -> None:
    found = look(project, "tokenizer", "train.txt", str(project / "train.txt"))
    assert {name: list(inside) for name, inside in found.files.items()} == {
        "tokenizer": ["vocab.json"],
        "train.txt": ["."],
        str(project / "train.txt"): ["."],
    }
    assert found.count() == (3, 34)
    assert pins.missing(look(project, "tokenizer", "gone")) == ["gone"]


def test_what_is_written_is_read_again(project: Path) -> None:
    odd = project / "tokenizer" / os.fsdecode(b'od"d \xff\x7f\n.json')
    odd.write_text("1")
    found = look(project, "tokenizer", git=False, **{'say "\n\x7f\ud800"': "torch 2\n\t\u20ac\n"})
    text = pins.render(found, "now", "12")
    again = pins.parse(text)
    assert pins.differences(again, found) == pins.differences(found, again) == []
    assert again.files == found.files
    assert tomllib.loads(text)["job"] == "12"


@pytest.mark.parametrize(
    "text", ["", "algorithm = 1\n[files]\na = 1", "x", 'algorithm = "a"\n[files.a]\nb = {bytes = 1}']
)
def test_a_file_without_pins_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pins.toml").write_text(text)
    with pytest.raises(pins.PinsError, match=r"pins\.toml: it holds no pins"):
        pins.read(tmp_path / "pins.toml")


def test_each_difference_is_named(project: Path) -> None:
    for name in ("a", "b"):
        (project / "tokenizer" / name).write_text("1")
    before = look(project, "tokenizer", "train.txt", pip="torch 2.3\nnumpy 1\n")
    anew(project / "train.txt", "twice upon a time")
    anew(project / "tokenizer/vocab.json", "[]")
    (project / "tokenizer/a").unlink()
    (project / "tokenizer/c").write_text("1")
    os.utime(project / "tokenizer/b")  # only looked at by somebody's editor
    lines = pins.differences(before, look(project, "tokenizer", "train.txt", known=before, pip="torch 2.4\nnumpy 1\n"))
    assert [line.partition(" (")[0] for line in lines] == [
        "pip: -torch 2.3, +torch 2.4",
        "tokenizer/a is missing",
        "tokenizer/c is new",
        "tokenizer/vocab.json has changed",
        "train.txt has changed",
    ]
    assert "(17 bytes, was 16; changed " in lines[-1]


def test_what_is_not_named_any_more_or_named_since_is_no_difference(project: Path) -> None:
    before = look(project, "train.txt", pip="1")
    assert pins.differences(before, look(project, "tokenizer", list="2")) == []


def test_what_was_a_folder_and_is_gone_is_one_line(project: Path) -> None:
    before = look(project, "tokenizer")
    (project / "tokenizer").rename(project / "elsewhere")
    assert pins.differences(before, look(project, "tokenizer", known=before)) == ["tokenizer is missing"]


def test_what_kept_its_size_and_time_is_not_read_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = look(project, "tokenizer", "train.txt")
    read: list[str] = []

    def digest(path: Path, size: int, algorithm: str) -> str:
        read.append(path.name)
        return "0"

    monkeypatch.setattr(pins, "digest", digest)
    os.utime(project / "train.txt", ns=(0, 1))
    look(project, "tokenizer", "train.txt", known=before)
    assert read == ["train.txt"]


def test_of_a_large_file_size_and_pieces_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "WHOLE", 1000)
    monkeypatch.setattr(pins, "PIECE", 10)
    path, content = tmp_path / "weights", bytearray(10_000)
    path.write_bytes(content)
    first = pins.digest(path, 10_000, "blake2b")
    for at in (0, 9_999):
        content[at] = 1
        path.write_bytes(content)
        assert pins.digest(path, 10_000, "blake2b") != first
        content[at] = 0
    content[100] = 1  # between two pieces
    path.write_bytes(content)
    assert pins.digest(path, 10_000, "blake2b") == first
    path.write_bytes(content + b"x")
    assert pins.digest(path, 10_001, "blake2b") != first


def test_there_is_a_limit_of_files_and_of_time(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pins.LateError, match="could not be looked at in -1 s"):
        pins.look(["tokenizer"], project, None, -1, False, {})
    monkeypatch.setattr(pins, "MOST", 1)
    with pytest.raises(pins.PinsError, match="2 files are too many to pin"):
        look(project, "tokenizer", "train.txt")


def git(project: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", project, *who, *words], check=True, capture_output=True)


def test_the_commit_of_the_trainer_and_what_no_commit_has(project: Path) -> None:
    with pytest.raises(pins.PinsError, match="git diff in"):
        look(project, git=True)
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "one")
    first = look(project, git=True)
    assert len(first.commit) == 40
    assert first.changes == ""
    (project / "job-1.out").write_text("")  # a job writes such
    assert pins.differences(first, look(project, git=True)) == []
    (project / "train.txt").write_text("twice")
    changed = look(project, git=True)
    assert pins.differences(first, changed) == ["git: there are changes now that no commit has"]
    (project / "train.txt").write_text("thrice")
    assert pins.differences(changed, look(project, git=True)) == ["git: the changes that no commit has are others"]
    git(project, "commit", "-qam", "two")
    lines = pins.differences(changed, look(project, git=True))
    assert lines[0].startswith("git: commit ")
    assert lines[1] == "git: there were changes that no commit had, and now there are none"


@pytest.fixture
def run(fake: Fake, project: Path) -> RunDir:
    run = fake.run("r1", "- submitted successor=1", "1 started host=n1", "1 ended class=drift then=hold")
    (run.path / "project_dir").write_text(f"{project}\n")
    return run


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert commands.main(["pins", "r1", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_job_writes_then_compares(run: RunDir, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "0").write_text("torch 2\n")
    job = ["--job=7", f"--outputs={project}", "--file=train.txt", "--command=pip list"]
    assert asked(capsys)[0].startswith("r1 has no pins.toml")
    assert asked(capsys, *job, "--file=gone") == ["differs", "gone is missing"]
    assert not run.pins.exists()
    assert asked(capsys, *job) == ["written"]
    assert asked(capsys, *job) == ["same"]
    assert asked(capsys) == ["same: 1 files, 16 bytes"]
    # Named since: it is pinned from now on.
    assert asked(capsys, *job, "--file=tokenizer") == ["same"]
    assert "vocab.json" in run.pins.read_text()
    anew(project / "train.txt", "twice")
    (project / "0").write_text("torch 3\n")
    lines = asked(capsys, *job)
    assert lines[:2] == ["differs", "pip list: -torch 2, +torch 3"]
    assert lines[2].startswith("train.txt has changed (5 bytes, was 16;")
    assert asked(capsys) == lines[2:]


def test_a_torn_pins_file_is_no_answer(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    run.pins.write_text("algo")
    assert commands.main(["pins", "r1", "--job=7"]) == 1
    assert "it holds no pins" in capsys.readouterr().err


def test_resume_accepts_what_has_changed(fake: Fake, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    run.pins.write_text("old")
    fake.says("submit", 0, "2\n")
    fake.says("state.1", 0, "state=gone verdict=none restarts=0\n")
    assert commands.main(["resume", "r1", "--accept-pins", "--dry-run"]) == 0
    assert "would pin anew" in capsys.readouterr().out
    assert run.pins.exists()
    assert commands.main(["resume", "r1", "--accept-pins"]) == 0
    assert not run.pins.exists()
    assert [path.read_text() for path in run.path.glob("pins.*.toml")] == ["old"]
    assert [event.text("answer") for event in ledger.read(run.events) if event.name == "pins"] == ["accepted"]
