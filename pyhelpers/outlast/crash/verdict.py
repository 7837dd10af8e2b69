"""What came out: the answer of `outlast crash`, for programs and for people."""

import hashlib
import re
from dataclasses import asdict, dataclass, field, replace

from outlast.masked import masked


@dataclass
class Evidence:
    """A line that decides; `line` counts from 1."""

    file: str
    line: int
    text: str


@dataclass
class Verdict:
    """What failed, whose fault it is and what to do; `confidence` is between 0 and 1."""

    pattern: str
    scope: str
    persistence: str
    action: str
    blame_nodes: list[str] = field(default_factory=list)
    blame_ranks: list[int] = field(default_factory=list)
    not_blame_nodes: list[str] = field(default_factory=list)
    confidence: float = 0.5
    fingerprint: str = ""
    evidence: list[Evidence] = field(default_factory=list)
    why: str = ""

    def fields(self) -> dict[str, object]:
        """As --json prints it, without secrets."""
        lines = [asdict(replace(line, text=masked(line.text))) for line in self.evidence]
        return {**asdict(self), "evidence": lines, "why": masked(self.why)}


_HEX = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b")
_PATH = re.compile(r"(?:/[\w.+-]+)+/")
_NUMBER = re.compile(r"\d+")
_SPACE = re.compile(r"\s+")


def signature(message: str, hosts: set[str]) -> str:
    """A message without what differs from day to day: hosts, numbers, addresses, folders."""
    for host in sorted(hosts, key=len, reverse=True)[:2000]:
        if host in message:
            message = message.replace(host, "HOST")
    message = _PATH.sub("/", _HEX.sub("#", message))
    return _SPACE.sub(" ", _NUMBER.sub("#", message)).strip()[:300]


def fingerprint(*parts: str) -> str:
    """Twelve hexadecimal digits: the same for the same failure on another host, rank and day."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()[:12]


def told(verdict: Verdict, explain: bool = False) -> str:
    """The verdict in a few lines; `explain` adds those who were left alone and all evidence."""
    who = ", ".join(verdict.blame_nodes[:20]) or "nobody"
    ranks = f" (rank {', '.join(map(str, verdict.blame_ranks[:20]))})" if verdict.blame_ranks else ""
    rows = [
        ("Pattern:", f"{verdict.pattern}, {verdict.scope}, {verdict.persistence}"),
        ("Blame:", who + ranks),
        ("Why:", printable(masked(verdict.why))),
        ("Sure:", f"{verdict.confidence:.0%}      fingerprint {verdict.fingerprint}"),
    ]
    lines = ["=== Crash verdict ===", *(f"{head:<14}{text}" for head, text in rows)]
    for line in verdict.evidence if explain else verdict.evidence[:3]:
        text = printable(masked(line.text))[: 2000 if explain else 160]
        lines.append(f"{'Evidence:':<14}{printable(line.file)}:{line.line}: {text}")
    if explain and verdict.not_blame_nodes:
        lines.append(f"{'Not to blame:':<14}{', '.join(verdict.not_blame_nodes[:200])}")
    lines.append(f"{'To do:':<14}{TO_DO[verdict.action]}")
    return "\n".join(lines)


def words(verdict: Verdict) -> str:
    """The verdict for a reader without JSON (lib/verdict.sh): `KEY VALUE`, a line each, what is empty left out."""
    first = verdict.evidence[0] if verdict.evidence else None
    rows = {
        "pattern": verdict.pattern,
        "scope": verdict.scope,
        "persistence": verdict.persistence,
        "action": verdict.action,
        "confidence": f"{verdict.confidence:.2f}",
        "fingerprint": verdict.fingerprint,
        "blame": " ".join(verdict.blame_nodes[:MOST_BLAMED]),
        "line": str(first.line) if first else "",
        "text": printable(masked(first.text.strip()))[:300] if first else "",
        "why": printable(masked(verdict.why))[:300],
    }
    return "\n".join(f"{key} {value}" for key, value in rows.items() if value)


MOST_BLAMED = 20
TO_DO = {
    "retry-exclude": "start again from the last checkpoint without the nodes to blame",
    "retry": "start again from the last checkpoint",
    "stop": "a person, a setting or an older checkpoint is needed; the same again would fail again",
    "done": "nothing, the work is finished",
    "none": "nothing: it ended on purpose, was put back by the scheduler, or still runs",
}


def printable(text: str) -> str:
    """Text out of a log with everything escaped that a terminal would act on."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
