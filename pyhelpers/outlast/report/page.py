"""A report as text, read at a glance."""

import shlex
import time
from pathlib import Path

from outlast import story
from outlast.crash import names
from outlast.crash.verdict import TO_DO, printable
from outlast.masked import masked
from outlast.report.attempt import Attempt
from outlast.report.report import Report

WIDTH = 24  # of what stands before a second column
_MANY = 8  # nodes that are named


def text(report: Report, run: Path, outlast: str) -> str:
    """The report; `run` is the run's folder, and `outlast` how a person types outlast."""
    rows = [
        (
            "Job name",
            _columns(
                report.attempt.name, f"(attempt {report.attempt.number} of job {report.attempt.place} in the chain)"
            ),
        ),
        ("Ended", _columns(_ended(report.attempt), _evidence(report))),
        ("Runtime", _columns(clock(report.attempt.ended_t - report.attempt.began_t), _steps(report.attempt))),
    ]
    if report.attempt.failed:
        rows += [("Failed nodes", _nodes(report)), ("Error pattern", _pattern(report))]
    lines = [f"=== {_title(report.attempt)}: Job {report.attempt.job} ===", *map(_row, rows)]
    if report.words:
        lines += [_row(("Last stderr", f"({report.whose})"))]
        lines += [f"  {word}" for word in report.words]
    lines += [_row(("Done", _done(report.attempt))), _row(("To do", _todo(report, run, outlast)))]
    return "".join(f"{_clean(line)}\n" for line in lines)


def clock(seconds: float) -> str:
    """`2h 14m 38s`."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m {rest:02}s" if hours else f"{minutes}m {rest:02}s"


def _row(row: tuple[str, str]) -> str:
    return f"{row[0] + ':':<13} {row[1]}"


def _columns(first: str, second: str) -> str:
    return f"{first:<{WIDTH}}{second}".rstrip() if len(first) < WIDTH else f"{first}  {second}".rstrip()


def _clean(line: str) -> str:
    return printable(masked(line)).rstrip()


def _title(attempt: Attempt) -> str:
    """Failures begin with `Crash`: a later reader of the log skips what a report of ours has quoted."""
    if attempt.failed:
        return "Crash Report"
    return "Finished" if attempt.finished else "Held"


def _ended(attempt: Attempt) -> str:
    kind = attempt.kind or "before a launch"
    return kind if attempt.code is None else f"{kind}, exit code {attempt.code}"


def _evidence(report: Report) -> str:
    if report.verdict and report.verdict.evidence:
        return f"evidence: {report.log}:{report.verdict.evidence[0].line}"
    said = story.plain(report.attempt.evidence)
    return f"evidence: {said}" if said else ""


def _steps(attempt: Attempt) -> str:
    made = "no step" if attempt.step is None else f"steps {attempt.from_step or 0}-{attempt.step}"
    safe = f"last durable {attempt.durable_step}" if attempt.durable_step else "nothing durable yet"
    hours = f"{attempt.lost_node_hours:.1f} node hours lost" if attempt.lost_node_hours >= 0.05 else ""
    steps = f"{attempt.lost_steps} steps" if attempt.failed and attempt.lost_steps else ""
    lost = ", ".join(filter(None, [steps, hours]))
    return f"{made}, {safe}" + (f" ({lost})" if lost else "")


def _nodes(report: Report) -> str:
    nodes = report.failed_nodes
    if not nodes and report.verdict and report.verdict.blame_nodes:
        return f"none for sure; it began on {', '.join(report.verdict.blame_nodes[:_MANY])} ({report.verdict.why})"
    if not nodes:
        return "none known"
    shown = ", ".join(nodes[:_MANY]) + (f" and {len(nodes) - _MANY} more" if len(nodes) > _MANY else "")
    why = report.verdict.why if report.verdict and report.verdict.blame_nodes else story.plain(report.attempt.evidence)
    return f"{shown} ({why})" if why else shown


def _pattern(report: Report) -> str:
    verdict = report.verdict
    if verdict is None:
        return f"unknown ({story.plain(report.attempt.evidence) or 'no log'})"
    return f"{verdict.pattern}, {verdict.scope}, {verdict.persistence}"


def _done(attempt: Attempt) -> str:
    done = [_excluded(attempt, node) for node in attempt.excluded[:_MANY]]
    done += [f"{len(attempt.excluded) - _MANY} more excluded"] * (len(attempt.excluded) > _MANY)
    if attempt.finished:
        done.append("the run is finished")
    elif attempt.held:
        done.append(f"held: {attempt.held}")
    elif attempt.successor:
        done.append(f"job {attempt.successor} submitted")
    elif attempt.then == "relaunch" and (spares := attempt.spares_used):
        done.append(f"relaunched on {len(attempt.hosts) - spares} + {spares} spare{'s' * (spares > 1)}")
    elif attempt.then == "relaunch":
        done.append("relaunched in the same job")
    elif attempt.then == "submit":
        done.append("the next job goes on")
    else:
        done.append("no further job")
    return ", ".join(done)


def _excluded(attempt: Attempt, node: str) -> str:
    until = attempt.until.get(names.short(node))
    return f"{node} excluded" + (f" until {until}" if until else "")


def _todo(report: Report, run: Path, outlast: str) -> str:
    attempt = report.attempt
    own = f" --patterns {shlex.quote(str(report.patterns))}" if report.patterns else ""
    resume = f"{outlast} resume {shlex.quote(str(run))}"
    if attempt.held:
        return attempt.todo or resume
    if attempt.then == "stop":
        return f"{resume}, to go on"
    if report.verdict and report.verdict.action == "stop":
        return f"look at it: {TO_DO['stop']}"
    if attempt.failed and report.log:
        return f"nothing. If it comes back: {outlast} crash {shlex.quote(str(run / report.log))}{own} --explain"
    return "nothing"


def when(t: float) -> str:
    """Local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t))
