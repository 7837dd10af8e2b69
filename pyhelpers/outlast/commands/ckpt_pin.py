"""outlast ckpt pin: it stays."""

import typer

from outlast import rundir
from outlast.checkpoint import shelf
from outlast.commands import _ckpt, _common


def pin(where: _ckpt.Where, step: _ckpt.Step, why: _ckpt.Why = "", dry_run: _common.DryRun = False) -> None:
    """Keep a checkpoint, whatever is pruned."""
    place = _ckpt.place(where)
    entry = _ckpt.pick(place, step)
    if dry_run:
        typer.echo(f"would pin {entry.name}")
        return
    rundir.write(shelf.pin_file(entry.path), _ckpt.reason(why, "pinned") + "\n", 0o640)
    _ckpt.note(place.run, "pinned", step=entry.step, why=why)
    typer.echo(f"{entry.name} stays until you type outlast ckpt unpin {where} {step}")
