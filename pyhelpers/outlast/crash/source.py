"""Logs as streams of bytes: the lines that have one of the words, found by grep where there is one.

Nothing is ever held whole: a line is at most LINE bytes here, of a longer one its start, its end and the places around
the words stay. Compressed logs go through gzip or zstd.
"""

import bisect
import itertools
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from outlast.crash import cut
from outlast.crash.cut import LINE, Found, Spots
from outlast.refused import Refused

CHUNK = 1 << 20
GREP_MEMORY = 96 << 20  # address space: a line that grep cannot hold goes the slow way
SMALL = 1 << 17  # below this, starting grep costs more than it saves
WINDOW = 1 << 18
MARK = 512  # bytes by which a log is known again
PIECE = 4 << 20  # of a line, for a grep that is fed
BATCH = 400  # files for one grep
MAGIC = {b"\x1f\x8b": ("gzip", "-dcq"), b"\x28\xb5": ("zstd", "-dcq")}


class SourceError(Refused):
    """A log can't be read."""


class ToolError(SourceError):
    """What a log is read with is not here."""

    status = 1


@dataclass
class Log:
    """One file, read up to `offset`; `lines` counts its line feeds up to there."""

    path: Path
    offset: int = 0
    lines: int = 0
    packed: tuple[str, str] | None = None
    tail: bytes = b""
    head: bytes = b""
    samples: list[tuple[int, bytes]] = field(default_factory=list)
    mark: tuple[int, bytes] = (0, b"")  # of a log that grows: which file it is, and how it begins

    def window(self, start: int, size: int = WINDOW) -> bytes:
        """Bytes from `start` on; of a compressed log only what was kept of its start and end."""
        if self.packed:
            whole = b"\n".join(kept for offset, kept in self.samples if start <= offset < start + size)
            return whole or (self.head if start < len(self.head) else b"")
        with self.path.open("rb") as file:
            file.seek(max(start, 0))
            return file.read(size)

    def before(self, offset: int, size: int = WINDOW) -> bytes:
        """The bytes before `offset`."""
        start = max(offset - size, 0)
        if not self.packed:
            return self.window(start, offset - start)
        kept = [text for place, text in self.samples if place < offset][-4:]
        return (self.head[:offset] if offset <= len(self.head) else b"") + b"\n".join(kept)

    def last(self, size: int = WINDOW) -> bytes:
        """The end of what has been read."""
        return self.tail if self.packed else self.window(max(self.offset - size, 0), min(size, self.offset))


def opened(path: Path) -> Log:
    """A log, not yet read.

    Raises: SourceError: it can't be opened, or is no file.
    """
    try:
        if path.is_dir():
            raise SourceError(f"{path} is a folder; name its logs")
        with path.open("rb") as file:
            start = file.read(2)
    except OSError as err:
        raise SourceError(f"{path}: {err.strerror}") from err
    return Log(path, packed=MAGIC.get(start))


def lines(log: Log, words: list[str], whole_lines: bool = False) -> Iterator[Found]:
    """Lines beyond what was read that have one of the words; afterwards the log counts as read.

    `whole_lines`: leave a last line without its line feed for the next time (the log grows).
    """
    if log.packed:
        yield from _packed(log, words)
        return
    size = log.path.stat().st_size
    end = _last_line_end(log, size) if whole_lines else size
    if whole_lines and end == log.offset:
        return
    found = _grep(log, words) if size > SMALL and not log.offset and has_grep() else None
    if found is None:
        yield from _slowly(log, words, end if whole_lines else None)
        return
    for one in found:
        if one.offset < end:
            yield one
    if whole_lines:
        log.offset, log.lines = end, _line_feeds(log.path, end)


def begins_anew(log: Log) -> bool:
    """Is a growing log another one than at the last call: cut, written anew, or new in its place? It is unread then.

    Raises: SourceError: it is gone.
    """
    if log.packed:
        return False
    try:
        with log.path.open("rb") as file:
            stat, head = os.fstat(file.fileno()), file.read(MARK)
    except OSError as err:
        raise SourceError(f"{log.path}: {err.strerror}") from err
    inode, before = log.mark
    log.mark = stat.st_ino, head
    if stat.st_size >= log.offset and (not before or (inode == stat.st_ino and head.startswith(before))):
        return False
    log.offset = log.lines = 0
    return True


