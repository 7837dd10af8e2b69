"""How a run is doing, in one word: from its ledger, its control files and what the scheduler says."""

from collections.abc import Mapping
from dataclasses import dataclass

from outlast.driver import Driver, NoAnswer, State
from outlast.ledger import Job, Run
from outlast.rundir import RunDir

ASK_AT_MOST = 5  # newest open jobs; an older one without an end was lost, and the chain went on


@dataclass(frozen=True)
class Asked:
    """The control files, and whether the finished marker is there."""

    stop: list[str]
    hold: list[str]
    finished: bool


@dataclass(frozen=True)
class Status:
    """The answer of `outlast status`; docs/status.md has the words of `state`. `job` is empty where none is live."""

    run: str
    state: str
    job: str
    step: int | None
    durable_step: int | None
    target_step: int
    chain: list[str]
    reason: str
    todo: str


def asked(run: RunDir) -> Asked:
    """What people, or the supervisor, have put into the run."""
    return Asked(run.asked("stop"), run.asked("hold"), run.finished.exists())


def ask(driver: Driver, jobs: list[Job]) -> dict[str, State | None]:
    """What the scheduler says about the newest of these jobs; None for one that it gives no answer about."""
    answers: dict[str, State | None] = {}
    for job in jobs[-ASK_AT_MOST:]:
        try:
            answers[job.id] = driver.state(job.id)
        except NoAnswer:
            answers[job.id] = None
    return answers


def live(answers: Mapping[str, State | None]) -> list[str]:
    """The jobs that wait, run or end, in the order asked."""
    return [job for job, state in answers.items() if state and state.is_live]


def word(run: Run, answers: Mapping[str, State | None], asked: Asked) -> tuple[str, str]:
    """The state of the run, and the job that it is about (empty where there is none)."""
    states = {job: state.state for job, state in answers.items() if state and state.is_live}
    for wanted in ("running", "ending", "pending"):
        for job, state in states.items():
            if state == wanted:
                return ("stopping" if asked.stop and state != "pending" else state), job
    if run.finished or asked.finished:
        return "finished", ""
    if None in answers.values():
        return "unknown", next(job for job, state in answers.items() if state is None)
    end = run.last_end()
    if asked.stop or (end and end.end == "stopped"):
        return "stopped", ""
    if asked.hold or run.held:
        return "held", ""
    if run.open_jobs():
        return "lost", run.open_jobs()[-1].id
    return ("ended" if end else "new"), ""


def reason(run: Run, state: str, asked: Asked) -> str:
    """Why the run is in this state, as far as somebody wrote it down."""
    if state == "held":
        return asked.hold[0] if asked.hold and asked.hold[0] else run.held
    if state in ("stopped", "stopping") and asked.stop and asked.stop[0]:
        return asked.stop[0]
    if state in ("pending", "running", "ending"):
        return ""
    if state == "lost":
        return "the scheduler knows the job no more, and it wrote no end"
    if state == "unknown":
        return "the scheduler gives no answer"
    end = run.last_end()
    if end is None:
        return ""
    return f"job {end.id} ended: {end.end}" + (f" ({end.evidence})" if end.evidence else "")


def todo(run: Run, state: str, asked: Asked, typed: str) -> str:
    """What to type next."""
    if state == "held":
        own = asked.hold[1] if len(asked.hold) > 1 and asked.hold[1] else run.todo
        return own or f"outlast resume {typed}"
    if state in ("stopped", "lost", "ended", "new"):
        return f"outlast resume {typed}"
    if state == "unknown":
        return f"outlast status {typed}, in a minute"
    return f"outlast events {typed}" + ("" if state == "finished" else " --follow")


def status(run: RunDir, typed: str, events: Run, answers: Mapping[str, State | None], target_step: int) -> Status:
    """All of it."""
    files = asked(run)
    state, job = word(events, answers, files)
    return Status(
        run=run.name,
        state=state,
        job=job,
        step=events.step,
        durable_step=events.durable_step,
        target_step=target_step,
        chain=list(events.jobs),
        reason=reason(events, state, files),
        todo=todo(events, state, files, typed),
    )
