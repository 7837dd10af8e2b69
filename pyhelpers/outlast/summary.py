"""The jobs of a run in a table: what a person reads in ten seconds."""

import time

from outlast import ledger, story
from outlast.ledger import Event, Job, Run
from outlast.masked import masked

HEADS = ("job", "started", "ran", "steps", "ended")
_SHOWN = 20


def table(events: list[Event]) -> str:
    """One line a job, in order of their start, and one for the whole; the last twenty of a long chain."""
    jobs = rows(events)
    shown = [HEADS, *jobs[-_SHOWN:]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(HEADS))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    if len(jobs) > _SHOWN:
        lines.insert(1, f"… {len(jobs) - _SHOWN} earlier jobs")
    return "\n".join([*lines, whole(events)])


def rows(events: list[Event]) -> list[tuple[str, ...]]:
    """The jobs that have started, each with a cell for each of HEADS."""
    now = ledger.fold(events).last_t or 0
    return [_row(job, now) for job in _each_start(events) if job.started_t]


def whole(events: list[Event]) -> str:
    """`3 jobs; step 120, 100 is safe; goes on`."""
    return _whole(ledger.fold(events), len(rows(events)))


def _each_start(events: list[Event]) -> list[Job]:
    """The jobs, and one that the scheduler started again once for each start."""
    own: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        own.setdefault((event.job, event.restart), []).append(event)
    return [ledger.fold(part).jobs[job] for (job, _), part in own.items() if job in ledger.fold(part).jobs]


def _row(job: Job, now: float) -> tuple[str, ...]:
    started = job.started_t or 0
    name = f"{job.id}.{job.restart}" if job.restart else job.id
    steps = f"{job.from_step or 0} to {job.step}" if job.step is not None else "none"
    ended = f"{job.end} ({story.plain(job.evidence)})" if job.evidence else job.end
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
    return (_printable(name), when, _clock((job.ended_t or now) - started), steps, _printable(ended) or "not yet")


def _whole(run: Run, number: int) -> str:
    state = "finished" if run.finished else f"held: {_printable(run.held)}" if run.held else "goes on"
    safe = f"{run.durable_step} is safe" if run.durable_step else "no checkpoint is safe yet"
    steps = f"step {run.step}, {safe}" if run.step is not None else "no step yet"
    return f"{number} job{'s' * (number != 1)}; {steps}; {state}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in masked(text))
