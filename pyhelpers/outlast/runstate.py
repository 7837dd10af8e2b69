"""How a run is doing, in one word: from its ledger, its control files and what the scheduler says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from outlast import story
from outlast.driver import Driver, NoAnswer, State
from outlast.ledger import Job, Run
from outlast.masked import masked
from outlast.notice import outbox
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
    """The answer of `outlast status`; docs/status.md has the words of `state`. `job` is empty where none is live.

    `messages` are those that nobody has been sent yet, and `mail_error` is why, if it went wrong.
    """

    run: str
    state: str
    job: str
    step: int | None
    durable_step: int | None
    target_step: int
    chain: list[str]
    reason: str
    todo: str
    messages: int = 0
    mail_error: str = ""


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


def reason(run: Run, state: str, asked: Asked, job: str = "") -> str:
    """Why the run is in this state, as far as somebody wrote it down; of a live job, what it is about to do."""
    if state == "held":
        return asked.hold[0] if asked.hold and asked.hold[0] else run.held
    if state in ("stopped", "stopping") and asked.stop and asked.stop[0]:
        return asked.stop[0]
    if state in ("pending", "running", "stopping", "ending"):
        return "; ".join(filter(None, [_waits(run.jobs.get(job)), _wish(state, asked)]))
    if state == "lost":
        return "the scheduler knows the job no more, and it wrote no end"
    if state == "unknown":
        return "the scheduler gives no answer"
    end = run.last_end()
    if end is None:
        return ""
    return f"job {end.id} ended: {end.end}{_because(end.evidence)}"


def _because(evidence: str) -> str:
    return f" ({story.plain(evidence)})" if evidence else ""


def _waits(job: Job | None) -> str:
    """That the trainer does not run, between the end of an attempt and the next launch; else nothing."""
    if job is None or not job.attempt_end:
        return ""
    return f"the trainer is not running: waits to launch again: {job.attempt_end}{_because(job.evidence)}"


def _wish(state: str, asked: Asked) -> str:
    """What people asked of a live job, and it has not got to yet."""
    if state == "pending" and (asked.stop or asked.hold):
        return f"the job leaves when it starts: {(asked.stop or asked.hold)[0]}"
    return f"no further job after this one: {asked.hold[0]}" if asked.hold else ""


# What keeps the run from going on, and where it stands in the job script.
_GUARDS = {"end_date": "END_DATE", "max_jobs": "MAX_JOBS", "max_node_hours": "MAX_NODE_HOURS"}


def _loosened(why: str, script: str) -> str:
    """What to do before a resume after a hold by the budget, as words that follow the resume; empty: nothing."""
    guard = re.search(r"\(guard\.(\w+)\)$", why)
    if guard is None or guard[1] not in _GUARDS:
        return ""
    name = f"OUTLAST_{_GUARDS[guard[1]]} in {script}"
    if guard[1] == "end_date":
        return f", after you have set {name} to a later day"
    return f", which grants the run as much again; {name} says how much"


def todo(run: Run, state: str, asked: Asked, typed: str, script: str = "its job.sh", outlast: str = "outlast") -> str:
    """What to type next."""
    if state == "held":
        own = asked.hold[1] if len(asked.hold) > 1 and asked.hold[1] else run.todo
        return (own or f"{outlast} resume {typed}") + _loosened(reason(run, state, asked), script)
    if state == "pending" and (asked.stop or asked.hold):
        return f"{outlast} resume {typed}, if it shall train"
    if asked.hold and state in ("running", "ending"):
        return f"{outlast} resume {typed}, if the chain shall go on"
    if state in ("stopped", "lost", "ended", "new"):
        return f"{outlast} resume {typed}"
    if state == "unknown":
        return f"{outlast} status {typed}, in a minute"
    return f"{outlast} events {typed}" + ("" if state == "finished" else " --follow")


def status(run: RunDir, typed: str, events: Run, answers: Mapping[str, State | None], target_step: int) -> Status:
    """All of it."""
    files = asked(run)
    state, job = word(events, answers, files)
    return Status(
        run=run.name,
        state=state,
        job=job,
        step=events.step,
        durable_step=events.durable_step or None,  # 0 in the ledger: a job started without a checkpoint
        target_step=target_step,
        chain=list(events.jobs),
        reason=masked(reason(events, state, files, job)),
        todo=masked(todo(events, state, files, typed, str(run.script))),
        messages=outbox.waiting(run),
        mail_error=outbox.Outbox(run).last_error(),
    )
