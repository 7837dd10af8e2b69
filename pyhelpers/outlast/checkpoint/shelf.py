"""A folder of checkpoints on the parallel file system: what is on it, and what is taken off it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from outlast import ledger
from outlast.checkpoint import flags, known, manifest, plain, verify
from outlast.checkpoint.format import Scene, Verdict
from outlast.checkpoint.listing import scan, snapshots
from outlast.checkpoint.manifest import Manifest, ManifestError

HOST = "here"


@dataclass(frozen=True)
class Shelf:
    """The folder, what its run says about the names in it (empty: nothing), and the run's ledger."""

    folder: Path
    prefix: str = ""
    marker: str = ""
    quiet_s: float = 60.0
    events: Path | None = None


@dataclass(frozen=True)
class Entry:
    """A checkpoint. `state`: `durable`, with a manifest that adds up; `damaged`, with one that does not; without one
    `complete`, `writing`, `torn` or `unknown`, as its format judges. `pinned` and `flagged` are why, or empty.
    """

    name: str
    path: Path
    step: int
    found: known.Found
    state: str
    reason: str
    bytes: int
    loss: float | None
    pinned: str
    flagged: str
    manifest: Manifest | None


def entries(shelf: Shelf, now: float) -> list[Entry]:
    """The checkpoints of the folder, by step.

    Raises: OSError: it can't be read.
    """
    found = known.find({HOST: scan(shelf.folder)}, shelf.prefix)
    look = look_into(shelf.folder)
    scene = known.in_scene(found, look, Scene(now, shelf.quiet_s, marker=shelf.marker))
    history = flags.turns(ledger.read(shelf.events, *flags.EVENTS)) if shelf.events else ()
    return [_entry(shelf, one, scene, history) for one in found]


def one(path: Path, now: float) -> Entry | None:
    """The entry of a checkpoint alone, whatever lies around it; None: it is none.

    Raises: OSError.
    """
    for snapshot in snapshots({HOST: scan(path.parent, path.name)}):
        found = known.of(snapshot)
        if found and snapshot.name == path.name and snapshot.paths():
            return _entry(Shelf(path.parent), found, known.in_scene([found], look_into(path.parent), Scene(now)), ())
    return None


def judged(path: Path, prefix: str, scene: Scene) -> Verdict | None:
    """Is a checkpoint complete, with what is known around it? None: it is none.

    Raises: OSError.
    """
    for snapshot in snapshots({HOST: scan(path.parent, path.name)}):
        found = known.of(snapshot, prefix)
        if found and snapshot.name == path.name:
            return known.judge(found, look_into(path.parent), scene)
    return None


def look_into(folder: Path) -> Callable[[str], BinaryIO]:
    """Opens files of the folder."""

    def look(path: str) -> BinaryIO:
        return plain.opened(folder / path)

    return look


def _entry(shelf: Shelf, found: known.Found, scene: Scene, history: tuple[flags.Turn, ...]) -> Entry:
    path = shelf.folder / found.snapshot.name
    size = sum(max(found.snapshot.sizes(inside), default=0) for inside in found.snapshot.paths())
    told: Manifest | None = None
    try:
        told = manifest.read(path)
        problems = verify.step(told, found.step) + verify.sizes(path, told)
        state, reason = ("damaged", "; ".join(problems[:3])) if problems else ("durable", f"{len(told.list)} files")
    except FileNotFoundError:
        state, reason = _judged(shelf, found, scene)
    except ManifestError as err:
        state, reason = "damaged", f"its manifest: {err}"
    except OSError as err:
        told, state, reason = None, "unknown", f"{err.filename or path} cannot be read: {err.strerror}"
    loss = told.loss if told and told.loss is not None else found.format.loss(found.snapshot, look_into(shelf.folder))
    flagged = (told.flagged if told else "") or flags.of(found.step, history)
    return Entry(found.snapshot.name, path, found.step, found, state, reason, size, loss, pin_of(path), flagged, told)


def _judged(shelf: Shelf, found: known.Found, scene: Scene) -> tuple[str, str]:
    verdict = known.judge(found, look_into(shelf.folder), scene)
    return verdict.state, verdict.reason


def pin_file(path: Path) -> Path:
    """Where it is written that a checkpoint stays; lib/retention.sh looks there, too."""
    return path.with_name(f".{path.name}.pinned")


def pin_of(path: Path) -> str:
    """Why it is pinned; empty: it is not."""
    try:
        with plain.opened(pin_file(path)) as file:
            return file.read(4096).decode(errors="replace").strip() or "no reason given"
    except OSError:
        return ""


def quarantine(path: Path, folder: Path, why: str, now: float) -> Path:
    """Where the checkpoint lies now: out of everybody's sight, with the reason in why.txt, as lib/checkpoint.sh does.

    Raises: OSError.
    """
    folder.mkdir(exist_ok=True)
    target = folder / f"{path.name}.{int(now)}"
    beside = None if path.is_dir() else manifest.paper(path)
    with (folder / "why.txt").open("a", encoding="utf-8") as file:
        file.write(f"{path.name}: {why}\n")
    path.rename(target)
    if beside is not None and beside.exists():
        beside.rename(manifest.paper(target))
    with contextlib.suppress(FileNotFoundError):
        pin_file(path).unlink()
    return target
