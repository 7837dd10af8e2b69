"""outlast badnodes exclude: for sbatch --exclude, srun -x."""

from typing import Annotated

import typer

from outlast import driver, hostlist
from outlast.badnodes import book, leave_out
from outlast.commands import _badnodes

Most = Annotated[int, typer.Option("--most", metavar="N", min=1, help="So many at most, the worst first.")]


def exclude(
    file: _badnodes.File = None,
    run: _badnodes.Run = "",
    scheduler: _badnodes.Scheduler = "",
    most: Most = leave_out.MOST,
) -> None:
    """Print the nodes to leave out, as the scheduler takes them."""
    path = _badnodes.file(file, run)
    found = [one.host for one in book.worst(_badnodes.read(path), _badnodes.today())]
    if not found:
        return
    by = _badnodes.scheduler(scheduler, run)
    try:
        found = by.known(found)
    except driver.NoAnswer as err:
        typer.echo(f"outlast: {err}: names that it does not know are in the list, too", err=True)
    if len(found) > most:
        typer.echo(f"outlast: {len(found)} bad nodes, the worst {most} are printed", err=True)
    if not by.excludes():
        typer.echo(f"outlast: {by.name} keeps no job off a node; ask for spares, and leave these idle", err=True)
        typer.echo(",".join(found[:most]))
        return
    typer.echo(hostlist.compress(found[:most]))
