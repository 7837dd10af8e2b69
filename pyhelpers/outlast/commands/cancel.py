"""outlast cancel: end every job of the chain, now."""

import os
import time

import typer

from outlast import driver, ledger, rundir, runstate
from outlast.commands import _common


def cancel(run: _common.RunArgument, dry_run: _common.DryRun = False) -> None:
    """Stop a run at once: cancel every job of its chain."""
    found = _common.find_run(run)
    rundir.check_owner(found, os.getuid())
    by = _common.scheduler(found)
    jobs = ours(_common.events(found), by)
    if not jobs:
        _common.check_unfinished(found, "cancel")
    what = f"job {' and '.join(jobs)}" if jobs else "no job: none waits or runs"
    if dry_run:
        typer.echo(f"would stop the chain and cancel {what}")
        return
    # First the file: a job that is just being submitted finds it when it starts.
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    rundir.ask(found, "stop", f"cancelled by {_common.user()}, {when}")
    if jobs:
        by.cancel(jobs)
    typer.echo(
        f"{found.name}: chain stopped, cancelled {what}; to go on from the last checkpoint, type outlast resume {run}"
    )


def ours(events: ledger.Run, by: driver.Driver) -> list[str]:
    """Live jobs that the ledger says we made, the successor first: nothing starts while its parent ends.

    A scheduler that gives no answer about one may still take the cancel, so that one is in.
    """
    answers = runstate.ask(by, events.open_jobs())
    return [job for job, state in reversed(answers.items()) if state is None or state.is_live]
