"""outlast toolcopy: the run's own copy of outlast, made by its first job."""

from pathlib import Path
from typing import Annotated

import typer

import outlast
from outlast import toolcopy as copies
from outlast import tree


def toolcopy(dest: Annotated[Path, typer.Argument(metavar="DEST", help="A folder that is not there yet.")]) -> None:
    """Copy outlast into a folder that works without the checkout."""
    copies.make(dest, Path(outlast.__file__).parent, tree.root())
    typer.echo(dest)
