"""outlast ckpt lint: does it hold all that a resume needs?"""

import json
import time
from typing import Annotated

import typer

from outlast.checkpoint.format import Scene
from outlast.checkpoint.shelf import look_into
from outlast.commands import _ckpt, _common

Ranks = Annotated[int | None, typer.Option("--ranks", metavar="N", min=1, help="How many ranks wrote it.")]


def lint(
    where: _ckpt.Where, step: _ckpt.MaybeStep = None, ranks: Ranks = None, as_json: _common.AsJson = False
) -> None:
    """Say what an exact resume needs and a checkpoint lacks."""
    entry = _ckpt.pick(_ckpt.place(where), step)
    look, found = look_into(entry.path.parent), entry.found
    world = ranks or found.format.world(found.snapshot, look)
    lacks = found.format.lacks(found.snapshot, look, Scene(time.time(), world=world))
    if as_json:
        typer.echo(json.dumps({"name": entry.name, "format": found.format.NAME, "ranks": world, "lacks": lacks}))
        return
    of = f"{entry.name} ({found.format.NAME}, {f'{world} ranks' if world else 'number of ranks unknown'})"
    typer.echo(f"{of}: " + ("an exact resume lacks nothing that outlast knows of" if not lacks else "it lacks"))
    for line in lacks:
        typer.echo(f"  {line}")
