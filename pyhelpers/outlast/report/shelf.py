"""reports/ of a run: a text and a JSON of each attempt that is told of, and report.html of all."""

import json
import re
from contextlib import suppress
from pathlib import Path

from outlast import rundir, tree
from outlast.ledger import Event
from outlast.report import html, page
from outlast.report.attempt import Attempt, ended
from outlast.report.report import Report
from outlast.rundir import RunDir, RunDirError

SHOWN = 200  # reports that report.html holds
_JOB = re.compile(r"[A-Za-z0-9_][\w.\[\]-]*")


def told(events: list[Event]) -> list[Attempt]:
    """The attempts of which there is a report. A job's id becomes a file's name, so it must look like one."""
    return [attempt for attempt in ended(events) if attempt.is_told and _JOB.fullmatch(attempt.job)]


def path(run: RunDir, attempt: Attempt, kind: str) -> Path:
    """Where the report is: `kind` is txt or json."""
    return run.path / "reports" / f"{attempt.id}.{kind}"


def put(run: RunDir, report: Report) -> None:
    """Write one report.

    Raises: OSError.
    """
    rundir.write(path(run, report.attempt, "json"), json.dumps(report.fields(), indent=1) + "\n", 0o640)
    rundir.write(path(run, report.attempt, "txt"), page.text(report, run.path, _outlast(run)), 0o640)


def put_page(run: RunDir, events: list[Event]) -> None:
    """Write report.html: the run's state, its jobs, and the reports that lie in reports/.

    Raises: OSError.
    """
    rundir.write(run.path / "report.html", html.page(run, events, _texts(run, events), _outlast(run)), 0o640)


def _outlast(run: RunDir) -> str:
    """How its readers type outlast: a job runs a copy of its own, the script knows where that came from."""
    with suppress(RunDirError):
        return tree.command(run.setting("ROOT"))
    return "outlast"


def _texts(run: RunDir, events: list[Event]) -> list[tuple[Attempt, str]]:
    """The reports there are, newest first."""
    found = []
    for attempt in reversed(told(events)[-SHOWN:]):
        with suppress(OSError):
            found.append((attempt, path(run, attempt, "txt").read_text(encoding="utf-8", errors="replace")))
    return found
