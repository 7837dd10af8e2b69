"""Small files of metadata on the nodes, read through their agents piece by piece as a judgement asks for them.

A judgement never waits: what is not here yet is an error to it (OSError) and a question to the agent, and it is made
again when the answer is there. Until then nothing that it says counts (`Reading.is_waiting`). What failed to be read
may be there the next time (`Reading.has_failed`).
"""

import base64
import errno
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from outlast.sidecar.crew import Crew
from outlast.sidecar.wire import Message

BLOCK = 1 << 16
FIRST = 1 << 18  # bytes that are asked for at once; then as many as there are already
MOST = 1 << 25
LARGEST = 1 << 29  # of a file whose metadata is larger nothing is known

Key = tuple[str, str, str, int, int]  # host, checkpoint (empty: beside them), path inside, bytes, time of change in ns


@dataclass
class Page:
    """What is here of one file."""

    size: int
    blocks: dict[int, bytes] = field(default_factory=dict)
    error: int = 0
    is_asked: bool = False


class Pages:
    """What is here of all files."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._pages: dict[Key, Page] = {}

    def forget(self, name: str = "") -> None:
        """What was read for this checkpoint; without a name, all."""
        self._pages = {key: page for key, page in self._pages.items() if name and key[1] != name}

    def page(self, key: Key) -> Page:
        """What is here of this file, as it was listed."""
        return self._pages.setdefault(key, Page(key[3]))

    def ask(self, key: Key, start: int, end: int) -> None:
        """Have it read from there to there, and some more."""
        host, name, path, _, _ = key
        page = self._pages[key]
        if len(page.blocks) * BLOCK > LARGEST:
            page.error = errno.EFBIG
            return
        more = min(max(FIRST, len(page.blocks) * BLOCK), MOST)
        start = start // BLOCK * BLOCK
        end = min(page.size, -(-max(end, start + more) // BLOCK) * BLOCK)
        at = start

        def rows(host: str, message: Message) -> None:
            nonlocal at
            data = base64.b64decode(message["data"])
            page.blocks.update({(at + i) // BLOCK: data[i : i + BLOCK] for i in range(0, len(data), BLOCK)})
            at += len(data)

        def over(host: str, message: Message) -> None:
            page.is_asked = False
            if message.get("error") == "gone":
                self._pages.pop(key, None)
            elif "error" in message or at < end:
                page.error = getattr(errno, str(message.get("error")), errno.EIO)

        page.is_asked = True
        self._crew.ask(host, {"m": "read", "name": name, "path": path, "at": start, "count": end - start}, over, rows)


class Reading:
    """One judgement's look into files (outlast.checkpoint.format.Look); `source` knows who has a file.

    `source` raises OSError: nobody who is there has it.
    """

    def __init__(self, pages: Pages, source: Callable[[str], Key]) -> None:
        self._pages = pages
        self._source = source
        self.is_waiting = False
        self.has_failed = False

    def look(self, path: str, /) -> BinaryIO:
        """See outlast.checkpoint.format.Look."""
        return cast(BinaryIO, io.BufferedReader(_File(self, self._pages, self._source(path)), BLOCK))


class _File(io.RawIOBase):
    def __init__(self, reading: Reading, pages: Pages, key: Key) -> None:
        self._reading, self._pages, self._key = reading, pages, key
        self._page = pages.page(key)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._page.size}[whence]
        if at < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = at
        return at

    def readinto(self, buffer: "memoryview", /) -> int:  # type: ignore[override]  # typeshed: any buffer
        page, view = self._page, memoryview(buffer).cast("B")
        if page.error:
            self._reading.has_failed |= page.error != errno.EFBIG  # that would be asked for in vain
            raise OSError(page.error, os.strerror(page.error))
        end = min(self._at + len(view), page.size)
        if end <= self._at:
            return 0
        block = page.blocks.get(self._at // BLOCK)
        if block is None:
            if not page.is_asked:
                self._pages.ask(self._key, self._at, end)
            self._reading.is_waiting |= not page.error
            raise OSError(page.error or errno.ENODATA, "too large" if page.error else "asked for")
        start = self._at % BLOCK
        piece = block[start : start + end - self._at]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)
