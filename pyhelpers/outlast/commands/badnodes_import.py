"""outlast badnodes import: what the scheduler knows already."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from outlast.badnodes import said, store
from outlast.badnodes.book import Line
from outlast.commands import _badnodes, _common

Output = Annotated[
    str, typer.Argument(metavar="[FILE]", help="Output of sinfo -R or pbsnodes -l; - is stdin. Without it: ask.")
]
All = Annotated[bool, typer.Option("--all", help="Planned work, too: maintenance, reboots, upgrades.")]


def imported(
    output: Output = "",
    with_planned: All = False,
    file: _badnodes.File = None,
    run: _badnodes.Run = "",
    scheduler: _badnodes.Scheduler = "",
    dry_run: _common.DryRun = False,
) -> None:
    """Take over what the scheduler says of its nodes."""
    path = _badnodes.file(file, run)
    text = _said(output) if output else _badnodes.scheduler(scheduler, run).reasons()
    told = said.facts(text)
    if text.strip() and not told:
        raise _badnodes.BadNodesRefused("no node in that output; it is that of sinfo -R, pbsnodes -l or pbsnodes -a")
    wanted = [fact for fact in told if with_planned or not fact.is_planned]
    today = _badnodes.today()
    new: list[str] = []

    def taken(lines: list[Line]) -> list[Line]:
        after, fresh = said.taken(lines, wanted, today)
        new[:] = [one.host for one in fresh]
        return after

    _badnodes.warn(path, taken(store.read(path)) if dry_run else store.change(path, taken))
    planned = len(told) - len(wanted)
    left = f"; {planned} left out, for planned work (--all takes them)" if planned else ""
    what = f"{'would take' if dry_run else 'took'} {_badnodes.told(new)}" if new else "nothing new"
    typer.echo(f"{what} of {len(told)} nodes that are out of service{left}")


def _said(output: str) -> str:
    return sys.stdin.read() if output == "-" else Path(output).read_text(encoding="utf-8", errors="replace")
