"""outlast ckpt prune: what need not be kept goes."""

import json
import shlex
import time
from typing import Annotated

import typer

from outlast import rundir
from outlast.checkpoint import retention, trash
from outlast.checkpoint.shelf import Entry
from outlast.commands import _ckpt, _common

Newest = Annotated[int, typer.Option("--newest", metavar="N", min=1, help="Keep the newest N.")]
Best = Annotated[int, typer.Option("--best", metavar="N", min=0, help="And the N with the lowest evaluation loss.")]
Every = Annotated[int, typer.Option("--every", metavar="STEPS", min=0, help="And each whose step is a multiple.")]
Grace = Annotated[float, typer.Option("--grace-h", metavar="HOURS", min=0, help="Really remove after so long.")]


def prune(
    where: _ckpt.Where,
    newest: Newest = 3,
    best: Best = 1,
    every: Every = 0,
    grace_h: Grace = 24,
    dry_run: _common.DryRun = False,
    as_json: _common.AsJson = False,
) -> None:
    """Remove durable checkpoints that need not be kept."""
    place = _ckpt.place(where)
    entries = place.entries()
    used = _ckpt.in_use(place.run) if place.run else set()
    decision = retention.decide([held(entry, used) for entry in entries], retention.Policy(newest, best, every))
    by_name = {entry.name: entry for entry in entries}
    if as_json:
        typer.echo(json.dumps({"keep": decision.keep, "remove": decision.remove}))
    else:
        for name, why in decision.keep.items():
            typer.echo(f"keep    {name}  {', '.join(why)}")
        for name in decision.remove:
            typer.echo(f"{'would remove' if dry_run else 'remove'}  {name}  {_ckpt.size(by_name[name].bytes)}")
    if dry_run:
        return
    remove(where, place, [by_name[name] for name in decision.remove], grace_h, as_json)


def held(entry: Entry, used: set[int]) -> retention.Held:
    """An entry as the decision sees it. One without a manifest is not ours."""
    return retention.Held(
        name=entry.name,
        step=entry.step,
        ours=entry.manifest is not None,
        sound=entry.state == "durable",
        in_use=entry.step in used,
        pinned=bool(entry.pinned),
        flagged=bool(entry.flagged),
        loss=entry.loss,
    )


def remove(where: str, place: _ckpt.Place, entries: list[Entry], grace_h: float, as_json: bool) -> None:
    """Rename them at once; remove those whose time of grace is over. With `as_json` words go to stderr."""
    now = time.time()
    for entry in entries:
        try:
            trash.put(entry.path, now + grace_h * 3600)
        except OSError as err:
            raise rundir.RunDirError(f"{entry.path}: {err.strerror}") from err
    if entries:
        _ckpt.note(place.run, "pruned", steps=",".join(str(entry.step) for entry in entries)[:1000], count=len(entries))
    gone = trash.sweep(place.shelf.folder, now)
    if gone:
        typer.echo(f"gone: {', '.join(gone)}", err=as_json)
    if entries and grace_h:
        back = f"outlast ckpt restore {shlex.quote(where)} {entries[0].step}"
        typer.echo(f"they can be had back for {grace_h:g} h, and until prune runs after that: {back}", err=as_json)
