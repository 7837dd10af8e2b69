"""The ledger of a run, events.jsonl: what happened, and what that makes of the run. docs/ledger.md has the events.

Several jobs append to the file, sometimes twice after a write whose end they did not see, so a reader drops torn
lines and what it has seen.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

Value = str | int | float


@dataclass(frozen=True)
class Event:
    """One line of the ledger. `t` is UTC seconds since 1970; `job` is empty for what a person did."""

    t: float
    run: str
    job: str
    restart: int
    attempt: int
    seq: int
    name: str
    fields: Mapping[str, Value] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """A field as text, empty where the event has none."""
        value = self.fields.get(key, "")
        return f"{value:g}" if isinstance(value, float) else str(value)

    def number(self, key: str) -> int | None:
        """A field as a whole number, None where it is missing or no number."""
        value = self.fields.get(key)
        return int(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class Job:
    """One job of the chain, as far as the ledger tells.

    `end` is the class of its end, empty while it has none; `attempt_end` that of its last attempt while the job
    has not launched another one.
    """

    id: str
    parent: str = ""
    name: str = ""
    submitted_t: float | None = None
    started_t: float | None = None
    ended_t: float | None = None
    host: str = ""
    restart: int = 0
    attempts: int = 0
    from_step: int | None = None
    step: int | None = None
    attempt_end: str = ""
    end: str = ""
    evidence: str = ""
    then: str = ""


@dataclass(frozen=True)
class Run:
    """What the events make of a run. `held` and `todo` are empty unless it is held; jobs are in order of submission."""

    jobs: Mapping[str, Job] = field(default_factory=dict)
    step: int | None = None
    durable_step: int | None = None
    finished: bool = False
    held: str = ""
    todo: str = ""
    last_t: float | None = None

    def open_jobs(self) -> list[Job]:
        """Jobs that were submitted or started and have not ended, as far as the ledger tells; newest last."""
        return [job for job in self.jobs.values() if not job.end]

    def last_end(self) -> Job | None:
        """The job that ended last."""
        ended = [job for job in self.jobs.values() if job.end and job.ended_t is not None]
        return max(ended, key=lambda job: job.ended_t or 0, default=None)


_END_OF_TIME = 253402300800  # the year 10000, which no clock can show
_KEYS = {"t": float, "run": str, "job": str, "restart": int, "attempt": int, "seq": int, "event": str}


def parse(line: str) -> Event | None:
    """The event of one line; None for a torn line, or one that is no event or of no time that there is."""
    try:
        raw = json.loads(line)
        own = {key: kind(raw.pop(key)) for key, kind in _KEYS.items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not 0 <= own["t"] < _END_OF_TIME:
        return None
    fields = {key: value for key, value in raw.items() if _is_value(value)}
    return Event(name=own.pop("event"), fields=fields, **own)


def _is_value(value: object) -> bool:
    """Is this a text or a number? JSON's 1e400 and NaN are none that one can count with."""
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


class Reader:
    """Reads a ledger that grows: each call gives the events that are new, all or only those of these names."""

    def __init__(self, path: Path, *names: str) -> None:
        self.path = path
        # Both writers set no blanks. A ledger of weeks is long, and most of it is progress.
        self._marks = tuple(f'"event":"{name}"'.encode() for name in names)
        self._at = 0
        self._seen: set[tuple[str, int, int]] = set()

    def new(self) -> list[Event]:
        """Events appended since the last call, in file order, each once; a line without its end waits for it.

        Raises: OSError: the ledger can't be read. None is not an error: the run has not started.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._at)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        self._at += sum(map(len, lines))
        if self._marks:
            lines = [line for line in lines if any(mark in line for mark in self._marks)]
        return [event for line in lines if (event := parse(line.decode(errors="replace"))) and self._is_new(event)]

    def _is_new(self, event: Event) -> bool:
        key = (event.job, event.restart, event.seq)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


def read(path: Path, *names: str) -> list[Event]:
    """All events of a ledger, or those of these names, by time; empty where there is no file yet.

    Raises: OSError: it can't be read.
    """
    return sorted(Reader(path, *names).new(), key=lambda event: event.t)


def append(path: Path, event: Event) -> None:
    """Write one event at the end of the ledger, in one write, behind a line end if a torn line stands there.

    Raises: OSError.
    """
    head = {"t": event.t, "run": event.run, "job": event.job, "restart": event.restart, "attempt": event.attempt}
    line = json.dumps({**head, "seq": event.seq, "event": event.name, **event.fields}, separators=(",", ":")) + "\n"
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, ("\n" * torn + line).encode())
    finally:
        os.close(handle)


def by_person(run: str, event: str, now: float, /, **fields: Value) -> Event:
    """An event that a person's verb writes: it belongs to no job, and its number is the time in microseconds."""
    return Event(int(now), run, "", 0, 0, int(now * 1e6), event, fields)


