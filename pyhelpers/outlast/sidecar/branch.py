"""`from` in a job: the first launch of a run starts from a durable checkpoint of another run.

It is verified there, then becomes one of ours: by hard links where the file system and its owner allow that (no bytes
are copied, and the other run may remove its own name for it), else as a copy. Meanwhile it is pinned over there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from outlast import rundir
from outlast.checkpoint import adopt, manifest, shelf, verify
from outlast.checkpoint.manifest import Item, Manifest
from outlast.checkpoint.shelf import Entry, Shelf
from outlast.rundir import RunDir
from outlast.sidecar import publish
from outlast.sidecar.retain import Run


class BranchError(ValueError):
    """There is nothing to start from; the message says why."""


@dataclass(frozen=True)
class Branched:
    """What the run starts from, and whether its files are links."""

    step: int
    bytes: int
    source: Path
    linked: bool


def source(text: str, runs_dir: Path) -> tuple[Path, int | None]:
    """The folder of the run that `from` names, and the step, if it says one."""
    name, at, step = text.rpartition("@")
    if not at or not step.isdecimal():
        name, step = text, ""
    return runs_dir / name, int(step) if step else None  # an absolute path stays one


def take(run: Run, other: Path, step: int | None, is_shared: bool) -> Branched:
    """Make the checkpoint of the other run (None: its newest that is not flagged) the first durable one of ours.

    Raises: BranchError; LeaseLostError, OSError: nothing was published.
    """
    entry = _chosen(other, step)
    assert entry.manifest is not None
    with _pinned(entry, run):
        problems = verify.verify(entry.path, entry.manifest).problems
        if problems:
            raise BranchError(f"{entry.path} is damaged: {problems[0]}")
        return _take(run, entry, entry.manifest, is_shared)


def _chosen(other: Path, step: int | None) -> Entry:
    if not rundir.is_run(other):
        raise BranchError(f"{other} is no run")
    run = RunDir(other)
    prefix = run.setting("CKPT_PREFIX") if run.script.is_file() else ""
    try:
        there = shelf.entries(Shelf(other / "checkpoints", prefix, events=run.events), time.time())
    except OSError as err:
        raise BranchError(f"{other / 'checkpoints'}: {err.strerror}") from err
    durable = [entry for entry in there if entry.state == "durable"]
    fit = [entry for entry in durable if (entry.step == step if step is not None else not entry.flagged)]
    if fit:
        return fit[-1]
    steps = ", ".join(f"{entry.step}{' (flagged)' if entry.flagged else ''}" for entry in durable[-8:]) or "none"
    raise BranchError(
        f"{other} has no durable checkpoint{f' of step {step}' if step is not None else ''}; it has {steps}"
    )


@contextlib.contextmanager
def _pinned(entry: Entry, run: Run) -> Iterator[None]:
    """Its run does not remove it now. Another's pin stays as it is; where we may not write there is none."""
    file, why = shelf.pin_file(entry.path), f"run {run.path} starts from it (job {run.job})\n"
    with contextlib.suppress(OSError):
        if not entry.pinned:
            rundir.write(file, why, 0o640)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if file.read_text(encoding="utf-8") == why:
                file.unlink()


def _take(run: Run, entry: Entry, known: Manifest, is_shared: bool) -> Branched:
    name = adopt.named(entry, run.prefix)
    target, part = run.durable / name, run.durable / f".incoming-{name}.{run.generation}.0"
    _empty(part)
    files = _files(entry, name)
    # On shared storage a trainer looks for the file itself, on a node it is taken out of a folder of its name.
    is_bare = is_shared and len(files) == 1 and files[0].inside == name
    linked = True
    for file in files:
        into = part if is_bare else part / file.inside
        into.parent.mkdir(parents=True, exist_ok=True)
        linked = _put(file.path, into, linked)
    told = replace(
        known,
        list=tuple(Item(file.inside, file.item.bytes, file.item.hash) for file in files),
        run=run.path.name,
        job=run.job,
        restart=0,
        attempt=0,
        written=int(time.time()),
        flagged=entry.flagged,
        parent=str(entry.path),
    )
    manifest.publish(part, told)
    if not linked and (problems := verify.verify(part, replace(told, list=_at(told, part))).problems):
        raise BranchError(f"the copy of {entry.path} is damaged: {problems[0]}")
    publish.check_lease(run.path / "lease", run.generation)
    if is_bare:
        manifest.paper(part).rename(manifest.paper(target))
    try:
        part.rename(target)
    except FileNotFoundError:
        if not manifest.paper(
            target
        ).exists():  # else the coordinator, which publishes what has its manifest, was faster
            raise
    return Branched(entry.step, told.bytes, entry.path, linked)


def _at(told: Manifest, part: Path) -> tuple[Item, ...]:
    """The files as they are called under the name that a copy has for now."""
    return told.list if part.is_dir() else tuple(replace(item, path=part.name) for item in told.list)


@dataclass(frozen=True)
class _File:
    """A file of the other run's checkpoint, and its path in ours."""

    path: Path
    inside: str
    item: Item


def _files(entry: Entry, name: str) -> list[_File]:
    assert entry.manifest is not None
    is_one = not entry.path.is_dir() or entry.found.snapshot.is_wrapped
    return [
        _File(verify.at(entry.path, item.path), name if is_one else item.path, item) for item in entry.manifest.list
    ]


def _put(path: Path, into: Path, link: bool) -> bool:
    """Is it a link? Another file system, or a file that is not ours, allows only a copy."""
    if link:
        try:
            os.link(path, into, follow_symlinks=True)
        except OSError:
            link = False
    if not link:
        shutil.copyfile(path, into)
    return link


def _empty(part: Path) -> None:
    manifest.paper(part).unlink(missing_ok=True)
    shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)
