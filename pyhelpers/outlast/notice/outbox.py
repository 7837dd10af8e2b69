"""RUN/outbox/: messages that wait, those that somebody is sending just now, and sent/ with the last ones sent.

A file's name says all that may change, so each step is one rename: a full disk takes it, and of two senders one wins.

    NAME.mail                  waits
    NAME~mail~hook-team.mail   waits; by mail, and to the webhook `team`, it has been told
    NAME.mail.claimed.SEC      somebody has been sending it since SEC
    sent/NAME.mail             everybody has been told, at its time of change
"""

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.notice.message import Message, parse
from outlast.rundir import RunDir

# A sender has less than a minute. What is older was left by one that has died.
DEAD_S = 300
SENT_AT_MOST = 100
WAITING_AT_MOST = 500  # that one flush looks at
_SIZE = 1 << 18
_FILE = re.compile(r"(?P<name>\w[\w.-]*?)(?P<told>(~[a-z0-9-]+)*)\.mail(\.claimed\.(?P<since>\d{1,12}))?", re.A)


@dataclass(frozen=True)
class Entry:
    """A file of the outbox. `told` are the channels that have it, the last one since `changed`; `since` is when its
    sender took it (None: it waits)."""

    folder: Path
    name: str
    told: tuple[str, ...]
    since: int | None
    message: Message
    changed: float

    @property
    def path(self) -> Path:
        """Where it is."""
        marks = "".join(f"~{channel}" for channel in self.told)
        claim = "" if self.since is None else f".claimed.{self.since}"
        return self.folder / f"{self.name}{marks}.mail{claim}"


class Outbox:
    """The messages of one run."""

    def __init__(self, run: RunDir) -> None:
        self.folder = run.path / "outbox"
        self.sent = self.folder / "sent"

    def entries(self) -> list[Entry]:
        """All messages that are not sent, the oldest first.

        Raises: OSError: the folder can't be read.
        """
        found = [_entry(self.folder, name) for name in sorted(_names(self.folder))[:WAITING_AT_MOST]]
        return sorted((entry for entry in found if entry), key=lambda entry: entry.name)

    def take_back(self, now: float) -> None:
        """Let the messages wait again whose sender has died.

        Raises: OSError: the folder can't be read.
        """
        for name in _names(self.folder):
            since = _FILE.fullmatch(name)["since"]  # type: ignore[index] # _names gives no other
            if since and now - int(since) > DEAD_S:
                with suppress(OSError):
                    (self.folder / name).rename(self.folder / name.partition(".claimed.")[0])

    def claim(self, entry: Entry, now: float) -> Entry | None:
        """The message as one that nobody else sends; None: somebody was faster."""
        return self._renamed(entry, replace(entry, since=int(now)))

    def is_ours(self, entry: Entry, now: float) -> bool:
        """Is the claim still ours? After a long sleep of this process it may not be."""
        return entry.since is not None and now - entry.since < DEAD_S / 2 and entry.path.exists()

    def mark(self, entry: Entry, channel: str, now: float) -> Entry:
        """The message, from now on as one that this channel has."""
        with suppress(OSError):
            os.utime(entry.path, (now, now))
        new = replace(entry, told=(*entry.told, channel), changed=now)
        return self._renamed(entry, new) or new

    def release(self, entry: Entry) -> None:
        """Let it wait for the next time."""
        self._renamed(entry, replace(entry, since=None))

    def close(self, entry: Entry) -> None:
        """Everybody has been told."""
        try:
            self.sent.mkdir(mode=0o750, exist_ok=True)
            entry.path.rename(self.sent / f"{entry.name}.mail")
        except OSError:
            # Better forgotten than sent again.
            with suppress(OSError):
                entry.path.unlink()

    def told_since(self, then: float) -> set[tuple[str, ...]]:
        """The keys of the messages that were sent after that time."""
        found = set()
        for name in _names(self.sent):
            with suppress(OSError):
                if (self.sent / name).stat().st_mtime > then and (entry := _entry(self.sent, name)):
                    found.add(entry.message.key)
        return found

    def prune(self) -> None:
        """Remove the oldest of those sent."""
        for name in sorted(_names(self.sent))[:-SENT_AT_MOST]:
            with suppress(OSError):
                (self.sent / name).unlink()

    def failed(self, why: str) -> None:
        """Leave one line about what went wrong, or take the last one away."""
        file = self.folder / "last-error"
        new = file.with_name(f".last-error.{os.getpid()}")
        try:
            if why:
                stamp = time.strftime("%Y-%m-%d %H:%M:%S %Z")
                new.write_text(f"{stamp} {os.uname().nodename}: {why}\n", encoding="utf-8")
                new.replace(file)
            else:
                file.unlink(missing_ok=True)
        except OSError:
            with suppress(OSError):
                new.unlink(missing_ok=True)

    def last_error(self) -> str:
        """That line, or nothing."""
        try:
            return (self.folder / "last-error").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    @staticmethod
    def _renamed(old: Entry, new: Entry) -> Entry | None:
        try:
            # On the way nobody else may have put one there: names are never used twice.
            old.path.rename(new.path)
        except OSError:
            return None
        return new


def waiting(run: RunDir) -> int:
    """How many messages are not sent yet; 0 where that can't be read."""
    try:
        return len(_names(run.path / "outbox"))
    except OSError:
        return 0


def _names(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if _FILE.fullmatch(name)]
    except FileNotFoundError:
        return []


def _entry(folder: Path, name: str) -> Entry | None:
    """None: it is gone meanwhile, or is no plain file."""
    parts = _FILE.fullmatch(name)
    if parts is None:
        return None
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            changed = os.fstat(file.fileno()).st_mtime
            text = file.read(_SIZE).decode(errors="replace")
    except OSError:
        return None
    at = re.match(r"\d{1,12}", name)
    told = tuple(parts["told"].split("~")[1:])
    since = int(parts["since"]) if parts["since"] else None
    return Entry(folder, parts["name"], told, since, parse(text, int(at[0]) if at else 0), changed)
