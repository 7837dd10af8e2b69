"""outlast badnodes remove: they are good again."""

import typer

from outlast.badnodes import book, store
from outlast.commands import _badnodes, _common


def remove(
    hosts: _badnodes.Hosts,
    file: _badnodes.File = None,
    run: _badnodes.Run = "",
    dry_run: _common.DryRun = False,
) -> None:
    """Take nodes out of the file."""
    path = _badnodes.file(file, run)
    names = _badnodes.hosts(hosts)
    there = book.nodes(_badnodes.read(path))
    gone = [name for name in names if name in there]
    if not gone:
        raise _badnodes.BadNodesRefused(f"{path} has no {_badnodes.told(names)}; outlast badnodes list --all has all")
    if not dry_run:
        store.change(path, lambda lines: book.without(lines, gone))
    typer.echo(f"{'would remove' if dry_run else 'removed'} {_badnodes.told(gone)}")
    if len(gone) < len(names):
        typer.echo(f"outlast: not in {path}: {_badnodes.told([n for n in names if n not in there])}", err=True)
