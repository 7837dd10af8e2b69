"""outlast ckpt restore: what was taken away comes back."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from outlast import rundir
from outlast.checkpoint import manifest, shelf, trash, verify
from outlast.checkpoint.manifest import Manifest, ManifestError
from outlast.commands import _ckpt, _common


@dataclass(frozen=True)
class Away:
    """A checkpoint that was taken away: where it is, its name, when it goes for good (0: never, it was put aside)."""

    path: Path
    name: str
    until: int
    told: Manifest


def restore(where: _ckpt.Where, step: _ckpt.Step, dry_run: _common.DryRun = False) -> None:
    """Bring back what was pruned, rolled back or put into quarantine."""
    place = _ckpt.place(where)
    found = [one for one in away(place) if one.told.step == step]
    if not found:
        raise _ckpt.CheckpointRefused(f"{place.shelf.folder}: nothing of step {step} waits there or in quarantine")
    chosen = found[-1]
    target = place.shelf.folder / chosen.name
    newest = max((entry.step for entry in place.entries() if entry.state == "durable"), default=-1)
    check(place, chosen, newest)
    if dry_run:
        typer.echo(f"would bring {chosen.name} back from {chosen.path}")
        return
    if chosen.until:
        # First: the next job that looks would take it away again.
        rundir.write(shelf.pin_file(target), _ckpt.reason("", "restored") + "\n", 0o640)
    try:
        trash.restore(chosen.path, target)
    except OSError as err:
        shelf.pin_file(target).unlink(missing_ok=True)
        raise rundir.RunDirError(f"{target}: {err.strerror}") from err
    _ckpt.note(place.run, "restored", step=step, durable_step=max(newest, step))
    unpin = f"outlast ckpt unpin {shlex.quote(where)} {step}"
    typer.echo(f"{chosen.name} is back" + (f"; pinned, so it stays until you type {unpin}" if chosen.until else ""))


def away(place: _ckpt.Place) -> list[Away]:
    """What waits beside the checkpoints or lies in the run's quarantine and has a manifest, the latest last."""
    found = [(one.until, one.path, one.name, one.until) for one in trash.waiting(place.shelf.folder)]
    if place.run is not None and (place.run.path / "quarantine").is_dir():
        for path in sorted((place.run.path / "quarantine").iterdir()):
            name, _, when = path.name.rpartition(".")
            if when.isdecimal() and name and not name.startswith("."):
                found.append((int(when), path, name, 0))
    return [Away(path, name, until, told) for _, path, name, until in sorted(found) if (told := _manifest(path))]


def _manifest(path: Path) -> Manifest | None:
    try:
        return manifest.read(path)
    except (OSError, ManifestError):
        return None


def check(place: _ckpt.Place, chosen: Away, newest: int) -> None:
    """Nothing, if it may come back.

    Raises: CheckpointRefused, RunDirError: its name is taken, it is damaged, or a job would not notice it.
    """
    if (place.shelf.folder / chosen.name).exists():
        raise _ckpt.CheckpointRefused(f"{place.shelf.folder / chosen.name} is there already; nothing was changed")
    told = chosen.told
    if not chosen.path.is_dir():
        told = replace(told, list=tuple(replace(item, path=chosen.path.name) for item in told.list))
    # What waits for its removal was whole. In quarantine lies what was found to be damaged, too.
    problems = verify.sizes(chosen.path, told) if chosen.until else verify.verify(chosen.path, told).problems
    if problems:
        raise _ckpt.CheckpointRefused(f"{chosen.path} is damaged: {problems[0]}; nothing was changed")
    if place.run is None or chosen.told.step < newest:
        return
    job = _ckpt.running(place.run)
    if job:
        then = f"type outlast stop {shlex.quote(str(place.run.path))}, and this again when it has ended"
        raise rundir.RunDirError(f"job {job} is running and goes on from an older one; {then}")
