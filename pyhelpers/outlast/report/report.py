"""A report: what the ledger knows of an attempt, and what its log says."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from outlast.crash import analyse, names, patterns
from outlast.crash.verdict import Verdict
from outlast.masked import masked
from outlast.refused import Refused
from outlast.report import quote
from outlast.report.attempt import Attempt
from outlast.rundir import RunDir

T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """`verdict` is empty where no log could be judged; `words` are lines of the log, `whose` says whose."""

    attempt: Attempt
    log: str = ""  # within the run's folder
    verdict: Verdict | None = None
    words: list[str] = field(default_factory=list)
    whose: str = ""
    patterns: Path | None = None  # the run's own ones

    @property
    def failed_nodes(self) -> list[str]:
        """Nodes that were left out, and those that the log blames so clearly that they should be."""
        blamed = self.verdict.blame_nodes if self.verdict and self.verdict.action == "retry-exclude" else []
        return list(dict.fromkeys([*self.attempt.excluded, *blamed]))

    def fields(self) -> dict[str, object]:
        """For programs: reports/ID.json."""
        attempt = {
            key: masked(value) if isinstance(value, str) else value for key, value in asdict(self.attempt).items()
        }
        return {
            **attempt,
            "lost_steps": self.attempt.lost_steps,
            "lost_node_hours": round(self.attempt.lost_node_hours, 2),
            "failed_nodes": self.failed_nodes,
            "log": self.log,
            "verdict": self.verdict.fields() if self.verdict else None,
            "words": self.words,
        }


def plain(attempt: Attempt) -> Report:
    """The report that needs no log."""
    return Report(attempt, f"logs/{attempt.id}.log" if attempt.hosts else "", attempt.verdict)


def judged(run: RunDir, attempt: Attempt, log: Path | None = None) -> Report:
    """The report with what the attempt's log says; `log`: where it lies, if not in the run's folder."""
    report = plain(attempt)
    path = log or run.path / report.log
    if not report.log or not attempt.failed or not _can_be_read(path):
        return report
    verdict = attempt.verdict or _tried(lambda: _verdict(run, attempt, path))
    whose, words = _tried(lambda: _words(path, verdict)) or ("", [])
    return Report(attempt, report.log, verdict, words, whose, run.patterns)


def _can_be_read(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _tried(work: Callable[[], T]) -> T | None:
    """What it gives; a report with a gap is better than none."""
    try:
        return work()
    except (OSError, Refused):
        return None


def _verdict(run: RunDir, attempt: Attempt, log: Path) -> Verdict:
    per_node = int(run.setting("RANKS_PER_NODE", "1") or 1)
    where = names.Layout()
    where.given = [host for name in attempt.hosts for host in names.hosts(name)]
    where.ranks = {rank: where.given[rank // per_node] for rank in range(min(len(where.given) * per_node, names.MOST))}
    return analyse.once([log], where, _book(run), attempt.code, run.setting("SCHEDULER"))


def _book(run: RunDir) -> patterns.Book:
    return _tried(lambda: patterns.load(run.patterns)) or patterns.load()


def _words(log: Path, verdict: Verdict | None) -> tuple[str, list[str]]:
    if verdict and verdict.evidence:
        return quote.around(log, verdict.evidence[0].line)
    return quote.end(log)
