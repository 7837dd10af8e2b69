"""What the scheduler and the run itself say of the end: rule 1, and that the work is done."""

from outlast.crash import verdict
from outlast.crash.case import Case
from outlast.crash.scan import Event
from outlast.crash.verdict import Verdict

GAP_S = 60.0  # a failure so long before the scheduler's end was not caused by it
CANCEL_GAP_S = 5.0
ENDS = ("requeue", "preemption", "walltime", "cancelled_by_user")


def done(case: Case) -> Event | None:
    """The line that says the work is done, unless training went on after it."""
    told = [event for event in case.seen.events if event.name == "clean_exit"]
    return told[-1] if told and not case.is_over(told[-1]) else None


def scheduler_end(case: Case) -> Event | None:
    """The scheduler's own word on the end."""
    told = [event for event in case.seen.events if event.name in ENDS and event.tier == 0]
    for name in ENDS[:3]:
        if these := [event for event in told if event.name == name and not case.is_over(event)]:
            return these[0]
    for event in told:
        if event.key == "STEP" and _is_teardown(case, event):
            continue
        if not case.is_over(event):
            return event
    return None


def _is_teardown(case: Case, end: Event) -> bool:
    """Is a cancelled step only the launcher's answer to a task that failed?"""
    if any(event.key == "JOB" and event.name == "cancelled_by_user" for event in case.seen.events):
        return False
    failed = [ended for ended in case.ends if ended.how != "term"]
    before = [ended for ended in failed if ended.file == end.file and ended.line < end.line]
    return bool(before) or any(
        1 <= event.tier <= 2 and event.file == end.file and event.line < end.line and not case.is_over(event)
        for event in case.seen.events
    )


def is_before(event: Event, end: Event) -> bool:
    """Did it happen so long before the scheduler's end that it is no answer to it?"""
    cancelled = end.name == "cancelled_by_user"
    if event.time is not None and end.time is not None:
        return end.time - event.time >= (CANCEL_GAP_S if cancelled else GAP_S) and event.tier <= (1 if cancelled else 3)
    return event.file == end.file and event.line < end.line and event.tier <= (1 if cancelled else 2)


def is_after_the_work(event: Event, done: Event) -> bool:
    """Does it spoil what was done? What processes say while they end does not; a last checkpoint that is lost does."""
    later = event.line > done.line if event.file == done.file else (event.time or 0) > (done.time or 1e12)
    return later and event.tier == 1 and event.pattern.outcome["scope"] == "storage"


def ended(case: Case, end: Event) -> Verdict:
    outcome = end.pattern.outcome
    found = Verdict(end.name, outcome["scope"], outcome["persistence"], outcome["action"], confidence=0.95)
    found.why = f"{end.pattern.says}; whatever was said afterwards is an answer to it"
    found.evidence = [case.evidence(end)]
    found.fingerprint = verdict.fingerprint(end.name)
    return found


def finished(case: Case, done: Event) -> Verdict:
    outcome = done.pattern.outcome
    found = Verdict(done.name, outcome["scope"], outcome["persistence"], outcome["action"], confidence=0.9)
    found.why = "The run says that it is done, and nothing was lost after that"
    found.evidence = [case.evidence(done)]
    found.fingerprint = verdict.fingerprint(done.name)
    return found
