"""What the verbs for runs share."""

import contextlib
import getpass
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from outlast import driver, ledger, places, rundir, runstate, tree
from outlast.badnodes import leave_out, lock
from outlast.commands.render import user_file
from outlast.refused import Refused

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The name of a run, or the path of its directory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
found: list[rundir.RunDir] = []  # runs that this command is about
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


def find_run(typed: str) -> rundir.RunDir:
    """The run that was typed.

    Raises: Refused: there is none.
    """
    where = [] if "/" in typed else places.of_runs(tree.root(), os.environ, user_file())
    run = rundir.find(typed, where)
    found.append(run)
    return run


def ledger_of(run: rundir.RunDir) -> list[ledger.Event]:
    """The run's events, by time.

    Raises: RunDirError: the ledger can't be read.
    """
    try:
        return ledger.read(run.events)
    except OSError as err:
        raise rundir.RunDirError(f"{run.events}: {err.strerror}") from err


def events(run: rundir.RunDir) -> ledger.Run:
    """What its ledger makes of the run.

    Raises: RunDirError: the ledger can't be read.
    """
    return ledger.fold(ledger_of(run))


def scheduler(run: rundir.RunDir) -> driver.Driver:
    """The scheduler that the run's job script was rendered for.

    Raises: Refused: the script is missing or names none.
    """
    name = run.setting("SCHEDULER")
    if not name:
        raise rundir.RunDirError(f"{run.script} names no scheduler; is it a whole job script?")
    return driver.named(name, tree.root())


def live_jobs(run: rundir.RunDir, jobs: ledger.Run, by: driver.Driver) -> list[str]:
    """Jobs of the run that wait, run or end: those in its ledger, and one that has not written there yet.

    Raises: NoAnswer: the scheduler doesn't say.
    """
    found = [job.id for job in jobs.open_jobs()[-runstate.ASK_AT_MOST :] if by.state(job.id).is_live]
    named = by.find(run.name)
    return found if not named or named in jobs.jobs else [*found, named]


def alone(run: rundir.RunDir) -> contextlib.AbstractContextManager[object]:
    """Nobody else looks for the run's jobs and submits one while the block runs; whoever waits finds the job there.

    Raises: LockError: somebody is at it for long.
    """
    return lock.held(run.path / ".submit", wait_s=60, stale_s=900)  # a scheduler may take minutes to answer


def submit(run: rundir.RunDir, by: driver.Driver, project: str, parent: str = "") -> str:
    """The id of a new job of the run, also written into the ledger; it waits for the end of `parent`.

    Raises: SchedulerRefused, NoAnswer; RunDirError: the ledger can't be written (the job is submitted).
    """
    options = {"depend": parent, "output": run.path / "logs" / "%j.out", "dir": project}
    exclude = _left_out(run, by)
    try:
        job = by.submit(run.script, run.name, exclude=exclude, **options)
    except driver.SchedulerRefused as err:
        if not exclude:
            raise
        # So few nodes may be left that no job fits: better on a bad one than not at all.
        typer.echo(f"outlast: {err}; trying without the list of bad nodes", err=True)
        job = by.submit(run.script, run.name, **options)
    note(run, "submitted", successor=job, name=run.name)
    return job


def _left_out(run: rundir.RunDir, by: driver.Driver) -> str:
    try:
        exclude = leave_out.hosts(run, by, datetime.now(UTC).date())
    except Refused as err:
        typer.echo(f"outlast: {err}; no bad node is left out", err=True)
        return ""
    if exclude:
        typer.echo(f"outlast: left out: {exclude} ({run.bad_nodes})", err=True)
    return exclude


def note(run: rundir.RunDir, event: str, /, **fields: ledger.Value) -> None:
    """Write into the ledger what the person at the keyboard did.

    Raises: RunDirError.
    """
    try:
        ledger.append(run.events, ledger.by_person(run.name, event, time.time(), **fields, by=user()))
    except OSError as err:
        raise rundir.RunDirError(f"{run.events}: {err.strerror}") from err


def user() -> str:
    """Who is at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def check_unfinished(run: rundir.RunDir, wanted: str) -> None:
    """Nothing, unless the run has finished: then there is nothing to do.

    Raises: RunDirError: it has.
    """
    if run.finished.exists():
        raise rundir.RunDirError(f"{run.name} has finished, so there is nothing to {wanted}; nothing was written")


def project_of(run: rundir.RunDir) -> str:
    """The project folder that the run was first submitted from; empty where that is not written."""
    try:
        return (run.path / "project_dir").read_text(errors="surrogateescape").strip()
    except OSError:
        return ""


def shown(path: Path) -> str:
    """A path as a person would type it."""
    home = str(Path.home())
    text = str(path)
    return "~" + text.removeprefix(home) if text.startswith(f"{home}/") else text
