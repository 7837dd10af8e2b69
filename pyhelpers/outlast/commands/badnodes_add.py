"""outlast badnodes add: a strike. Jobs call it, too (lib/badnodes.sh)."""

import math
from typing import Annotated

import typer

from outlast.badnodes import book, entry, store
from outlast.badnodes.book import Line
from outlast.badnodes.entry import Entry
from outlast.commands import _badnodes, _common

Reason = Annotated[str, typer.Option("--reason", metavar="WORD", help="Why, in a word: RCCL_timeout.")]
Strikes = Annotated[float, typer.Option("--strikes", metavar="N", min=0.5, max=8, help="How bad; 0.5: a suspicion.")]
Job = Annotated[str, typer.Option("--job", metavar="ID", help="Whose strike it is; told again, it is none.")]
Of = Annotated[int, typer.Option("--job-nodes", metavar="N", min=1, help="How many nodes the job has; see --all.")]
All = Annotated[bool, typer.Option("--all", help="Also more than 2 nodes and 5 % of the job's at once.")]


def add(
    hosts: _badnodes.Hosts,
    reason: Reason,
    strikes: Strikes = 1.0,
    job: Job = "",
    job_nodes: Of | None = None,
    even_many: All = False,
    file: _badnodes.File = None,
    run: _badnodes.Run = "",
    dry_run: _common.DryRun = False,
) -> None:
    """Give nodes a strike."""
    path = _badnodes.file(file, run)
    names = _badnodes.hosts(hosts)
    if not math.isfinite(strikes):  # typer's bounds let it through
        raise _badnodes.BadNodesRefused(f"--strikes {strikes} is no number from 0.5 to 8")
    if job_nodes and not even_many and len(names) > max(2, job_nodes // 20):
        raise _badnodes.BadNodesRefused(
            f"{len(names)} of {job_nodes} nodes at once: that is the site's trouble, not theirs; if not, type --all"
        )
    today = _badnodes.today()
    words = [f"strikes={strikes:g}"] * (strikes != 1) + [f"job={entry.word(job)}"] * bool(job)

    def struck(lines: list[Line]) -> list[Line]:
        for name in names:
            lines = book.struck(lines, Entry(name, today, entry.word(reason), tuple(words)))
        return lines

    after = struck(store.read(path)) if dry_run else store.change(path, struck)
    _badnodes.warn(path, after)
    for name in names:
        one = book.nodes(after)[name]
        typer.echo(f"{name} {'would be' if dry_run else 'is'} out until {one.ends} ({one.reason})")
