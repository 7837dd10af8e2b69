"""outlast ckpt: on a run that the demo's trainer and lib/checkpoint.sh have filled, and on plain folders."""

import json
import os
from pathlib import Path
from typing import Any

import numpy
import pytest
from conftest import Fake, event
from test_checkpoint_manifest import bash

from outlast import commands, ledger
from outlast.checkpoint import manifest, shelf
from outlast.demo import checkpoint as demo
from outlast.demo.model import Adam
from outlast.rundir import RunDir

EVENTS = ("- submitted successor=1", "1 started host=n1 durable_step=0", "1 ended class=walltime then=hold")
SETTINGS = "OUTLAST_CKPT_PREFIX=checkpoint-\nOUTLAST_CKPT_COMPLETE=trainer_state.json\nOUTLAST_CKPT_QUIET_S=5\n"


def written(folder: Path, step: int, loss: float = 2.0) -> Path:
    """A checkpoint of the demo's trainer."""
    weights = {"w": numpy.full((4, 4), loss, numpy.float32)}
    logs = [{"step": step, "eval_loss": loss}]
    run = demo.Run(weights, Adam(dict(weights), dict(weights)), demo.Progress(step, 0.1, None, logs))
    path = demo.save(folder, run, {"seed": 1, "max_steps": 100, "save_steps": 20}, 0.1)
    for file in [*path.iterdir(), path]:
        os.utime(file, (1000, 1000))
    return path


def durable(run: RunDir, *steps: int) -> None:
    """Durable checkpoints, whose manifests lib/checkpoint.sh writes."""
    for step in steps:
        path = written(run.path / "checkpoints", step, loss=100 / step)
        (path / "MANIFEST.json").write_text(bash('_ol_checkpoint_manifest "$1" "$2"', str(step), str(path)) + "\n")


@pytest.fixture
def run(fake: Fake) -> RunDir:
    run = fake.run("r1", *EVENTS)
    run.script.write_text(run.script.read_text() + SETTINGS)
    durable(run, 20, 40, 60, 80)
    (run.path / "quarantine").mkdir()
    return run


def there(run: RunDir) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in (run.path / "checkpoints").glob("checkpoint-*"))


def ckpt(*words: object) -> int:
    return commands.main(["ckpt", *map(str, words)])


