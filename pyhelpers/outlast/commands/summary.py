"""outlast summary: the jobs of a run in a table. Each job writes it at the end of its log."""

import typer

from outlast import summary as tables
from outlast.commands import _common


def summary(run: _common.RunArgument) -> None:
    """Tell the jobs of a run in a table, one line a job."""
    typer.echo(tables.table(_common.ledger_of(_common.find_run(run))))
