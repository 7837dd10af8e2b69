"""outlast status: how a run is doing."""

import json
import shlex
from dataclasses import asdict

import typer

from outlast import runstate
from outlast.commands import _common


def status(run: _common.RunArgument, as_json: _common.AsJson = False) -> None:
    """Say how a run is doing, and what to type next."""
    found = _common.find_run(run)
    events = _common.events(found)
    by = _common.scheduler(found)
    answers = runstate.ask(by, events.open_jobs())
    target = found.setting("TARGET_STEP")
    answer = runstate.status(found, shlex.quote(run), events, answers, int(target) if target.isdecimal() else 0)
    typer.echo(json.dumps(asdict(answer)) if as_json else _page(answer))


def _page(status: runstate.Status) -> str:
    rows = [
        (status.run, status.state + (f", job {status.job}" if status.job else "")),
        ("step", _steps(status)),
        ("chain", ", ".join(status.chain[-8:]) if status.chain else "no job yet"),
        ("why", status.reason),
        ("next", status.todo),
        ("mail", _mail(status)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(_printable(f"{name:<{width}}  {text}") for name, text in rows if text)


def _steps(status: runstate.Status) -> str:
    if status.step is None:
        return "none yet"
    target = f" of {status.target_step}" if status.target_step else ""
    safe = f"; {status.durable_step} is safe" if status.durable_step else "; no checkpoint is safe yet"
    return f"{status.step}{target}{safe}"


def _mail(status: runstate.Status) -> str:
    if not status.messages:
        return ""
    wait = f"{status.messages} message{'s wait' if status.messages > 1 else ' waits'} to be sent"
    return wait + (f"; the last try: {status.mail_error}" if status.mail_error else "")


def _printable(text: str) -> str:
    # Others may write into control/, and the ledger is data: nothing of it reaches the terminal as a command.
    return "".join(char if char.isprintable() else " " for char in text)