def fold(events: Iterable[Event]) -> Run:
    """The run after these events, which are in order of time."""
    run = Run()
    for event in events:
        run = replace(_after(run, event), last_t=event.t)
    return run


def _after(run: Run, event: Event) -> Run:
    match event.name:
        case "submitted":
            return _submitted(run, event)
        case "started":
            return _started(run, event)
        case "launched":
            return _with_job(run, event, attempts=max(event.attempt, 1), attempt_end="")
        case "first_step" | "progress" | "checkpoint_local":
            return _with_step(run, event)
        case "checkpoint_durable" | "rolled_back" | "quarantined" | "restored":
            return _with_durable(run, event)
        case "ended":
            return _ended(run, event)
        case "left":
            return _left(run, event)
        case "held":
            run = _closed(run, event)
            return replace(run, held=event.text("why") or "no reason given", todo=event.text("todo"))
        case "resumed":
            return replace(run, held="", todo="", finished=False)
        case "finished":
            return replace(_with_step(run, event), finished=True)
    return run


def _submitted(run: Run, event: Event) -> Run:
    run = _closed(run, event)
    job = run.jobs.get(event.text("successor"), Job(event.text("successor")))
    job = replace(job, parent=event.job, name=event.text("name"), submitted_t=event.t)
    return replace(run, jobs={**run.jobs, job.id: job})


def _started(run: Run, event: Event) -> Run:
    again = {"host": event.text("host"), "restart": event.restart, "attempt_end": "", "end": "", "ended_t": None}
    run = _with_durable(run, event)
    return _with_job(run, event, started_t=event.t, from_step=event.number("durable_step"), **again)


def _with_job(run: Run, event: Event, **changes: object) -> Run:
    job = replace(run.jobs.get(event.job, Job(event.job)), **changes)  # type: ignore[arg-type] # mypy wants them named
    return replace(run, jobs={**run.jobs, job.id: job})


def _with_step(run: Run, event: Event) -> Run:
    step = event.number("step")
    if step is None:
        return run
    return replace(_with_job(run, event, step=step), step=step)


def _with_durable(run: Run, event: Event) -> Run:
    step = event.number("durable_step" if event.name in ("started", "quarantined", "restored") else "step")
    return run if step is None else replace(run, durable_step=step)


def _left(run: Run, event: Event) -> Run:
    """The run after a job that had nothing to do; the one that owns it may not have written here yet."""
    run = _with_job(run, event, ended_t=event.t, end="left", evidence=event.text("why"), then="leave")
    owner = re.search(r"owned by job (\S+), which is running", event.text("why"))
    if owner is None or owner[1] in run.jobs:
        return run
    return replace(run, jobs={**run.jobs, owner[1]: Job(owner[1])})


def _ended(run: Run, event: Event) -> Run:
    run = _with_step(run, event)
    end, then = event.text("class") or "unknown", event.text("then")
    run = _with_job(run, event, attempt_end=end, evidence=event.text("evidence"), then=then)
    return run if then == "relaunch" else _with_job(run, event, end=end, ended_t=event.t)


def _closed(run: Run, event: Event) -> Run:
    """The run after its job, which wanted to launch again after a failure, was kept from it: the job ends with that."""
    job = run.jobs.get(event.job)
    if job is None or job.end or not job.attempt_end:
        return run
    then = "hold" if event.name == "held" else "submit"
    return _with_job(run, event, end=job.attempt_end, ended_t=event.t, then=then)
