"""Steps of the trainer, where a log says them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from outlast.crash import cut, source, text

LOOK_BACK = 64 << 20  # bytes in which the last steps are sought
MOST_SAME = 20_000  # lines that tell one and the same step: a line of every rank

_STEP = re.compile(
    r"(?:\b(?:global[_ ])?(?:step|iter(?:ation)?)s?['\"]?\s*[:=/ ]\s*['\"]?\s*(\d+)"
    r"|\b(\d+)/ *\d+ \[[^\]]*(?:it/s|s/it))",
    re.IGNORECASE,
)
_WORK = re.compile(
    r"\b(?:lm )?loss['\"]?\s*[:= ]|\btps\b|tok(?:en)?s?/s|samples/s|grad_?norm|elapsed time per|(?:it/s|s/it)\b",
    re.IGNORECASE,
)
_LOSS = re.compile(r"\bloss['\"]?\s*[:=]?\s*([\w.+-]+)", re.IGNORECASE)
_DICT = re.compile(r"\{'(?:train_)?loss': ")
_ANY = re.compile(rb"[Ss]tep|STEP|[Ii]ter|loss|it/s|s/it")
_LONG = re.compile(rb"[^\n]{%d,}" % cut.LINE)  # no launcher holds back so much
_RESUMED = re.compile(rb"(?i)resum\w+|load\w* (?:the )?checkpoint|loaded checkpoint|from step")


@dataclass(frozen=True)
class Step:
    """A step as the trainer said it; `number` is None where it counts none."""

    number: int | None
    time: float | None
    loss_is_finite: bool


def step(part: str) -> Step | None:
    """The step that a line tells; None for a line that tells none."""
    part = part[:2000]
    if _DICT.search(part):
        return Step(None, text.time_of(part), _finite(part))
    match = _STEP.search(part)
    if not match or not _WORK.search(part):
        return None
    return Step(int(match[1] or match[2]), text.time_of(part), _finite(part))


def _finite(part: str) -> bool:
    match = _LOSS.search(part)
    return not match or match[1].lower() not in ("nan", "inf", "-inf", "+inf", "-nan", "infinity")


def steps(window: bytes) -> list[Step]:
    """The steps in some bytes of a log, in order."""
    found = []
    for raw in _lines(window).split(b"\n"):
        short = raw if len(raw) <= 8192 else raw[-4096:] if b"\r" in raw else raw[:4096]
        if _ANY.search(short):
            found += [told for part in text.segments(short)[-1:] if (told := step(part))]
    return found


def _lines(window: bytes) -> bytes:
    """The window with each update of a long line as a line of its own, where it stands.

    Of a shorter line only what stands there at its end counts: launchers that label lines hold them back until then, so
    that its updates may be older than the lines before it.
    """
    return _LONG.sub(lambda line: line[0].replace(b"\r", b"\n"), window)


def went_on_until(log: source.Log, end: int) -> int:
    """Where the last but one of the steps is told: training went on after whatever is said before. 0 if it is not.

    Behind `end`, a place of the log, no step proves that. A line without a number may tell the same step as a bar, so
    two of one kind are needed.
    """
    found: set[int] = set()
    same = uncounted = 0
    for start, window in _backwards(log, end):
        for place, raw in reversed(_placed(window)):
            told = step(text.segments(raw)[-1]) if _ANY.search(raw) and text.segments(raw) else None
            if told:
                if told.number is None:
                    uncounted += 1
                else:
                    found.add(told.number)
                if len(found) == 2 or uncounted == 2:
                    return start + place
                same += 1
                if same > MOST_SAME:
                    return 0
    return 0


def _backwards(log: source.Log, end: int) -> Iterator[tuple[int, bytes]]:
    """The log in pieces from there back, each with its place; of a compressed one all that was kept."""
    if log.packed:
        yield log.offset - len(log.tail), _lines(log.tail)
        yield from ((offset - len(kept), _lines(kept)) for offset, kept in reversed(log.samples))
        return
    stop = max(end - LOOK_BACK, 0)
    while end > stop:
        window = _lines(log.before(end))
        start = end - len(window)
        torn = window.find(b"\n") + 1 if start else 0  # its first line may be
        yield start + torn, window[torn:]
        end = start + torn if 0 < torn < len(window) else start


def _placed(window: bytes) -> list[tuple[int, bytes]]:
    placed, place = [], 0
    for raw in window.split(b"\n"):
        placed.append((place, raw[-4096:]))
        place += len(raw) + 1
    return placed


def resumed(window: bytes) -> bool:
    """Does the start of a log say that it goes on from a checkpoint?"""
    return bool(_RESUMED.search(window))
