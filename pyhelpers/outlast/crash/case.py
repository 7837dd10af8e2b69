"""All that is known when the verdict is reached, and what follows from it without a judgement."""

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from outlast.crash import exits, progress
from outlast.crash.exits import Exit
from outlast.crash.patterns import Book
from outlast.crash.scan import Event, Seen
from outlast.crash.verdict import Evidence

T = TypeVar("T")

EARLY_STEPS = 20
FEW = 4  # nodes that may be bad at once in a job of unknown size
SHARE_BAD = 8  # at most one node in so many is bad at once


def unique(values: Iterable[T]) -> list[T]:
    """Each once, in order."""
    return list(dict.fromkeys(values))


@dataclass
class Case:
    """All that is known when the verdict is reached."""

    seen: Seen
    book: Book
    exit_code: int | None
    scheduler: str
    _steps: dict[tuple[str, int, int], list[progress.Step]] = field(default_factory=dict)
    _over: dict[int, int] = field(default_factory=dict)

    def host(self, event: Event) -> str:
        """The node where a line was written."""
        layout = self.seen.layout
        if event.host and (host := layout.host(event.host)):
            return host
        if event.rank is not None and (host := layout.of_rank(event.rank)):
            return host
        if event.task is not None and (host := layout.of_task(event.task)):
            return host
        if event.rank is not None and (host := self._only_exit_of(event.rank)):
            return host
        return layout.weak(event.weak) if event.weak else ""

    def _only_exit_of(self, rank: int) -> str:
        """Where the one task that ended first has this rank's number, although nothing says that tasks are ranks."""
        first = self._first_exits
        lone = len(first) == 1 and first[0].tasks == [rank] and len(first[0].hosts) == 1
        return self.seen.layout.host(first[0].hosts[0]) if lone else ""

    @cached_property
    def originals(self) -> list[Exit]:
        """The bad exits that were no answer to another one."""
        return exits.originals(self.ends, self.seen.teardown)

    @cached_property
    def _first_exits(self) -> list[Exit]:
        return [ended for ended in self.originals if ended.how != "term"]

    def ranks_of(self, ended: list[Exit]) -> list[int]:
        """The ranks that ended so, where the log tells."""
        layout = self.seen.layout
        ranks = [one.rank for one in ended if one.rank is not None]
        if layout.tasks_are_ranks():
            ranks += [task for one in ended for task in one.tasks]
            ranks += [one.task for one in ended if one.task is not None and one.rank is None]
        return sorted(set(ranks))

    def evidence(self, told: Event | Exit) -> Evidence:
        """Where it stands."""
        return Evidence(str(self.seen.logs[told.file].path), told.line, told.text)

    def named(self, event: Event) -> list[str]:
        """The nodes that a line is about: those it names, else where it was written."""
        if event.hosts:
            return [host for name in event.hosts if (host := self.seen.layout.host(name))]
        here = self.host(event)
        return [here] if here and "nameless" not in event.form.flags else []

    def rank(self, event: Event) -> int | None:
        """The rank that wrote a line."""
        if event.rank is None and event.task is not None and self.seen.layout.tasks_are_ranks():
            return event.task
        return event.rank

    def order(self, events: list[Event]) -> list[Event]:
        """Events from the first to the last: by time where all have one, else by place."""
        if all(event.time is not None for event in events):
            return sorted(events, key=lambda event: (event.time or 0.0, event.file, event.line))
        return sorted(events, key=lambda event: (event.file, event.line))

    def steps_before(self, event: Event) -> list[progress.Step]:
        """Steps that the same file tells before an event; where it tells none at all, those of the other files."""
        log = self.seen.logs[event.file]
        near = self._read(("before", event.file, event.offset), lambda: log.before(event.offset))
        return near or [
            step
            for number in range(min(len(self.seen.logs), 64))
            if number != event.file
            for step in self.last_steps(number)
        ]

    def last_steps(self, file: int) -> list[progress.Step]:
        """The steps at the end of a file."""
        return self._read(("last", file, 0), self.seen.logs[file].last)

    def _read(self, key: tuple[str, int, int], window: Callable[[], bytes]) -> list[progress.Step]:
        if key not in self._steps:
            self._steps[key] = progress.steps(window())
        return self._steps[key]

    @cached_property
    def ends(self) -> list[Exit]:
        """The bad exits that training did not go on after."""
        return [ended for ended in self.seen.ends if (ended.how != "code" or ended.code) and not self.is_over(ended)]

    def is_over(self, event: Event | Exit) -> bool:
        """Did training go on after it?"""
        if event.offset < self._went_on_until(event.file):
            return True
        restarts = self.seen.restarts.get(event.file, [])
        later = restarts[bisect.bisect(restarts, event.line) :][:1]
        return bool(later) and self._last_line.get(event.file, 0) > later[0]

    @cached_property
    def _last_line(self) -> dict[int, int]:
        """The last line of each file that says something of an end."""
        last: dict[int, int] = {}
        for event in self.seen.events:
            if event.tier <= 3:
                last[event.file] = max(last.get(event.file, 0), event.line)
        return last

    def _went_on_until(self, file: int) -> int:
        """Jobs log each attempt alone, so what is told behind a rank's bad end had only waited in somebody's buffer."""
        if file not in self._over:
            log = self.seen.logs[file]
            ends = [one for one in self.seen.ends if one.file == file and exits.OURS in one.text]
            bad = [one.offset for one in ends if one.how != "code" or one.code]
            self._over[file] = progress.went_on_until(log, min(bad, default=log.offset))
        return self._over[file]

    def is_early(self, event: Event) -> bool:
        """Before the first step, or within the first few."""
        told = [step.number for step in self.steps_before(event) if step.number is not None]
        if not told:
            return not self.steps_before(event)
        first = (
            min(told)
            if progress.resumed(self.seen.logs[event.file].head or self.seen.logs[event.file].window(0))
            else 0
        )
        return max(told) - first <= EARLY_STEPS

    def is_many(self, hosts: int, sure: bool = False) -> bool:
        """Are so many nodes more than can be bad at once? `sure`: what was said of them has no other reason."""
        layout = self.seen.layout
        if sure:
            return hosts > (max(1, layout.size() // 2) if layout.known() else FEW)
        return hosts > max(1, layout.size() // SHARE_BAD)
