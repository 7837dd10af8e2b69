"""outlast ckpt quarantine: out of use, and kept."""

import shlex
import time

import typer

from outlast import rundir
from outlast.checkpoint import shelf
from outlast.commands import _ckpt, _common


def quarantine(where: _ckpt.Where, step: _ckpt.Step, why: _ckpt.Why = "", dry_run: _common.DryRun = False) -> None:
    """Take a checkpoint out of use; nothing is deleted."""
    place = _ckpt.place(where)
    run = _ckpt.its_run(place)
    entry = _ckpt.pick(place, step)
    if step in _ckpt.in_use(run):
        raise rundir.RunDirError(f"{entry.name} is in use: a job puts it on its nodes; type this again in a minute")
    if dry_run:
        typer.echo(f"would put {entry.name} into {run.path / 'quarantine'}")
        return
    target = shelf.quarantine(entry.path, run.path / "quarantine", _ckpt.reason(why, "taken out of use"), time.time())
    left = [other.step for other in place.entries() if other.state == "durable"]
    _ckpt.note(run, "quarantined", step=step, durable_step=max(left, default=0), why=why)
    newest = f"the newest durable one is of step {max(left)}" if left else "no durable one is left: the run is held"
    if not left:
        rundir.ask(run, "hold", "no durable checkpoint is left: a job would start from the beginning", _todo(run))
    typer.echo(f"{entry.name} lies in {target}; {newest}")


def _todo(run: rundir.RunDir) -> str:
    return f"outlast resume {shlex.quote(str(run.path))}   (starts anew)"
