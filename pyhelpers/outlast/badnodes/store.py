"""The file of bad nodes on disk: found, read, and changed so that two jobs at once lose nothing."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outlast.badnodes import book, lock
from outlast.badnodes.book import Line
from outlast.refused import Refused

NAME = "bad_nodes.txt"
MOST_BYTES = 4 << 20
WAIT_S = 40.0  # longer than a dead job's lock lasts


class StoreError(Refused):
    """The file can't be read or written."""

    status = 1


@dataclass(frozen=True)
class _Seen:
    """The file as it was read; `was` is None where there is none."""

    text: str
    was: os.stat_result | None

    def is_still(self, path: Path) -> bool:
        """Has nobody changed the file since, an editor say?"""
        try:
            now = path.lstat()
        except FileNotFoundError:
            return self.was is None
        return self.was is not None and _identity(now) == _identity(self.was)


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read(path: Path) -> list[Line]:
    """The lines of the file; none where there is no file.

    Raises: StoreError.
    """
    return book.parse(_look(path).text)


def change(path: Path, how: Callable[[list[Line]], list[Line]], wait_s: float = WAIT_S) -> list[Line]:
    """The lines after a change that `how` makes of those before; the file is there whole at any time.

    Raises: StoreError: it can't be read or written; LockError: others are at it for too long.
    """
    try:
        with lock.held(path, wait_s) as mine:
            for _ in range(5):
                seen = _look(path)
                before = book.parse(seen.text)
                after = how(before)
                if after == before or _replaced(path, seen, book.text(after), mine):
                    return after
            raise lock.LockError(f"{path} is being changed all the time; try again later")
    except OSError as err:
        raise StoreError(f"{err.filename or path}: {err.strerror}; its folder must be open to you for writing") from err


def _look(path: Path) -> _Seen:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return _Seen("", None)
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise StoreError(
                f"{path} is a link, and in a shared folder it may lead anywhere; name the file itself"
            ) from err
        raise StoreError(f"{path}: {err.strerror}") from err
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            raise StoreError(f"{path} is no file of bad nodes: no plain file, or larger than {MOST_BYTES} bytes")
        return _Seen(file.read().decode("utf-8", "surrogateescape"), status)


def _replaced(path: Path, seen: _Seen, text: str, mine: lock.Lock) -> bool:
    """Was the new text put in place? False: not, for the file or the lock is another by now."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # of somebody who died over it: the lock is ours
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.flush()
            os.fchmod(file.fileno(), _mode(file.fileno(), path, seen))
            os.fsync(file.fileno())
        if not (mine.is_ours() and seen.is_still(path)):
            return False
        new.replace(path)
        _sync(path.parent)
        return True
    finally:
        if mine.is_ours():
            new.unlink(missing_ok=True)


def _mode(handle: int, path: Path, seen: _Seen) -> int:
    """The old file's mode, and its group where we may give it; a new one is the group's as far as its folder is."""
    if seen.was is None:
        return 0o660 if path.parent.stat().st_mode & stat.S_IWGRP else 0o640
    mode = stat.S_IMODE(seen.was.st_mode) & 0o666
    try:
        os.fchown(handle, -1, seen.was.st_gid)
    except OSError:
        # Another group must not get what that one was given.
        return mode if os.fstat(handle).st_gid == seen.was.st_gid else mode & ~0o020
    return mode


def _sync(folder: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