def _last_line_end(log: Log, size: int) -> int:
    """Where the last whole line of the first `size` bytes ends, at least what was read."""
    while size > log.offset:
        window = log.before(size)
        if b"\n" in window:
            return max(size - len(window) + window.rindex(b"\n") + 1, log.offset)
        size -= len(window)
    return log.offset


def _line_feeds(path: Path, end: int) -> int:
    count = 0
    with path.open("rb") as file:
        while end > 0 and (chunk := file.read(min(CHUNK, end))):
            count += chunk.count(b"\n")
            end -= len(chunk)
    return count


def _grep(log: Log, words: list[str]) -> Iterator[Found] | None:
    """The lines by grep; None if it cannot read this log, which has then not been touched."""
    child = _start_grep(words, log.path.open("rb"))
    first = child.stdout.readline(LINE) if child.stdout else b""
    if not first and child.wait() > 1:
        return None
    return _read_grep(log, words, child, first)


def together(logs: list[Log], words: list[str]) -> Iterator[tuple[int, Found]]:
    """The lines of many small logs, with the number of the log: a grep for hundreds of them, not one for each."""
    small = [number for number, log in enumerate(logs) if not log.packed and not log.offset]
    for start in range(0, len(small), BATCH):
        yield from _batch(logs, small[start : start + BATCH], words)
    for number, log in enumerate(logs):
        if not log.offset:
            for found in lines(log, words):
                yield number, found


def _batch(logs: list[Log], numbers: list[int], words: list[str]) -> Iterator[tuple[int, Found]]:
    places = {os.fsencode(logs[number].path): number for number in numbers}
    sizes = {number: logs[number].path.stat().st_size for number in numbers}
    child = _start_grep(words, subprocess.DEVNULL, list(places))
    assert child.stdout
    kept: list[tuple[int, Found]] = []
    for path, found in _printed(child.stdout, child.stdout.readline(LINE), words, named=True):
        kept.append((places[path], found))
        if len(kept) > BATCH:
            yield from kept
            kept = []
    if child.wait() > 1 and not kept:
        return
    for number, size in sizes.items():
        logs[number].offset = size
    yield from kept


def _start_grep(words: list[str], stdin: IO[bytes] | int, files: Sequence[bytes] = ()) -> subprocess.Popen[bytes]:
    env = {**os.environ, "LC_ALL": "C"}
    how = "-anbE" + "HZ" * bool(files)
    script = f'ulimit -v {GREP_MEMORY >> 10}; exec grep {how} -e "$@"'
    named = [b"--", *files] if files else []
    command: list[str | bytes] = ["bash", "-c", script, "grep", "|".join(map(posix, words)), *named]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)


def posix(word: str) -> str:
    """A word as an extended regular expression that means only itself."""
    return re.sub(r"([\\.\[\](){}*+?^$|])", r"\\\1", word)


def _read_grep(log: Log, words: list[str], child: subprocess.Popen[bytes], first: bytes) -> Iterator[Found]:
    start, last = log.offset, Found(log.lines, log.offset, b"")
    assert child.stdout
    for _, last in _printed(child.stdout, first, words):
        if last.offset >= start:
            yield last
    if child.wait() > 1:  # it met a line too long for it
        log.offset, log.lines = last.offset, max(last.line - 1, 0)
        with log.path.open("rb") as file:
            file.seek(log.offset)
            told = _fed(log, words, file)
            yield from itertools.islice(told, 1 if last.line else 0, None)
        return
    log.offset = log.path.stat().st_size


def _printed(stream: IO[bytes], first: bytes, words: list[str], named: bool = False) -> Iterator[tuple[bytes, Found]]:
    """The lines that a grep prints, long ones cut down; with `named` each comes with the file that it stands in."""
    piece, needle = first, cut.needle_of(words)
    while piece:
        raw, spots = (piece, ()) if cut.is_whole(piece) else cut.down(piece, lambda: stream.readline(LINE), needle)
        path, rest = raw.split(b"\0", 1) if named else (b"", raw)
        number, offset, line = rest.split(b":", 2)
        yield path, Found(int(number), int(offset), line, _moved(spots, len(raw) - len(line)))
        piece = stream.readline(LINE)


