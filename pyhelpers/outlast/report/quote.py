"""Lines of a log around the one that decides, without reading the log into memory."""

import re
from pathlib import Path

from outlast.crash import text
from outlast.masked import masked

BLOCK = 1 << 22
WINDOW = 1 << 16
BEFORE, AFTER = 8, 8
FEW = 4  # lines of one rank that tell nothing
WIDTH = 200  # characters of a line that are shown
ONE, ALL, END = "of the first failing rank", "of all ranks, where it began", "the end of the log"
_SHIM = re.compile(r"outlast: rank (\d+) on ")


def around(path: Path, number: int) -> tuple[str, list[str]]:
    """The line of that number (from 1) with what its rank, or, if that says little, what all wrote around it.

    Whose lines they are, and the lines. Raises: OSError: the log can't be read.
    """
    with path.open("rb") as file:
        offset = _offset(file, number)
        file.seek(max(offset - WINDOW, 0))
        before = file.read(min(offset, WINDOW))
        after = file.read(WINDOW)
    behind = _parts(after)
    ahead = _parts(before.partition(b"\n")[2] if offset > WINDOW else before)
    if not behind:
        return ALL, _shown(ahead[-BEFORE:])
    who = _who(behind[0])
    own = [part for part in ahead if _who(part) == who][-BEFORE:]
    own += [part for part in behind if _who(part) == who][: AFTER + 1]
    if who is not None and len(_once(own)) >= FEW:
        return ONE, _shown(own)
    return ALL, _shown(ahead[-BEFORE:] + behind[: AFTER + 1])


def end(path: Path) -> tuple[str, list[str]]:
    """The last lines, and whose they are.

    Raises: OSError: the log can't be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - WINDOW, 0))
        last = file.read()
    return END, _shown(_parts(last)[-BEFORE - AFTER :])


def _offset(file: object, number: int) -> int:
    """Where the line of that number begins."""
    offset, left = 0, number - 1
    while left and (block := file.read(BLOCK)):  # type: ignore[attr-defined] # a binary file
        count = block.count(b"\n")
        if count < left:
            left -= count
            offset += len(block)
            continue
        at = -1
        for _ in range(left):
            at = block.index(b"\n", at + 1)
        return offset + at + 1
    return offset


def _parts(raw: bytes) -> list[str]:
    """What stood on the screen; of what a carriage return overwrote only the last."""
    lines = (text.segments(line)[-1:] for line in raw.split(b"\n"))
    return [part for line in lines for part in line if text.read(part).text.strip()]


def _who(part: str) -> int | None:
    """The rank that a line is of: our launches label lines with task numbers, which are ranks."""
    line = text.read(part)
    ours = _SHIM.search(part)
    return int(ours[1]) if ours else line.rank if line.rank is not None else line.task


def _shown(parts: list[str]) -> list[str]:
    return _once([masked(part).rstrip()[:WIDTH] for part in parts])


def _once(parts: list[str]) -> list[str]:
    """Without what repeats the line before it."""
    return [part for number, part in enumerate(parts) if part != parts[number - 1] or not number]
