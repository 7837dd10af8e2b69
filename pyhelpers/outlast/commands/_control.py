"""What stop, save and hold share: they put a file into the run, and its jobs look for it."""

import shlex
import time
from typing import Annotated

import typer

from outlast import rundir
from outlast.commands import _common

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Why; status and the ledger show it.")]


def ask(kind: str, run: rundir.RunDir, why: str, dry_run: bool, effect: str) -> None:
    """Put control/KIND into the run and say what will happen.

    Raises: RunDirError: it can't be written.
    """
    if dry_run:
        typer.echo(f"would write {run.control(kind)}: {effect}")
        return
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    reason = f"{kind} asked for by {_common.user()}, {when}" + (f": {' '.join(why.split())}" if why else "")
    rundir.ask(run, kind, reason, f"outlast resume {shlex.quote(str(run.path))}" if kind == "hold" else "")
    typer.echo(f"{run.name}: {effect}")
