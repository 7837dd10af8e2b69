"""Walltimes and dates, as PBS reads and writes them."""

from __future__ import annotations

import math
import re
import time


def walltime_s(text: str) -> int | None:
    """Seconds of `SS`, `MM:SS` or `HH:MM:SS`, rounded to the nearest; nothing: PBS refuses it (facts §7, Walltime).

    Any size of each part is taken: `00:90:00`. Days and units are not.
    """
    if not re.fullmatch(r"(\d+:){0,2}\d+(\.\d+)?", text):
        return None
    seconds = 0.0
    for part in text.split(":"):
        seconds = seconds * 60 + float(part)
    return math.floor(seconds + 0.5)


def walltime(seconds: float) -> str:
    """`HH:MM:SS`."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def date(when: float) -> str:
    """As ctime(3) writes it: `Sun Nov 29 20:12:36 2026`."""
    return time.ctime(when)


def begin(text: str) -> float | None:
    """When `qsub -a [[[[CC]YY]MM]DD]hhmm[.SS]` starts a job; nothing: not such a date."""
    found = re.fullmatch(r"(\d{4}|\d{6}|\d{8}|\d{10}|\d{12})(?:\.(\d\d))?", text)
    if not found:
        return None
    digits, seconds = found[1], found[2] or "00"
    now = time.strftime("%Y%m%d%H%M")
    try:
        return time.mktime(time.strptime(now[: 12 - len(digits)] + digits + seconds, "%Y%m%d%H%M%S"))
    except ValueError:
        return None
