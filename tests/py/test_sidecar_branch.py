"""A run that starts from a checkpoint of another one."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import event
from test_sidecar_publish import FILES, commit

from outlast import ledger
from outlast.checkpoint import manifest, shelf, verify
from outlast.checkpoint.manifest import Item, Manifest
from outlast.sidecar import branch, publish
from outlast.sidecar.branch import Branched
from outlast.sidecar.retain import Run

GENERATION = "000003"


def made(path: Path) -> Path:
    for name in ("checkpoints", "lease"):
        (path / name).mkdir(parents=True)
    (path / "lease" / GENERATION).write_text("")
    (path / "events.jsonl").touch()
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A run with three durable checkpoints."""
    old = made(tmp_path / "old")
    (old / "job.sh").write_text("OUTLAST_CKPT_PREFIX=step-\n")
    for step in (20, 40, 60):
        commit(old, f"step-{step}")
    return old


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return made(tmp_path / "new")


def take(new: Path, old: Path, step: int | None = None, prefix: str = "step-", is_shared: bool = False) -> Branched:
    return branch.take(Run(new, prefix, "7", GENERATION), old, step, is_shared)


def told(path: Path) -> Manifest:
    known = manifest.read(path)
    assert verify.verify(path, known).problems == ()
    return known


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


@pytest.mark.parametrize(
    ("text", "folder", "step"),
    [
        ("r1", "/runs/r1", None),
        ("r1@200", "/runs/r1", 200),
        ("/lake/a@b/r1", "/lake/a@b/r1", None),
        ("/lake/r@1@2", "/lake/r@1", 2),
    ],
)
def test_what_from_names(text: str, folder: str, step: int | None) -> None:
    assert branch.source(text, Path("/runs")) == (Path(folder), step)


def test_the_newest_becomes_ours_by_links_and_says_where_it_is_from(new: Path, old: Path) -> None:
    done = take(new, old)
    assert done == Branched(60, 6, old / "checkpoints/step-60", linked=True)
    assert names(new) == ["step-60"]
    known = told(new / "checkpoints/step-60")
    assert (known.run, known.job, known.parent) == ("new", "7", str(old / "checkpoints/step-60"))
    assert all((new / "checkpoints/step-60" / path).samefile(old / "checkpoints/step-60" / path) for path in FILES)
    assert manifest.read(old / "checkpoints/step-60").run == "demo"
    shutil.rmtree(old)
    assert told(new / "checkpoints/step-60")


def test_another_step_under_another_prefix(new: Path, old: Path) -> None:
    assert take(new, old, 40, prefix="checkpoint-").step == 40
    assert names(new) == ["checkpoint-40"]


def test_where_no_link_can_be_made_it_is_copied(new: Path, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "not yours")

    monkeypatch.setattr(os, "link", no)
    assert not take(new, old).linked
    assert told(new / "checkpoints/step-60").parent
    assert not (new / "checkpoints/step-60/a").samefile(old / "checkpoints/step-60/a")


def test_it_is_pinned_over_there_meanwhile(new: Path, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = manifest.publish
    monkeypatch.setattr(manifest, "publish", lambda *args: (seen.extend(names(old)), real(*args)))
    take(new, old)
    assert ".step-60.pinned" in seen
    assert ".step-60.pinned" not in names(old)
    shelf.pin_file(old / "checkpoints/step-60").write_text("by ann")
    shutil.rmtree(new / "checkpoints/step-60")
    take(new, old)
    assert shelf.pin_of(old / "checkpoints/step-60") == "by ann"


def test_a_damaged_one_is_refused_and_leaves_nothing(new: Path, old: Path) -> None:
    (old / "checkpoints/step-60/a").write_bytes(b"two")
    with pytest.raises(branch.BranchError, match="a has changed"):
        take(new, old)
    assert names(new) == []
    assert ".step-60.pinned" not in names(old)


def test_a_flagged_one_is_taken_only_by_its_step(new: Path, old: Path) -> None:
    ledger.append(old / "events.jsonl", event(1, "1 loss_bad step=50 why=nan"))
    assert take(new, old).step == 40
    assert take(new, old, 60).step == 60
    assert told(new / "checkpoints/step-60").flagged == "nan"
    with pytest.raises(branch.BranchError, match=r"no durable checkpoint of step 50; it has 20, 40, 60 \(flagged\)"):
        take(new, old, 50)


def test_what_is_no_run_is_refused(new: Path, tmp_path: Path) -> None:
    with pytest.raises(branch.BranchError, match="nowhere is no run"):
        take(new, tmp_path / "nowhere")


def test_a_job_that_lost_the_run_publishes_nothing(new: Path, old: Path) -> None:
    (new / "lease/000004").write_text("")
    with pytest.raises(publish.LeaseLostError):
        take(new, old)
    assert names(new) == [f".incoming-step-60.{GENERATION}.0"]


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_file_lies_as_its_storage_wants_it(new: Path, old: Path, is_wrapped: bool) -> None:
    path = old / "checkpoints/step-80.ckpt"
    if is_wrapped:
        path.mkdir()
    file = path / path.name if is_wrapped else path
    file.write_bytes(b"weights")
    manifest.publish(path, Manifest(step=80, list=(Item(path.name, 7),)))
    assert take(new, old, is_shared=True).step == 80
    assert names(new) == [".step-80.ckpt.MANIFEST.json", "step-80.ckpt"]
    assert told(new / "checkpoints/step-80.ckpt").list == (Item("step-80.ckpt", 7),)
    for left in (new / "checkpoints").iterdir():
        left.unlink()
    take(new, old, prefix="last-")
    assert (new / "checkpoints/last-80.ckpt/last-80.ckpt").read_bytes() == b"weights"
    assert told(new / "checkpoints/last-80.ckpt").list == (Item("last-80.ckpt", 7),)
