"""outlast status: how a run is doing."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict

import typer

from outlast import ledger, nodes, runstate
from outlast.commands import _common
from outlast.masked import masked


def status(run: _common.RunArgument, as_json: _common.AsJson = False) -> None:
    """Say how a run is doing, and what to type next."""
    found = _common.find_run(run)
    told = _common.ledger_of(found)
    events = ledger.fold(told)
    by = _common.scheduler(found)
    answers = runstate.ask(by, events.open_jobs())
    target = found.setting("TARGET_STEP")
    answer = runstate.status(found, shlex.quote(run), events, answers, int(target) if target.isdecimal() else 0)
    of_job = nodes.of(told, answer.job or nodes.newest(told))
    train = found.setting("NODES")
    training = int(train) if train.isdecimal() else 0
    if as_json:
        extra = {"spares": of_job.spares(training), "spares_left": of_job.spares_left(training)}
        typer.echo(json.dumps(asdict(answer) | {"nodes": asdict(of_job) | extra}))
    else:
        typer.echo(_page(answer, of_job, training))


def _page(status: runstate.Status, of_job: nodes.Nodes, training: int) -> str:
    rows = [
        (status.run, status.state + (f", job {status.job}" if status.job else "")),
        ("step", _steps(status)),
        ("chain", ", ".join(status.chain[-8:]) if status.chain else "no job yet"),
        ("nodes", _spares(of_job, training)),
        ("out", _some(f"{host} ({why})" for host, why in of_job.dropped.items())),
        (
            "swaps",
            _some(f"{swap.replaced_by} for {swap.host}{f' ({swap.why})' * bool(swap.why)}" for swap in of_job.swaps),
        ),
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


def _spares(of_job: nodes.Nodes, training: int) -> str:
    had = of_job.spares(training)
    return f"{of_job.spares_left(training)} of {had} spare{'s'[: had != 1]} left" if had else ""


def _some(texts: Iterable[str], most: int = 8) -> str:
    found = list(texts)
    return "; ".join(found[:most]) + (f"; and {len(found) - most} more" if len(found) > most else "")


def _mail(status: runstate.Status) -> str:
    if not status.messages:
        return ""
    wait = f"{status.messages} message{'s wait' if status.messages > 1 else ' waits'} to be sent"
    return wait + (f"; the last try: {status.mail_error}" if status.mail_error else "")


def _printable(text: str) -> str:
    # Others may write into control/, and the ledger is data: nothing of it reaches the terminal as a command.
    return "".join(char if char.isprintable() else " " for char in masked(text))
