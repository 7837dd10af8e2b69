"""outlast flight: compare the flight recorders of a hang and say which rank is waited for."""

import json
from pathlib import Path
from typing import Annotated

import typer

from outlast import flight as recorders
from outlast.commands import _common
from outlast.crash.verdict import printable

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Dumps, a file a rank: RUN/stacks/JOB.RESTART.ATTEMPT.")]


def flight(
    folder: Folder,
    as_json: _common.AsJson = False,
    as_words: Annotated[bool, typer.Option("--words", hidden=True)] = False,
) -> None:
    """Compare the flight recorders of a hang, and say which rank is waited for."""
    found = recorders.look(folder)
    if as_words:
        typer.echo(recorders.words(found))
    elif as_json:
        groups = {group.name: {"ranks": sorted(group.ranks), "begun": group.begun} for group in found.groups}
        told = {"behind": found.behind, "silent": sorted(found.silent), "unread": found.unread, "groups": groups}
        typer.echo(json.dumps(told))
    else:
        typer.echo("\n".join(printable(line) for line in recorders.text(found).splitlines()))
