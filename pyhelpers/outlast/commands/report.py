"""outlast report: what happened to an attempt, on one page. Jobs write it after every failure, hold and end."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from outlast import tree
from outlast.commands import _common
from outlast.refused import Refused
from outlast.report import page, shelf
from outlast.report import report as made
from outlast.report.attempt import Attempt
from outlast.rundir import RunDir, RunDirError

Which = Annotated[str, typer.Argument(metavar="[JOB[.RESTART[.ATTEMPT]]]", help="Of which job; the newest otherwise.")]
Write = Annotated[bool, typer.Option("--write", help="Bring reports/ and report.html up to date (jobs do).")]
Log = Annotated[str, typer.Option(metavar="ID=FILE", help="Where the log of that attempt is, with --write.")]


def report(
    run: _common.RunArgument, which: Which = "", write: Write = False, log: Log = "", as_json: _common.AsJson = False
) -> None:
    """Tell on one page how an attempt failed, or how the run ended, and what to do."""
    found = _common.find_run(run)
    events = _common.ledger_of(found)
    attempts = shelf.told(events)
    if write:
        _write(found, attempts, log)
        shelf.put_page(found, events)
        return
    told = made.judged(found, _chosen(found, attempts, which))
    if as_json:
        typer.echo(json.dumps(told.fields()))
    else:
        typer.echo(page.text(told, found.path, tree.command(str(tree.root()))), nl=False)


def _write(run: RunDir, attempts: list[Attempt], log: str) -> None:
    """Those that are missing, and that whose log is given: what followed it may have been noted later.

    What the ledger knows is written first, since to read a log may take longer than there is.
    """
    own, _, file = log.partition("=")
    if log and not (own and file):
        raise Refused(f"--log {log}: write JOB.RESTART.ATTEMPT=FILE")
    for attempt in attempts:
        there = shelf.path(run, attempt, "txt").exists()
        if there and attempt.id != own:
            continue
        if not there:
            shelf.put(run, made.plain(attempt))
        shelf.put(run, made.judged(run, attempt, Path(file) if attempt.id == own else None))
        typer.echo(f"report: {shelf.path(run, attempt, 'txt')}")


def _chosen(run: RunDir, attempts: list[Attempt], which: str) -> Attempt:
    if which and not re.fullmatch(r"[A-Za-z0-9_\[\]-]+(\.[A-Za-z0-9_-]+)*", which):
        raise Refused(f"{which!r} is no job: type JOB, JOB.RESTART or JOB.RESTART.ATTEMPT")
    fitting = [attempt for attempt in attempts if not which or f"{attempt.id}.".startswith(f"{which}.")]
    if fitting:
        return fitting[-1]
    when = "one is written after a failure, a hold and the end of the run"
    raise RunDirError(f"no report{f' of {which}' if which else ''} in {run.name}: {when}")
