"""Lines too long to be held: of them the start, the end and the places around the words stay."""

import bisect
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

LINE = 1 << 16  # bytes of a line that are read at once
AROUND = 700
PLACES = 24  # of a longer line
EACH = 2  # places of one word: a progress bar may have it in each of a million updates
SHORT = 4000
Spots = tuple[tuple[int, int], ...]


class Found(NamedTuple):
    """A line that has one of the words; `offset` is where it begins, in bytes of the (uncompressed) log.

    Of a longer one `raw` holds pieces, apart by carriage returns, and `spots` where each stands in `raw` and the line.
    """

    line: int
    offset: int
    raw: bytes
    spots: Spots = ()

    def place(self, index: int) -> int:
        """Where in the log a byte of `raw` stands."""
        if not self.spots:
            return self.offset + index
        piece, start = self.spots[max(bisect.bisect(self.spots, (index, 1 << 62)) - 1, 0)]
        return self.offset + start + index - piece


def needle_of(words: Iterable[str]) -> re.Pattern[bytes]:
    """Finds any of the words."""
    return _needle(tuple(words))


@lru_cache(4)
def _needle(words: tuple[str, ...]) -> re.Pattern[bytes]:
    return re.compile(_tree([word.encode() for word in words]))


def _tree(words: list[bytes]) -> bytes:
    """The words as a tree of their bytes: tried one after the other, hundreds of them take a second for a megabyte."""
    if b"" in words:
        return b""
    ends: dict[bytes, list[bytes]] = {}
    for word in words:
        ends.setdefault(word[:1], []).append(word[1:])
    ways = [re.escape(first) + _tree(rest) for first, rest in sorted(ends.items())]
    return ways[0] if len(ways) == 1 else b"(?:" + b"|".join(ways) + b")"


def shorten(found: Found, needle: re.Pattern[bytes]) -> Found:
    """The line with at most some thousand bytes: of a longer one what lies around the words."""
    if found.spots or len(found.raw) <= SHORT:
        return found
    raw, spots = down(found.raw, lambda: b"", needle)
    return found._replace(raw=raw, spots=spots)


def is_whole(piece: bytes) -> bool:
    """Is this, as readline(LINE) gave it, the end of a line?"""
    return piece.endswith(b"\n") or len(piece) < LINE


def down(piece: bytes, more: Callable[[], bytes], needle: re.Pattern[bytes]) -> tuple[bytes, Spots]:
    """What stays of a line that goes on, and where it stood."""
    kept = [(0, piece[: 2 * AROUND])]
    told = Counter[bytes]()
    window, base, until = piece, 0, AROUND
    while True:
        ended = is_whole(piece)
        sure = len(window) if ended else len(window) - AROUND  # what stands behind is searched with the next piece
        for match in needle.finditer(window) if len(kept) <= PLACES else ():
            if match.end() > sure or len(kept) > PLACES:
                break
            if base + match.start() < until or told[match[0]] >= EACH:
                continue
            told[match[0]] += 1
            start, end = _around(window, match)
            kept.append((base + start, window[start:end]))
            until = base + end
        if ended:
            break
        base += max(len(window) - 4 * AROUND, 0)
        window = window[-4 * AROUND :]
        piece = more()
        window += piece
    end = max(len(window) - 2 * AROUND, 0)
    kept.append((base + end, window[end:]))
    return _joined(kept)


def _around(window: bytes, match: re.Match[bytes]) -> tuple[int, int]:
    """From where to where a place goes: to the next carriage returns, if they are near."""
    first, last = max(match.start() - AROUND, 0), min(match.end() + AROUND, len(window))
    start, end = window.rfind(b"\r", first, match.start()), window.find(b"\r", match.end(), last)
    return (first if start < 0 else start + 1), (last if end < 0 else end)


def _joined(kept: list[tuple[int, bytes]]) -> tuple[bytes, Spots]:
    spots, parts, index = [], [], 0
    for place, part in kept:
        spots.append((index, place))
        parts.append(part.rstrip(b"\n"))
        index += len(parts[-1]) + 1
    return b"\r".join(parts), tuple(spots)
