"""outlast ckpt list: what is there."""

import json
import time
from typing import Any

import typer

from outlast.checkpoint import trash
from outlast.checkpoint.shelf import Entry
from outlast.commands import _ckpt, _common


def listed(where: _ckpt.Where, as_json: _common.AsJson = False) -> None:
    """List the checkpoints of a run or a folder, newest last."""
    place = _ckpt.place(where)
    entries = place.entries()
    if as_json:
        typer.echo(json.dumps([as_record(entry) for entry in entries]))
        return
    if not entries:
        typer.echo("no checkpoint is there")
    for line in table([row(entry) for entry in entries]) if entries else ():
        typer.echo(line)
    for one in trash.waiting(place.shelf.folder) if place.only is None else ():
        until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(one.until))
        typer.echo(f"{printable(one.name)} was taken away; until {until} outlast ckpt restore brings it back")


def as_record(entry: Entry) -> dict[str, Any]:
    """An entry with named fields."""
    told = {
        key: getattr(entry, key) for key in ("name", "step", "state", "reason", "bytes", "loss", "pinned", "flagged")
    }
    return {**told, "path": str(entry.path), "format": entry.found.format.NAME}


def row(entry: Entry) -> list[str]:
    """An entry as cells."""
    loss = f"loss {entry.loss:.4g}" if entry.loss is not None else ""
    why = entry.reason if entry.state not in ("durable", "complete") else ""
    pinned = f"pinned: {entry.pinned}" if entry.pinned else ""
    flagged = f"flagged: {entry.flagged}" if entry.flagged else ""
    more = "; ".join(filter(None, (why, flagged, pinned)))
    return [str(entry.step), entry.state, entry.found.format.NAME, _ckpt.size(entry.bytes), loss, entry.name, more]


def printable(text: str) -> str:
    """A name is data: no command to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def table(rows: list[list[str]]) -> list[str]:
    """Lines with aligned columns; numbers of the first one to the right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    cells = [[row[0].rjust(widths[0]), *(c.ljust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in rows]
    return ["  ".join(line).rstrip() for line in cells]