def _moved(spots: Spots, by: int) -> Spots:
    """Spots of a line without the bytes that grep writes before it."""
    return tuple((max(index - by, 0), max(place - by, 0)) for index, place in spots)


def _slowly(log: Log, words: list[str], end: int | None) -> Iterator[Found]:
    """The lines by Python alone, up to `end`."""
    needle = cut.needle_of(words)
    with log.path.open("rb") as file:
        file.seek(log.offset)
        while (end is None or log.offset < end) and (raw := file.readline(LINE)):
            begin, ended, spots = log.offset, raw.endswith(b"\n"), Spots()
            if not cut.is_whole(raw):
                raw, spots = cut.down(raw, lambda: file.readline(LINE), needle)
                file.seek(-1, os.SEEK_CUR)
                ended = file.read(1) == b"\n"
            log.offset = file.tell()
            log.lines += ended
            if needle.search(raw):
                yield Found(log.lines + (not ended), begin, raw, spots)


def _packed(log: Log, words: list[str]) -> Iterator[Found]:
    """The lines of a compressed log. On the way a thread keeps its start, its end, and bits for the steps between."""
    assert log.packed
    with log.path.open("rb") as file:
        try:
            unpack = subprocess.Popen(log.packed, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError as err:
            raise ToolError(f"{log.path} needs {log.packed[0]} to be read") from err
    if not has_grep():
        raise ToolError(f"{log.path}: grep is needed to read a compressed log")
    assert unpack.stdout
    yield from _fed(log, words, unpack.stdout)
    unpack.wait()


def _fed(log: Log, words: list[str], stream: IO[bytes]) -> Iterator[Found]:
    """The lines of a stream by a grep that is fed, and never with more than PIECE bytes for a line."""
    line, offset, cuts = log.lines, log.offset, list[int]()
    grep = _start_grep(words, subprocess.PIPE)
    pump = threading.Thread(target=_pump, args=(log, stream, grep, cuts), daemon=True)
    pump.start()
    assert grep.stdout
    for _, found in _printed(grep.stdout, grep.stdout.readline(LINE), words):
        before = bisect.bisect_right(cuts, found.offset)
        yield found._replace(line=line + found.line - before, offset=offset + found.offset - before)
    pump.join()
    grep.wait()


def _pump(log: Log, stream: IO[bytes], grep: subprocess.Popen[bytes], cuts: list[int]) -> None:
    assert grep.stdin
    sent = since = 0
    with grep.stdin as sink:
        while chunk := stream.read(CHUNK):
            log.lines += chunk.count(b"\n")
            log.offset += len(chunk)
            if log.packed:
                _keep(log, chunk)
            since = len(chunk) - chunk.rindex(b"\n") - 1 if b"\n" in chunk else since + len(chunk)
            sent += len(chunk)
            if since > PIECE:
                chunk += b"\n"
                sent, since = sent + 1, 0
                cuts.append(sent)  # before grep gets it, so before anybody asks
            try:
                sink.write(chunk)
            except OSError:
                return


def _keep(log: Log, chunk: bytes) -> None:
    if len(log.head) < WINDOW:
        log.head += chunk[: WINDOW - len(log.head)]
    log.tail = (log.tail + chunk)[-WINDOW:]
    log.samples.append((log.offset, chunk[-2048:]))
    if len(log.samples) > 8192:
        del log.samples[1::2]


_grep_works: bool | None = None


def has_grep() -> bool:
    """Is there a grep with byte offsets?"""
    global _grep_works
    if _grep_works is None:
        try:
            done = subprocess.run(
                ["grep", "-anbE", "-e", "b|c"], input=b"a\nb\n", capture_output=True, timeout=10, check=False
            )
            _grep_works = done.stdout == b"2:2:b\n"
        except (OSError, subprocess.SubprocessError):
            _grep_works = False
    return _grep_works
