"""outlast ckpt rollback: the run goes on from an older step."""

import os
import shlex
import time

import typer

from outlast import rundir
from outlast.checkpoint import shelf, verify
from outlast.checkpoint.shelf import Entry
from outlast.commands import _ckpt, _common


def rollback(where: _ckpt.Where, step: _ckpt.Step, why: _ckpt.Why = "", dry_run: _common.DryRun = False) -> None:
    """Go back to an older checkpoint: the newer ones go to quarantine."""
    place = _ckpt.place(where)
    run = _ckpt.its_run(place)
    _common.check_unfinished(run, "roll back")
    rundir.check_owner(run, os.getuid())
    check(_ckpt.pick(place, step))
    newer = [entry for entry in place.entries() if entry.step > step]
    if not newer:
        raise _ckpt.CheckpointRefused(f"step {step} is the newest there is; nothing was changed")
    names = ", ".join(entry.name for entry in newer)
    if dry_run:
        typer.echo(f"would hold {run.name} and put {names} into quarantine")
        return
    job = _ckpt.running(run)
    if job:
        then = f"type outlast stop {where}, and this again when it has ended"
        raise rundir.RunDirError(f"job {job} is running and would go on from where it is; {then}")
    told, todo = _ckpt.reason(why, f"rolled back to step {step}"), f"outlast resume {shlex.quote(str(run.path))}"
    # First the hold: a job that starts now leaves again, and finds no folder that is half emptied.
    rundir.ask(run, "hold", told, todo)
    # The newest first: whoever looks meanwhile sees a row without holes.
    for entry in reversed(newer):
        shelf.quarantine(entry.path, run.path / "quarantine", told, time.time())
    _ckpt.note(run, "rolled_back", step=step, names=names[:1000], why=why)
    typer.echo(f"{run.name}: {names} in quarantine; held at step {step}. To go on, type {todo}")


def check(entry: Entry) -> None:
    """Nothing, if the run can resume from it: it is durable, and verified at this moment.

    Raises: CheckpointRefused: it is not.
    """
    if entry.state != "durable" or entry.manifest is None:
        raise _ckpt.CheckpointRefused(f"{entry.name} is {entry.state} ({entry.reason}); nothing was changed")
    problems = verify.verify(entry.path, entry.manifest).problems
    if problems:
        raise _ckpt.CheckpointRefused(f"{entry.name} is damaged: {problems[0]}; nothing was changed")
