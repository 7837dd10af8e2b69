"""outlast events: the ledger in words."""

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer

from outlast import ledger, rundir, story
from outlast.commands import _common
from outlast.masked import masked

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended, is held or was stopped.")]


def events(run: _common.RunArgument, follow: Follow = False, as_json: _common.AsJson = False) -> None:
    """Tell what happened to a run, one line an event."""
    found = _common.find_run(run)
    reader = ledger.Reader(found.events)
    teller = Teller(as_json)
    chain = not follow or found.setting("CHAIN") != "0"
    try:
        told = sorted(reader.new(), key=lambda event: event.t)
        teller.tell(told)
        while follow and not is_over(told, chain):
            time.sleep(0.5)
            new = reader.new()
            teller.tell(new)
            told += new
    except OSError as err:
        raise rundir.RunDirError(f"{found.events}: {err.strerror}") from err


def is_over(told: list[ledger.Event], chain: bool = True) -> bool:
    """Has the run come to an end that only a person changes, and does no job of it run on?

    Without a chain every job's end is one.
    """
    run = ledger.fold(sorted(told, key=lambda event: event.t))
    end = run.last_end()
    ended = (
        run.finished
        or run.held
        or (end and (not chain or end.then in ("hold", "stop", "leave")) and end.end != "requeued")
    )
    return bool(ended) and not run.open_jobs()


class Teller:
    """Prints events, with a line of its own where a new day begins."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._day = ""

    def tell(self, events: list[ledger.Event]) -> None:
        """Print them."""
        for event in events:
            if self._as_json:
                typer.echo(json.dumps(_flat(event)))
                continue
            if story.day(event.t) != self._day:
                self._day = story.day(event.t)
                typer.echo(self._day)
            typer.echo(story.line(event))


def _flat(event: ledger.Event) -> dict[str, object]:
    own = asdict(event)
    fields = {key: masked(value) if isinstance(value, str) else value for key, value in own.pop("fields").items()}
    return {**own, "event": own.pop("name"), **fields}