def told(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> Any:
    assert ckpt(*words, "--json") == status
    return json.loads(capsys.readouterr().out)


def last(run: RunDir) -> ledger.Event:
    return ledger.read(run.events)[-1]


def test_list_tells_state_format_loss_and_pin(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    (run.path / "checkpoints/checkpoint-80/config.json").unlink()
    (run.path / "checkpoints/checkpoint-60/MANIFEST.json").unlink()
    assert ckpt("pin", "r1", 20, "--why", "paper") == 0
    capsys.readouterr()
    rows = {row["step"]: row for row in told(capsys, "list", "r1")}
    assert [rows[step]["state"] for step in (20, 40, 60, 80)] == ["durable", "durable", "complete", "damaged"]
    assert (rows[40]["format"], rows[40]["loss"]) == ("hf", 2.5)
    assert rows[20]["pinned"].endswith(": paper")
    assert rows[80]["reason"] == "config.json is missing"


def test_list_and_show_tell_that_the_loss_had_gone_wrong(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    for number, line in ((4, "1 launched step=0"), (5, "1 loss_bad step=50 why=spike"), (6, "1 loss_good step=75")):
        ledger.append(run.events, event(number, line))
    assert [row["flagged"] for row in told(capsys, "list", "r1")] == ["", "", "spike", ""]
    assert ckpt("list", "r1") == ckpt("show", "r1", 60) == 0
    out = capsys.readouterr().out
    assert "checkpoint-60  flagged: spike" in out
    assert "flagged    spike" in out
    assert ckpt("prune", "r1", "--newest", 1, "--grace-h", 0) == 0
    assert there(run) == [40, 80]  # 60 has the better loss of those two


def test_a_run_is_found_by_name_by_path_and_by_its_folder(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    by_name = told(capsys, "list", "r1")
    assert told(capsys, "list", str(run.path)) == by_name
    assert told(capsys, "list", str(run.path / "checkpoints")) == by_name
    (alone,) = told(capsys, "list", str(run.path / "checkpoints/checkpoint-40"))
    assert alone in by_name


def test_a_plain_folder_and_a_checkpoint_alone_will_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "out", 20)
    assert [row["state"] for row in told(capsys, "list", str(tmp_path / "out"))] == ["complete"]
    assert told(capsys, "show", str(tmp_path / "out/checkpoint-20"))["ranks"] is None


@pytest.mark.parametrize("words", ["list /no/such", "show r1 30", "lost", "show r1 x", "verify"])
def test_what_cannot_be_meant_is_one_line_and_status_2(
    run: RunDir, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    assert ckpt(*words.split()) == 2
    assert capsys.readouterr().err.strip()


def test_a_verb_for_runs_refuses_a_plain_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, 20)
    assert ckpt("rollback", f"{tmp_path}/", 20) == 2
    assert capsys.readouterr().err == f"outlast: {tmp_path} belongs to no run; this verb needs one\n"


def test_show_names_the_steps_that_are_there(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert ckpt("show", "r1", 30) == 2
    assert capsys.readouterr().err.endswith("no checkpoint of step 30; there are 20, 40, 60, 80\n")


def test_show_tells_how_to_resume(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert ckpt("show", "r1") == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["resume"] == "path: checkpoint-80"
    assert lines["hashes"] == "none: only sizes can be verified"
    assert "by job 12, attempt 2" in lines["written"]


def test_verify_finds_a_size_and_after_adopt_a_byte(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    path = run.path / "checkpoints/checkpoint-80"
    (path / "MANIFEST.json").unlink()
    assert ckpt("adopt", str(run.path), "--step", 80) == 0
    capsys.readouterr()
    content = bytearray((path / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (path / "model.safetensors").write_bytes(content)
    (path.parent / "checkpoint-60/config.json").write_text("{}")
    states = {one["step"]: (one["state"], one["depth"]) for one in told(capsys, "verify", "r1", status=1)}
    assert states == {
        20: ("whole", "sizes"),
        40: ("whole", "sizes"),
        60: ("damaged", "sizes"),
        80: ("damaged", "hashes"),
    }


def test_the_status_of_verify_says_whether_all_are_whole(run: RunDir) -> None:
    path = run.path / "checkpoints"
    assert ckpt("verify", "r1") == ckpt("verify", "r1", 40) == 0
    written(path, 100)
    (path / "checkpoint-100/trainer_state.json").unlink()
    os.utime(path / "checkpoint-100/config.json")  # a trainer is writing it
    assert ckpt("verify", "r1") == 0
    assert ckpt("verify", "r1", 100) == 1
    (path / "checkpoint-20/MANIFEST.json").unlink()
    assert ckpt("verify", "r1") == ckpt("verify", "r1", 20) == 1  # nobody can say
    (path / "checkpoint-40/config.json").write_text("{}")
    assert ckpt("verify", "r1", 40) == 1
    assert ckpt("verify", "r1", 60) == 0
    assert ckpt("verify", "r1", 50) == 2


def test_verify_deep_finds_nan(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    written(run.path / "checkpoints", 80, loss=float("nan"))
    (one,) = told(capsys, "verify", "r1", 80, "--deep", status=1)  # another size, too
    assert "model.safetensors: w has 16 NaN and 0 infinite of 16 values" in one["bad"]
    assert one["tensors"] == len(one["shapes"]) == 3
    assert {"file": "model.safetensors", "name": "w", "dtype": "float32", "shape": [4, 4]} in one["shapes"]
    assert ckpt("verify", "r1", 80, "--deep") == 1
    assert "3 tensors with 48 values (48 float32)" in capsys.readouterr().out


@pytest.mark.parametrize("made", ["folder", "pipe"])
def test_a_manifest_that_is_no_plain_file_spoils_only_its_own_checkpoint(
    made: str, run: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    paper = run.path / "checkpoints/checkpoint-60/MANIFEST.json"
    paper.unlink()
    paper.mkdir() if made == "folder" else os.mkfifo(paper)
    states = {row["step"]: (row["state"], row["reason"]) for row in told(capsys, "list", "r1")}
    assert states[60] == ("damaged", "its manifest: it is no plain file")
    assert [states[step][0] for step in (20, 40, 80)] == ["durable"] * 3
    assert ckpt("verify", "r1", 60) == 1


def test_pipes_in_a_checkpoint_are_not_read(run: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "out", 100)
    os.mkfifo(path / "more")
    os.mkfifo(tmp_path / "out/.checkpoint-100.pinned")
    assert ckpt("adopt", str(path)) == ckpt("adopt", str(path), "--into", "r1") == ckpt("verify", "r1", 100) == 0
    capsys.readouterr()
    (path / "MANIFEST.json").unlink()
    (path / "trainer_state.json").unlink()
    os.mkfifo(path / "trainer_state.json")
    (row,) = told(capsys, "list", str(tmp_path / "out"))
    assert (row["state"], row["reason"]) == ("torn", "trainer_state.json (rank 0) is missing")


def test_weights_that_are_not_what_their_header_says_are_never_adopted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = written(tmp_path, 20) / "model.safetensors"
    whole = weights.read_bytes()
    assert [row["state"] for row in told(capsys, "list", f"{tmp_path}/")] == ["complete"]
    for content in (b"11 of junk.", whole[:-1], whole[:20], whole + b"x"):
        weights.write_bytes(content)
        os.utime(weights, (1000, 1000))
        (row,) = told(capsys, "list", f"{tmp_path}/")
        assert row["state"] == "torn" and row["reason"].startswith("model.safetensors (rank 0) ")
        assert ckpt("adopt", str(weights.parent)) != 0
        assert not (weights.parent / "MANIFEST.json").exists()
        capsys.readouterr()


def test_a_manifest_of_another_step_is_damage(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    paper = run.path / "checkpoints/checkpoint-60/MANIFEST.json"
    paper.write_text(paper.read_text().replace('"step":60', '"step":61'))
    (one,) = told(capsys, "verify", "r1", 60, status=1)
    assert (one["state"], one["problems"]) == ("damaged", ["its manifest says step 61, its name says 60"])
    assert {row["step"]: row["state"] for row in told(capsys, "list", "r1")}[60] == "damaged"


def test_verify_deep_says_the_same_to_people_and_to_programs(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    path = run.path / "checkpoints/checkpoint-60"
    (path / "config.json").write_text("{" * (path / "config.json").stat().st_size)
    for says in ("sizes of 7 files", "it has no manifest"):
        (one,) = told(capsys, "verify", "r1", 60, "--deep", status=1)
        assert one["state"] == "damaged" and one["answer"].startswith(f"damaged: {says}")
        (path / "MANIFEST.json").unlink(missing_ok=True)


def test_lint_says_that_the_demo_resumes_exactly(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "lint", "r1")["lacks"] == []
    (run.path / "checkpoints/checkpoint-80/optimizer.safetensors").unlink()
    assert ckpt("lint", str(run.path / "checkpoints/checkpoint-80")) == 0
    assert "optimizer: no optimizer.pt" in capsys.readouterr().out


def test_a_pinned_one_stays_until_it_is_unpinned(run: RunDir) -> None:
    assert ckpt("pin", "r1", 20) == 0
    assert last(run).name == "pinned"
    assert ckpt("prune", "r1", "--newest", 1, "--best", 0) == 0
    assert there(run) == [20, 80]
    assert ckpt("unpin", "r1", 20) == 0
    assert ckpt("prune", "r1", "--newest", 1, "--best", 0) == 0
    assert there(run) == [20, 80]  # two that are whole, always
    durable(run, 100)
    assert ckpt("prune", "r1", "--newest", 1, "--best", 0) == 0
    assert there(run) == [80, 100]


@pytest.mark.parametrize("dry", [("--dry-run",), ()])
def test_prune_answers_programs(run: RunDir, capsys: pytest.CaptureFixture[str], dry: tuple[str, ...]) -> None:
    assert ckpt("prune", "r1", "--newest", 2, "--json", *dry) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (sorted(answer["keep"]), sorted(answer["remove"])) == (
        ["checkpoint-60", "checkpoint-80"],
        ["checkpoint-20", "checkpoint-40"],
    )
    assert there(run) == ([20, 40, 60, 80] if dry else [60, 80])


def test_prune_gives_time_to_change_ones_mind(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert ckpt("prune", "r1", "--newest", 2) == 0
    assert there(run) == [60, 80]
    assert last(run).text("steps") == "20,40"
    back = capsys.readouterr().out.splitlines()[-1].split(": ")[-1]
    assert ckpt("list", "r1") == 0
    assert "checkpoint-40 was taken away; until " in capsys.readouterr().out
    assert ckpt(*back.split()[2:], "--dry-run") == 0
    assert there(run) == [60, 80]
    assert ckpt(*back.split()[2:]) == 0
    assert there(run) == [20, 60, 80]
    assert (last(run).name, last(run).number("step"), last(run).number("durable_step")) == ("restored", 20, 80)
    assert ckpt("prune", "r1", "--newest", 2, "--best", 0, "--grace-h", 0) == 0
    assert there(run) == [20, 60, 80]  # or it would be gone again
    (waiting,) = (run.path / "checkpoints").glob(".removed-*")
    waiting.rename(waiting.with_name(".removed-checkpoint-40.5"))
    assert ckpt("prune", "r1", "--newest", 9) == 0
    assert not list((run.path / "checkpoints").glob(".removed-*"))


def test_restore_brings_back_what_was_rolled_back_and_nothing_that_is_damaged(
    fake: Fake, run: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ckpt("rollback", "r1", 40) == 0
    ledger.append(run.events, ledger.Event(5000, "r1", "2", 0, 1, 1, "started", {"host": "n1", "durable_step": 40}))
    fake.says("state.2", 0, "state=running verdict=none restarts=0")
    assert ckpt("restore", "r1", 80) == 1  # a job would go on from 40
    fake.says("state.2", 0, "state=ended verdict=ok restarts=0")
    assert ckpt("restore", "r1", 80) == 0
    assert there(run) == [20, 40, 80]
    assert not shelf.pin_of(run.path / "checkpoints/checkpoint-80")
    assert ledger.fold(ledger.read(run.events)).durable_step == 80
    (put_away,) = (run.path / "quarantine").glob("checkpoint-60.*")
    (put_away / "config.json").write_text("{}")
    capsys.readouterr()
    assert ckpt("restore", "r1", 60) == 2
    assert "checkpoint-60" in (err := capsys.readouterr().err)
    assert " is damaged: config.json has 2 bytes" in err
    assert ckpt("restore", "r1", 50) == 2
    assert ckpt("restore", "r1", 40) == 2


def test_restore_overwrites_nothing(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert ckpt("quarantine", "r1", 80) == 0
    durable(run, 80)
    assert ckpt("restore", "r1", 80) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_file_that_was_pruned_comes_back_with_its_manifest(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 50):
        path = tmp_path / f"step-{step}.bin"
        path.write_text("weights")
        manifest.publish(path, manifest.Manifest(step=step, list=(manifest.Item(path.name, 7),)))
    assert ckpt("prune", f"{tmp_path}/") == 0
    assert ckpt("restore", f"{tmp_path}/", 10) == 0
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [f"step-{n}.bin" for n in (10, 30, 40, 50)]
    assert manifest.read(tmp_path / "step-10.bin").step == 10


def test_prune_leaves_what_is_not_ours_and_what_a_job_reads(fake: Fake, run: RunDir) -> None:
    (run.path / "checkpoints/checkpoint-20/MANIFEST.json").unlink()
    ledger.append(run.events, ledger.Event(5000, "r1", "2", 0, 1, 1, "staged", {"step": 40}))
    fake.says("state.2", 0, "state=running verdict=none restarts=0")
    assert ckpt("prune", "r1", "--newest", 1, "--best", 0) == 0
    assert there(run) == [20, 40, 80]
    assert ckpt("quarantine", "r1", 40) == 1


def test_rollback_holds_the_run_and_keeps_the_newer_ones_in_quarantine(run: RunDir) -> None:
    (run.path / "checkpoints/checkpoint-100").mkdir()  # torn: the trainer would take it for the newest
    assert ckpt("rollback", "r1", 40, "--why", "loss spike") == 0
    assert there(run) == [20, 40]
    kept = sorted(path.name.split(".")[0] for path in (run.path / "quarantine").glob("checkpoint-*"))
    assert kept == ["checkpoint-100", "checkpoint-60", "checkpoint-80"]
    assert "loss spike" in (run.path / "quarantine/why.txt").read_text()
    assert run.asked("hold")[0].endswith(": loss spike")
    assert run.asked("hold")[1] == f"outlast resume {run.path}"
    assert (last(run).name, last(run).number("step")) == ("rolled_back", 40)
    assert ledger.fold(ledger.read(run.events)).durable_step == 40


def test_lib_takes_the_step_that_was_rolled_back_to(run: RunDir) -> None:
    assert ckpt("rollback", "r1", 40) == 0
    newest = bash('_ol_checkpoint_newest "$1" checkpoint-', str(run.path))
    assert newest == f"40 {run.path}/checkpoints/checkpoint-40"


def test_rollback_is_refused_while_a_job_runs(fake: Fake, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.append(run.events, ledger.Event(5000, "r1", "2", 0, 1, 1, "started", {"host": "n1"}))
    fake.says("state.2", 0, "state=running verdict=none restarts=0")
    assert ckpt("rollback", "r1", 40) == 1
    assert "type outlast stop r1" in capsys.readouterr().err
    fake.says("state.2", 2)
    assert ckpt("rollback", "r1", 40) == 75
    assert (there(run), run.asked("hold")) == ([20, 40, 60, 80], [])
    fake.says("state.2", 0, "state=pending verdict=none restarts=0")
    assert ckpt("rollback", "r1", 40) == 0


def test_rollback_to_a_damaged_one_is_refused(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    (run.path / "checkpoints/checkpoint-40/config.json").unlink()
    assert ckpt("rollback", "r1", 40) == 2
    assert "checkpoint-40 is damaged" in capsys.readouterr().err
    assert ckpt("rollback", "r1", 80) == 2
    assert (there(run), run.asked("hold")) == ([20, 40, 60, 80], [])


@pytest.mark.parametrize(
    "words", ["rollback r1 40", "quarantine r1 80", "prune r1 --newest 1", "pin r1 20", "adopt r1"]
)
def test_dry_run_changes_nothing(run: RunDir, words: str) -> None:
    before = (there(run), run.events.read_text(), sorted((run.path / "checkpoints").iterdir()))
    assert ckpt(*words.split(), "--dry-run") == 0
    assert (there(run), run.events.read_text(), sorted((run.path / "checkpoints").iterdir())) == before
    assert run.asked("hold") == []


def test_quarantine_tells_what_is_durable_now(run: RunDir) -> None:
    assert ckpt("quarantine", "r1", 80, "--why", "poisoned") == 0
    assert last(run).number("durable_step") == 60
    assert ledger.fold(ledger.read(run.events)).durable_step == 60
    for step in (20, 40, 60):
        assert ckpt("quarantine", "r1", step) == 0
    assert run.asked("hold")[0].startswith("no durable checkpoint is left")


def test_adopt_takes_the_newest_complete_one_into_a_run(run: RunDir, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    for step in (100, 120):
        written(theirs, step)
    written(theirs, 140)
    (theirs / "checkpoint-140/trainer_state.json").unlink()
    assert ckpt("adopt", str(theirs), "--into", "r1") == 0
    assert there(run) == [20, 40, 60, 80, 120]
    path = run.path / "checkpoints/checkpoint-120"
    told = manifest.read(path)
    assert (told.step, told.run, told.format, told.loss) == (120, "r1", "hf", 2.0)
    assert (last(run).name, last(run).number("step")) == ("checkpoint_durable", 120)
    assert bash('_ol_checkpoint_newest "$1" checkpoint-', str(run.path)) == f"120 {path}"
    assert ckpt("adopt", str(theirs), "--into", "r1", "--step", 100) == 2  # older than what is there
    assert ckpt("adopt", str(theirs), "--into", "r1", "--step", 140) == 2  # torn


def test_adopt_writes_manifests_where_they_lie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (100, 120):
        written(tmp_path / "theirs", step)
    assert ckpt("adopt", str(tmp_path / "theirs")) == 0
    capsys.readouterr()
    assert [one["depth"] for one in told(capsys, "verify", str(tmp_path / "theirs"))] == ["hashes"] * 2


def test_a_file_is_adopted_as_lib_offers_one(run: RunDir, tmp_path: Path) -> None:
    run.script.write_text(run.script.read_text().replace("PREFIX=checkpoint-", "PREFIX=step-"))
    file = tmp_path / "theirs/step-7.pt"
    file.parent.mkdir()
    file.write_bytes(b"weights")
    os.utime(file, (1000, 1000))
    assert ckpt("adopt", str(file), "--into", "r1") == 0
    assert bash('_ol_checkpoint_newest "$1" step-', str(run.path)) == f"7 {run.path}/checkpoints/step-7.pt"
    (entry,) = shelf.entries(shelf.Shelf(run.path / "checkpoints", "step-"), 1e10)
    assert (entry.state, entry.step) == ("durable", 7)
