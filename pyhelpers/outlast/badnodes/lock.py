"""A lock that holds between nodes without flock, which Lustre may be mounted without. lib/badnodes.sh speaks it, too.

FILE.lock is a hard link to a file that its owner has written whole: `HOST BOOT:PID-NAMESPACE PID NUMBER`. It is broken
when its process is gone from this very system, or when it is older than STALE_S, or what all who use it have agreed on;
nobody changes a file of bad nodes under it for longer than WORK_S. (filelock's soft locks have several forms, by its
version, and Bash would have to write each of them.)
"""

import contextlib
import os
import random
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from outlast.refused import Refused

STALE_S = 30.0
WORK_S = 10.0


class LockError(Refused):
    """Somebody else has the lock."""

    status = 75


@dataclass(frozen=True)
class Lock:
    """A lock that we hold."""

    path: Path
    words: str
    since_s: float

    def is_ours(self) -> bool:
        """May we still write? After WORK_S somebody may soon take it for a dead one's."""
        return time.monotonic() - self.since_s < WORK_S and _words(self.path) == self.words


@contextlib.contextmanager
def held(file: Path, wait_s: float, stale_s: float = STALE_S) -> Iterator[Lock]:
    """The lock of a file, for as long as the block runs.

    Raises: LockError: others have it for more than wait_s seconds; OSError: the folder can't be written.
    """
    lock = file.with_name(f"{file.name}.lock")
    words = f"{os.uname().nodename} {_system()} {os.getpid()} {secrets.token_hex(4)}"
    until_s = time.monotonic() + wait_s
    while not _take(lock, words, stale_s):
        if time.monotonic() > until_s:
            owner = _words(lock).split(" ")
            by = f"process {owner[2]} on {owner[0]}" if len(owner) > 2 else "somebody"
            raise LockError(f"{lock} is held by {by}; try again in a minute, or remove it if nobody is at work there")
        time.sleep(random.uniform(0.02, 0.1))
    mine = Lock(lock, words, time.monotonic())
    try:
        yield mine
    finally:
        if _words(lock) == words:
            with contextlib.suppress(OSError):
                lock.unlink()


def _take(lock: Path, words: str, stale_s: float) -> bool:
    own = lock.with_name(f".{lock.name}.{secrets.token_hex(8)}")
    handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{words}\n")
            os.fchmod(file.fileno(), 0o644)
        # The answer to a link may be lost on its way, and a count of links come out of a cache: what
        # stands in the lock is the truth.
        with contextlib.suppress(FileExistsError):
            os.link(own, lock, follow_symlinks=False)
        if _words(lock) == words:
            return True
        _break_stale(lock, own, stale_s)
        return False
    finally:
        own.unlink(missing_ok=True)


def _break_stale(lock: Path, own: Path, stale_s: float) -> None:
    """Remove the lock of a dead owner. Of several who judge so at once only one moves it; a fresh one is put back."""
    words = _words(lock)
    with contextlib.suppress(FileNotFoundError):
        # Both times are the file system's, whatever this node's clock says.
        age_s = own.stat().st_mtime - lock.lstat().st_mtime
        if not _is_dead(words) and age_s < stale_s:
            return
        aside = own.with_name(f"{own.name}.dead")
        lock.rename(aside)
        try:
            if _words(aside) != words:
                with contextlib.suppress(FileExistsError):
                    os.link(aside, lock, follow_symlinks=False)
        finally:
            aside.unlink(missing_ok=True)


def _is_dead(words: str) -> bool:
    owner = words.split(" ")
    if len(owner) != 4 or owner[1] != _system() or "?" in owner[1] or not owner[2].isdecimal():
        return False
    try:
        os.kill(int(owner[2]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _words(lock: Path) -> str:
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, errors="replace") as file:
            return file.read(400).strip()
    except OSError:
        return ""


def _system() -> str:
    """This boot of this host, and its view of processes: only there a process number says something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "?"
