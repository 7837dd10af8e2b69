"""outlast resume: go on after a stop, a hold or a loss."""

import contextlib
import os
import time
from datetime import datetime
from typing import Annotated

import typer

from outlast import driver, ledger, rundir
from outlast import job as jobs
from outlast.commands import _common

Accept = Annotated[
    bool, typer.Option("--accept-pins", help="What it trains with has changed, and that is right: pin it anew.")
]


def resume(run: _common.RunArgument, accept_pins: Accept = False, dry_run: _common.DryRun = False) -> None:
    """Clear a stop or a hold and submit the run again."""
    found = _common.find_run(run)
    rundir.check_owner(found, os.getuid())
    with contextlib.nullcontext() if dry_run else _common.alone(found):
        _go_on(found, run, accept_pins, dry_run)


def _go_on(found: rundir.RunDir, typed: str, accept_pins: bool, dry_run: bool) -> None:
    if found.finished.exists():
        raise rundir.RunDirError(
            f"{found.name} has finished; if it has not, remove {found.finished} and type this again"
        )
    by = _common.scheduler(found)
    events = _common.events(found)
    live = _common.live_jobs(found, events, by)
    end = found.setting("END_DATE")
    if not live and jobs.end_date_has_come(end, datetime.now()):
        raise rundir.RunDirError(
            f"the end date of {found.name}, {end}, has come, so a job would only hold it again; set "
            f"OUTLAST_END_DATE in {found.script} to a later day, then type this again"
        )
    if dry_run:
        todo = f"job {live[0]} is there, nothing to submit" if live else f"would submit {found.script}"
        anew = "; would pin anew" if accept_pins and found.pins.exists() else ""
        typer.echo(f"would clear stop and hold; {todo}{anew}")
        return
    if accept_pins:
        _unpin(found)
    cleared = rundir.clear(found, "stop", "hold")
    _common.note(found, "resumed")
    told = f"{found.name}: " + (f"{' and '.join(cleared)} cleared; " if cleared else "")
    if live:
        late = "; if it had begun to stop, type this again when it has ended" if "stop" in cleared else ""
        typer.echo(f"{told}job {' and '.join(live)} is there already, nothing submitted{late}")
        return
    job = _submit(found, by, _leaving(events, by))
    typer.echo(f"{told}job {job} submitted; type outlast status {typed}")


def _unpin(run: rundir.RunDir) -> None:
    """The next launch writes pins.toml anew; what was pinned stays beside it."""
    try:
        run.pins.rename(run.pins.with_name(f"pins.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.toml"))
    except FileNotFoundError:
        return
    _common.note(run, "pins", answer="accepted")


def _leaving(events: ledger.Run, by: driver.Driver) -> str:
    """The job that has written its end and still copies its last checkpoint, which the next one has to wait for."""
    end = events.last_end()
    return end.id if end and by.state(end.id).is_live else ""


def _submit(run: rundir.RunDir, by: driver.Driver, parent: str) -> str:
    try:
        return _common.submit(run, by, _common.project_of(run), parent)
    except driver.SchedulerRefused as err:
        # What was cleared is put back: the run must not look as if a job were on its way.
        rundir.ask(run, "hold", f"resume failed: {err}", f"outlast resume {run.path}")
        raise
