"""outlast ckpt unpin: it may go."""

import typer

from outlast.checkpoint import shelf
from outlast.commands import _ckpt, _common


def unpin(where: _ckpt.Where, step: _ckpt.Step, dry_run: _common.DryRun = False) -> None:
    """Let a checkpoint be pruned again."""
    place = _ckpt.place(where)
    entry = _ckpt.pick(place, step)
    if not entry.pinned:
        typer.echo(f"{entry.name} is not pinned")
        return
    if dry_run:
        typer.echo(f"would unpin {entry.name}")
        return
    shelf.pin_file(entry.path).unlink(missing_ok=True)
    _ckpt.note(place.run, "unpinned", step=entry.step)
    typer.echo(f"{entry.name} may be pruned again")
