"""The manifest, last; and what a death between any two operations leaves behind."""

import os
from pathlib import Path

import pytest
from sidecar_cluster import verify

from outlast.checkpoint import manifest
from outlast.checkpoint.manifest import Item, Manifest
from outlast.sidecar import disk, publish

FILES = {"a": b"one", "sub/b": b"two"}


class DeathError(Exception):
    """Somebody pulled the plug."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "lease").mkdir()
    (tmp_path / "lease/000003").write_text("")
    return tmp_path


def incoming(run: Path, name: str = "step-20", files: dict[str, bytes] = FILES) -> str:
    into = f".incoming-{name}.000003.1"
    for path, content in files.items():
        (run / "checkpoints" / into / path).parent.mkdir(parents=True, exist_ok=True)
        (run / "checkpoints" / into / path).write_bytes(content)
    return into


def commit(run: Path, name: str = "step-20", files: dict[str, bytes] = FILES, generation: str = "000003") -> None:
    publish_again(run, incoming(run, name, files), name, files, generation)


def publish_again(run: Path, into: str, name: str, files: dict[str, bytes], generation: str = "000003") -> None:
    """What was copied, as one who was started again does it."""
    hashes = {}
    for path, content in files.items():
        made = disk.new_hash("blake2b")
        made.update(content)
        hashes[path] = made.hexdigest()
    step = int(name.removeprefix("step-"))
    items = tuple(Item(path, len(content), hashes[path]) for path, content in files.items())
    text = manifest.render(Manifest(step=step, list=items, run="demo", algorithm="blake2b"))
    sizes = {path: len(content) for path, content in files.items()}
    publish.commit(run / "checkpoints", into, name, text, sizes, run / "lease", generation)


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_a_published_checkpoint_verifies_and_nothing_else_is_left(run: Path) -> None:
    commit(run)
    assert names(run) == ["step-20"]
    assert verify(run / "checkpoints/step-20") == 20


def test_what_does_not_belong_to_it_is_removed(run: Path) -> None:
    incoming(run, files={"stray": b"x", "sub/old": b"y"})
    commit(run)
    assert verify(run / "checkpoints/step-20") == 20


@pytest.mark.parametrize("content", [b"on", b"onee"])
def test_a_file_of_another_size_is_not_published(run: Path, content: bytes) -> None:
    into = incoming(run, files={"a": content})
    with pytest.raises(publish.TornError, match=r"of 3|missing"):
        publish.commit(run / "checkpoints", into, "step-20", "{}", {"a": 3}, run / "lease", "000003")
    assert names(run) == [into]


def test_one_that_lacks_a_file_is_not_published(run: Path) -> None:
    into = incoming(run, files={"a": b"one"})
    with pytest.raises(publish.TornError, match=r"^b/c is missing$"):
        publish.commit(run / "checkpoints", into, "step-20", "{}", {"a": 3, "b/c": 3}, run / "lease", "000003")
    assert names(run) == [into]


def test_a_job_that_lost_the_run_publishes_nothing(run: Path) -> None:
    (run / "lease/000004").write_text("")
    with pytest.raises(publish.LeaseLostError):
        commit(run)
    assert names(run) == [".incoming-step-20.000003.1"]
    assert not (run / "checkpoints/.incoming-step-20.000003.1/MANIFEST.json").exists()


def test_a_lease_folder_that_cannot_be_read_is_not_a_lost_lease(run: Path) -> None:
    (run / "lease/000003").rename(run / "elsewhere")
    with pytest.raises(OSError, match="lease"):
        commit(run)


def test_whenever_it_dies_the_older_one_or_the_new_one_is_there_after_repair(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(run, files={"a": b"old"})
    calls = {"n": 0, "die": 0}

    def dying(function: object) -> object:
        def call(*args: object, **kwargs: object) -> object:
            calls["n"] += 1
            if calls["n"] == calls["die"]:
                raise DeathError
            return function(*args, **kwargs)  # type: ignore[operator]

        return call

    for name in ("fsync", "rename", "unlink"):
        monkeypatch.setattr(os, name, dying(getattr(os, name)))
    monkeypatch.setattr(Path, "rename", dying(Path.rename))
    monkeypatch.setattr(publish.shutil, "rmtree", dying(publish.shutil.rmtree))
    for die in range(1, 40):
        calls.update(n=0, die=die)
        content = f"new {die}".encode()
        try:
            commit(run, files={"a": content})
            died = False
        except DeathError:
            died = True
        calls["die"] = 0
        publish.repair(run / "checkpoints", run / "lease", "000003")
        assert verify(run / "checkpoints/step-20") == 20, f"death {die}"
        publish_again(run, ".incoming-step-20.000003.1", "step-20", {"a": content})
        assert verify(run / "checkpoints/step-20") == 20, f"death {die}"
        assert (run / "checkpoints/step-20/a").read_bytes() == content
        if not died:
            break
    assert not died
    assert die > 6


def test_another_one_of_the_same_step_is_not_taken_for_what_was_copied(run: Path) -> None:
    commit(run, files={"a": b"old"})
    with pytest.raises(publish.TornError, match="not there"):
        publish_again(run, ".incoming-step-20.000003.1", "step-20", {"a": b"new"})
    (run / "checkpoints/step-20/MANIFEST.json").write_text("{")
    with pytest.raises(publish.TornError, match="not there"):
        publish_again(run, ".incoming-step-20.000003.1", "step-20", {"a": b"old"})


def test_repair_removes_what_other_jobs_left_half_and_keeps_what_is_ours(run: Path) -> None:
    for name in (".incoming-step-20.000002.1", ".incoming-step-40", ".trash-step-5", ".incoming-step-60.000003.1"):
        (run / "checkpoints" / name).mkdir()
    publish.repair(run / "checkpoints", run / "lease", "000003")
    assert names(run) == [".incoming-step-60.000003.1"]
