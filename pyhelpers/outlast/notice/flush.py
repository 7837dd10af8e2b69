"""Send what waits: one letter for each kind of news, at most one an hour."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from outlast.notice.letter import letter
from outlast.notice.outbox import Entry, Outbox
from outlast.notice.senders import Senders, channels
from outlast.notice.unsent import Unsent
from outlast.rundir import RunDir

HOUR_S = 3600
LIMIT_S = 30.0


@dataclass
class Outcome:
    """How many messages have been sent, how many are held back for a later letter, and what went wrong, a line each."""

    sent: int = 0
    held_back: int = 0
    errors: list[str] = field(default_factory=list)


def flush(run: RunDir, senders: Senders, limit_s: float = LIMIT_S, clock: Callable[[], float] = time.time) -> Outcome:
    """What became of the messages that wait in the run's outbox.

    Raises: OSError: the outbox can't be read.
    """
    return _Flush(run, senders, limit_s, clock).done()


class _Flush:
    def __init__(self, run: RunDir, senders: Senders, limit_s: float, clock: Callable[[], float]) -> None:
        self.run, self.senders, self.clock = run, senders, clock
        self.box = Outbox(run)
        self.until = time.monotonic() + limit_s
        self.outcome = Outcome()
        self.failed: set[str] = set()  # channels that are not tried again this time

    def done(self) -> Outcome:
        now = self.clock()
        self.box.take_back(now)
        # In this order: what is sent meanwhile is seen in one of the two.
        groups = self._groups()
        recent = self.box.told_since(now - HOUR_S)
        for key, entries in groups.items():
            busy = key in recent or any(_is_fresh(entry, now - HOUR_S) for entry in entries)
            self._group([e for e in entries if e.since is None], busy)
        self.box.failed("; ".join(self.outcome.errors))
        self.box.prune()
        return self.outcome

    def _groups(self) -> dict[tuple[str, ...], list[Entry]]:
        groups: dict[tuple[str, ...], list[Entry]] = {}
        for entry in self.box.entries():
            groups.setdefault(entry.message.key, []).append(entry)
        return groups

    def _group(self, waiting: list[Entry], busy: bool) -> None:
        """Those of one key. `busy`: one was sent within the hour, or is on its way; then only what some have is due."""
        due = [entry for entry in waiting if entry.told or not busy]
        self.outcome.held_back += len(waiting) - len(due)
        if time.monotonic() > self.until:
            return
        mine = [claimed for entry in due if (claimed := self.box.claim(entry, self.clock()))]
        try:
            if any(not _missing(entry) and not entry.told for entry in mine):
                self.outcome.errors.append("a message names nobody who could be told; it stays in the outbox")
            for channel in dict.fromkeys(c for entry in mine for c in _missing(entry)):
                mine = self._tell(channel, mine)
        finally:
            for entry in mine:
                self._let_go(entry)

    def _tell(self, channel: str, mine: list[Entry]) -> list[Entry]:
        """The entries; those that this channel has now are marked."""
        wanted = [e for e in mine if channel in _missing(e) and self.box.is_ours(e, self.clock())]
        left_s = self.until - time.monotonic()
        if not wanted or channel in self.failed or left_s < 1:
            return mine
        try:
            self.senders.send(channel, letter(self.run, [(e.name, e.message) for e in wanted]), left_s)
        except Unsent as err:
            self.failed.add(channel)
            self.outcome.errors.append(str(err))
            return mine
        return [self.box.mark(entry, channel, self.clock()) if entry in wanted else entry for entry in mine]

    def _let_go(self, entry: Entry) -> None:
        if _missing(entry) or not entry.told:
            self.box.release(entry)
        else:
            self.box.close(entry)
            self.outcome.sent += 1


def _is_fresh(entry: Entry, then: float) -> bool:
    """Is somebody sending it now, or has it reached some of its channels since then?"""
    return entry.since is not None or (bool(entry.told) and entry.changed > then)


def _missing(entry: Entry) -> list[str]:
    return [c for c in channels(entry.message.to, entry.message.hooks) if c not in entry.told]
