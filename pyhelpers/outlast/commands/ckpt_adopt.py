"""outlast ckpt adopt: takes a teammate's checkpoint into a run, or writes manifests where they lie."""

import time
from typing import Annotated

import typer

from outlast import rundir
from outlast.checkpoint import adopt as adopting
from outlast.checkpoint.shelf import Entry
from outlast.commands import _ckpt, _common

Source = Annotated[str, typer.Argument(metavar="DIR", help="A folder of checkpoints, a checkpoint, or another run.")]
Into = Annotated[str, typer.Option("--into", metavar="RUN", help="Copy it into this run; else it stays there.")]
AtStep = Annotated[int | None, typer.Option("--step", metavar="STEP", min=0, help="This one.")]


def adopt(source: Source, into: Into = "", step: AtStep = None, dry_run: _common.DryRun = False) -> None:
    """Make a checkpoint durable that outlast has not written."""
    place = _ckpt.place(source)
    whole = [entry for entry in place.entries() if entry.state in ("complete", "durable")]
    if step is not None:
        chosen = [_ckpt.pick(place, step)]
        if chosen[0] not in whole:
            raise _ckpt.CheckpointRefused(f"{chosen[0].name} is {chosen[0].state}: {chosen[0].reason}")
    else:
        chosen = whole
    if not chosen:
        raise _ckpt.CheckpointRefused(f"{place.only or place.shelf.folder}: no complete checkpoint is there")
    if into:
        _copy(chosen[-1], into, dry_run)
        return
    for entry in (entry for entry in chosen if entry.manifest is None):
        if dry_run:
            typer.echo(f"would write a manifest into {entry.path}")
            continue
        told = adopting.in_place(entry, time.time())
        _ckpt.note(place.run, "adopted", step=entry.step, bytes=told.bytes)
        typer.echo(f"{entry.name}: {len(told.list)} files, {_ckpt.size(told.bytes)}; durable now")


def _copy(entry: Entry, into: str, dry_run: bool) -> None:
    target = _ckpt.place(into)
    run = _ckpt.its_run(target)
    name = adopting.named(entry, target.shelf.prefix)
    newest = max((other.step for other in target.entries() if other.state == "durable"), default=-1)
    if newest > entry.step:
        raise _ckpt.CheckpointRefused(f"{run.name} has a newer one, of step {newest}; nothing was copied")
    if dry_run:
        typer.echo(f"would copy {entry.path} to {target.shelf.folder / name} ({_ckpt.size(entry.bytes)})")
        return
    job = _ckpt.running(run)
    if job:
        raise rundir.RunDirError(f"job {job} of {run.name} is running; type outlast stop {into} first")
    told = adopting.into(entry, target.shelf.folder, name, run.name, time.time())
    _ckpt.note(run, "checkpoint_durable", step=entry.step, bytes=told.bytes)
    typer.echo(f"{run.name}: goes on from step {entry.step}, {_ckpt.size(told.bytes)} from {entry.path}")
