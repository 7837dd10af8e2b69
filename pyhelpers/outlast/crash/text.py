"""One line of a log: cleaned, its labels taken off, its time read."""

import re
from dataclasses import dataclass

LONGEST = 4000  # characters of a line that are kept

# Colours, titles and other control sequences; tabs, line ends and carriage returns stay.
_CONTROL = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]{0,200}(?:\x07|\x1b\\\\)|[@-Z\\\\-_])"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_HOST = r"[A-Za-z][A-Za-z0-9_-]*\d[A-Za-z0-9_.-]*"
_ANY_HOST = r"[A-Za-z][A-Za-z0-9_.-]*"
_STAMP = (
    r"(?:\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d(?:\.\d+)?|\d\d:\d\d:\d\d)"
)
# Who prints: labels of launchers, libraries and the kernel, outermost first; several can stand before one line.
# A host that only stands before a colon may be any word, so it counts only if it is known from elsewhere (`weak`).
_LABELS = tuple(
    re.compile(form)
    for form in (
        r"\[\d+,(?P<rank>\d+)\]<std\w+>: ?",
        rf"(?P<host>{_HOST}) (?P<rank>\d+): ",
        r"\[(?:[Rr]ank ?|RANK ?)(?P<rank>\d+)\]:? ?",
        r"[Rr]ank (?P<rank>\d+): ",
        rf"\[(?P<host>{_HOST}):\d+(?::\d+)*\]:? *",
        r"\[(?:default|trainer|worker)\d+\]:? ?",
        rf" *\|? ?\[?{_STAMP}\]?:? ?\|? ?(?=\s*\S)",
        r"(?P<task> *\d{1,6}):(?: |$)",
        rf"(?P<host>{_ANY_HOST}):\d+:\d+ \[\d+\] ",
        rf"(?P<host>{_ANY_HOST}) kernel: ?",
        rf"(?P<host>{_HOST}): (?=\[ *\d+\.\d+\])",
        rf"\[(?:preflight )?(?P<weak>{_HOST})\] ",
        rf"MPICH ERROR \[Rank (?P<rank>\d+)\] \[job id [^\]]*\] \[[^\]]*\] \[(?P<host>{_HOST})\] ",
        rf"libfabric:\d+:\d+::\S+ (?P<host>{_HOST}): ",
        r"libfabric:\d+:\d+::",
        rf"slurmstepd-(?P<host>{_ANY_HOST}): ",
        rf"(?P<weak>{_HOST}|\d+\.\d+\.\d+\.\d+): ",
    )
)
_KEPT = re.compile(r"libfabric:|MPICH ERROR|slurmstepd")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
_DATE = re.compile(r"\d{4}[-:](\d\d)[-:](\d\d)[ T_-](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_GLOG = re.compile(r"\b[EWIF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})")
_SYSLOG = re.compile(rf"\b({'|'.join(_MONTHS)}) +(\d+) (\d\d):(\d\d):(\d\d)(?:\.(\d{{1,9}}))?")


@dataclass(slots=True)
class Line:
    """A line without its labels, and what they said. `time` is in seconds of a year, None where there is none."""

    text: str
    whole: str
    rank: int | None = None
    task: int | None = None
    host: str = ""
    weak: str = ""
    time: float | None = None


def clean(raw: bytes) -> str:
    """The text without colours and control characters; bytes that are no UTF-8 become U+FFFD."""
    return _CONTROL.sub("", raw.decode("utf-8", "replace"))


def segments(raw: bytes) -> list[str]:
    """The texts of a physical line: what a carriage return overwrites counts on its own."""
    return [part for _, part in placed(raw)]


def placed(raw: bytes) -> list[tuple[int, str]]:
    """The segments, each with the byte that it begins at."""
    found, place = [], 0
    for piece in raw.rstrip(b"\n").split(b"\r"):
        if (part := clean(piece)).strip():
            found.append((place, part))
        place += len(piece) + 1
    return found


def read(part: str, before: Line | None = None) -> Line:
    """One text as a line; labels that it lacks are those of the text before it on the same physical line."""
    line = Line(text=part, whole=part.strip()[:LONGEST], time=time_of(part))
    rest = part
    for _ in range(6):
        match = next((found for label in _LABELS if (found := label.match(rest))), None)
        if not match:
            break
        _take(line, match)
        if _KEPT.match(match[0]):
            rest = rest[match.end() :]
            break
        rest = rest[match.end() :]
    line.text = rest[:LONGEST]
    if before and line.rank is None and line.task is None and not line.host and not line.weak:
        line.rank, line.task, line.host, line.weak = before.rank, before.task, before.host, before.weak
    return line


def _take(line: Line, match: re.Match[str]) -> None:
    found = match.groupdict()
    if found.get("rank") is not None and line.rank is None:
        line.rank = int(found["rank"])
    if found.get("task") is not None and line.task is None:
        line.task = int(found["task"])
    line.host = line.host or found.get("host") or ""
    line.weak = line.weak or found.get("weak") or ""


def time_of(part: str) -> float | None:
    """When the line was written, in seconds of a year: not all formats have the year."""
    head = part[:200]
    if match := _DATE.search(head):
        month, day, *clock = match.groups()
        return _seconds(int(month), day, *clock)
    if match := _GLOG.search(head):
        month, day, *clock = match.groups()
        return _seconds(int(month), day, *clock)
    if match := _SYSLOG.search(head):
        name, day, *clock = match.groups()
        return _seconds(_MONTHS.index(name) + 1, day, *clock)
    return None


def _seconds(month: int, day: str, hour: str, minute: str, second: str, part: str | None) -> float | None:
    if not 1 <= month <= 12:
        return None
    days = _DAYS[month - 1] + int(day)
    return ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second) + float(f"0.{part or 0}")
