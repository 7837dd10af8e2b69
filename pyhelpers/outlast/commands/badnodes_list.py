"""outlast badnodes list: who is bad, until when, why."""

import json
from typing import Annotated

import typer

from outlast.badnodes import book, entry
from outlast.badnodes.entry import Entry
from outlast.commands import _badnodes, _common

All = Annotated[bool, typer.Option("--all", help="Those whose time is over, too.")]


def listed(
    file: _badnodes.File = None, run: _badnodes.Run = "", with_over: All = False, as_json: _common.AsJson = False
) -> None:
    """List the bad nodes: until when, how bad, why."""
    path = _badnodes.file(file, run)
    today = _badnodes.today()
    found = book.worst(_badnodes.read(path), today, with_over)
    rows = [_row(one, f"{one.score(today):.2f}") for one in found]
    if as_json:
        typer.echo(json.dumps({"file": str(path), "nodes": rows}))
        return
    if not rows:
        old = path.with_name(".bad_nodes.txt")
        hint = f"; {old} is not read, type mv {old} {path}" if old.exists() and not path.exists() else ""
        typer.echo(f"outlast: no bad node in {path}{hint}", err=True)
        return
    _table([dict(zip(rows[0], rows[0], strict=True)), *rows])


def _row(one: Entry, score: str) -> dict[str, str]:
    return {
        "host": one.host,
        "ends": one.ends.isoformat(),
        "strikes": f"{one.strikes:g}",
        "score": score,
        "since": one.since.isoformat(),
        "reason": entry.word(one.reason),
        "source": one.value("source") or (f"job {one.value('job')}" if one.value("job") else "hand"),
        "comment": "".join(c if c.isprintable() else "?" for c in one.comment),
    }


def _table(rows: list[dict[str, str]]) -> None:
    width = {key: max(len(row[key]) for row in rows) for key in rows[0]}
    for row in rows:
        typer.echo("  ".join(text.ljust(width[key]) for key, text in row.items()).rstrip())
