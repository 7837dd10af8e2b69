"""report.html: one file that loads nothing."""

import shlex

from outlast import ledger, markup, runstate, summary
from outlast.ledger import Event
from outlast.masked import masked
from outlast.report.attempt import Attempt
from outlast.report.page import when
from outlast.rundir import RunDir


def page(run: RunDir, events: list[Event], reports: list[tuple[Attempt, str]], outlast: str) -> str:
    """The run's state, its jobs, and the texts of its reports; `outlast` is how a person types outlast."""
    folded = ledger.fold(events)
    files = runstate.asked(run)
    state, _ = runstate.word(folded, {}, files)
    typed = shlex.quote(str(run.path))
    return markup.html(
        "report.html.j2",
        run=run.name,
        state="going on" if state == "lost" else state,
        reason=masked(runstate.reason(folded, state, files)) if state == "held" else "",
        todo=masked(runstate.todo(folded, state, files, typed, outlast=outlast)) if state == "held" else "",
        whole=summary.whole(events),
        heads=summary.HEADS,
        rows=summary.rows(events),
        at=when(folded.last_t or 0),
        reports=[(_head(attempt), when(attempt.ended_t), text) for attempt, text in reports],
    )


def _head(attempt: Attempt) -> str:
    return f"Job {attempt.job}, attempt {attempt.number}: {attempt.kind or 'held'}"
