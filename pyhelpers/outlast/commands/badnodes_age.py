"""outlast badnodes age: what is over goes."""

import typer

from outlast.badnodes import book, store
from outlast.badnodes.book import Line
from outlast.commands import _badnodes, _common


def age(file: _badnodes.File = None, run: _badnodes.Run = "", dry_run: _common.DryRun = False) -> None:
    """Take out the nodes whose time is over."""
    path = _badnodes.file(file, run)
    today = _badnodes.today()
    gone = [one.host for one in book.over(_badnodes.read(path), today)]

    def aged(lines: list[Line]) -> list[Line]:
        return book.without(lines, [one.host for one in book.over(lines, today)])

    if gone and not dry_run:
        store.change(path, aged)
    typer.echo(f"{'would remove' if dry_run else 'removed'} {_badnodes.told(gone)}" if gone else "nothing is over")
