"""The rules: of all that the logs say, what came first and caused the rest.

1. A scheduler's own word on the end (time limit, preempted, put back, cancelled) makes everything after it an echo.
2. A failure that training went on after is over.
3. A cause beats what may be an echo, and that beats what mostly is one; within these the first in time.
4. Blame goes where the pattern says: to the node of the line, the silent peer, the late rank, or nobody. When more
   nodes show the same than can be bad at once, it is nobody's fault.
5. Only when no line says more do the exits of ranks count: those before the launcher ended the others.
6. Unknown is an answer.
"""

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from outlast.crash import late, peers, progress, verdict
from outlast.crash.exits import Exit
from outlast.crash.patterns import Book
from outlast.crash.scan import Event, Seen
from outlast.crash.verdict import Evidence, Verdict

T = TypeVar("T")

EARLY_STEPS = 20
GAP_S = 60.0  # a failure so long before the scheduler's end was not caused by it
CANCEL_GAP_S = 5.0
LAST_STEPS = 3
FEW = 4  # nodes that may be bad at once in a job of unknown size
EVIDENCE = 8
SHARE_BAD = 8  # at most one node in so many is bad at once
ENDS = ("requeue", "preemption", "walltime", "cancelled_by_user")
# Patterns of one kind of complaint, told by several libraries in their own words.
NETWORK = {"ib_retry_exceeded", "nccl_remote_error", "connection_refused", "gloo_peer_closed"}
TIMEOUTS = {"collective_timeout", "watchdog_stuck"}


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
    def _first_exits(self) -> list[Exit]:
        return [ended for ended in _originals(self) if ended.how != "term"]

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
        if file not in self._over:
            self._over[file] = progress.went_on_until(self.seen.logs[file])
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


def judge(seen: Seen, book: Book, exit_code: int | None = None, scheduler: str = "") -> Verdict:
    """What the logs say about the end."""
    case = Case(seen, book, exit_code, scheduler)
    done = _done(case)
    end = _scheduler_end(case)
    failures = _failures(case, end, done)
    if not failures and not done and (diverged := _diverged(case)):
        _finish(case, diverged)
        return diverged
    if failures:
        found = _failed(case, failures)
    elif end:
        found = _ended(case, end)
    elif done:
        found = _finished(case, done)
    else:
        found = _by_exits(case) or _by_silence(case)
    _finish(case, found)
    return found


def _done(case: Case) -> Event | None:
    """The line that says the work is done, unless training went on after it."""
    told = [event for event in case.seen.events if event.name == "clean_exit"]
    return told[-1] if told and not case.is_over(told[-1]) else None


def _scheduler_end(case: Case) -> Event | None:
    """The scheduler's own word on the end."""
    told = [event for event in case.seen.events if event.name in ENDS and event.tier == 0]
    for name in ENDS[:3]:
        if these := [event for event in told if event.name == name and not case.is_over(event)]:
            return these[0]
    for event in told:
        if event.key == "STEP" and _is_teardown(case, event):
            continue
        if not case.is_over(event):
            return event
    return None


def _is_teardown(case: Case, end: Event) -> bool:
    """Is a cancelled step only the launcher's answer to a task that failed?"""
    if any(event.key == "JOB" and event.name == "cancelled_by_user" for event in case.seen.events):
        return False
    failed = [ended for ended in case.ends if ended.how != "term"]
    before = [ended for ended in failed if ended.file == end.file and ended.line < end.line]
    return bool(before) or any(
        1 <= event.tier <= 2 and event.file == end.file and event.line < end.line and not case.is_over(event)
        for event in case.seen.events
    )


def _failures(case: Case, end: Event | None, done: Event | None) -> list[Event]:
    """The events that may be the failure, in order."""
    told = [event for event in case.order(case.seen.events) if 1 <= event.tier <= 3]
    if end:
        told = [event for event in told if _is_before(event, end)]
    if done:
        told = [event for event in told if _is_after_the_work(event, done)]
        if case.exit_code == 0:
            return []
    return [event for event in told if not case.is_over(event)]


def _is_before(event: Event, end: Event) -> bool:
    """Did it happen so long before the scheduler's end that it is no answer to it?"""
    cancelled = end.name == "cancelled_by_user"
    if event.time is not None and end.time is not None:
        return end.time - event.time >= (CANCEL_GAP_S if cancelled else GAP_S) and event.tier <= (1 if cancelled else 3)
    return event.file == end.file and event.line < end.line and event.tier <= (1 if cancelled else 2)


def _is_after_the_work(event: Event, done: Event) -> bool:
    """Does it spoil what was done? What processes say while they end does not; a last checkpoint that is lost does."""
    later = event.line > done.line if event.file == done.file else (event.time or 0) > (done.time or 1e12)
    return later and event.tier == 1 and event.pattern.outcome["scope"] == "storage"


def _failed(case: Case, failures: list[Event]) -> Verdict:
    tier = min(event.tier for event in failures)
    best = [event for event in failures if event.tier == tier]
    present = {event.name for event in failures} | {event.pattern.name for event in failures}
    leading = [event for event in best if not set(event.pattern.gives_way_to) & present] or best
    first = leading[0]
    exits_first = _exit_before(case, first)
    if exits_first:
        return exits_first
    group = [
        event
        for event in failures
        if event.name == first.name
        or (first.pattern.name in NETWORK | TIMEOUTS and event.pattern.outcome.get("as", event.name) == first.name)
    ]
    if first.pattern.name == "python_exception":  # other exceptions are answers to the first
        group = [event for event in group if event.key == first.key]
    if first.name in TIMEOUTS:
        group = [event for event in failures if event.name in TIMEOUTS]
    return _verdict(case, first, group)


def _exit_before(case: Case, first: Event) -> Verdict | None:
    """A rank that a signal killed, told by its launcher, beats echoes of its death."""
    if first.tier < 3:
        return None
    found = _by_exits(case)
    return (
        found
        if found
        and found.pattern in ("process_killed", "segfault", "bus_error", "host_oom", "illegal_instruction")
        and found.blame_ranks + found.blame_nodes
        else None
    )


def _verdict(case: Case, first: Event, group: list[Event]) -> Verdict:
    """The verdict of a group of events that say the same."""
    pattern = first.pattern
    outcome = dict(pattern.outcome)
    hosts, ranks, why, sure = _blamed(case, first, group)
    all_hosts = _unique(host for event in group for host in case.named(event))
    all_ranks = _unique(rank for event in group if (rank := case.rank(event)) is not None)
    several = len(all_ranks) > 1 or len(all_hosts) > 1
    is_many = case.is_many(len(all_hosts), "sure" in pattern.flags)
    for name in _cases(case, first, several, is_many, all_hosts, all_ranks, bool(hosts)):
        outcome.update(pattern.cases.get(name, {}))
    outcome.update(first.form.outcome)
    if outcome["blame"] in ("none", "rank"):
        hosts = []
    if outcome["blame"] == "none" or (outcome["blame"] == "rank" and len(all_ranks) > 1):
        ranks = []
    if not hosts and outcome["action"] == "retry-exclude":
        outcome["action"] = "retry"
    found = Verdict(outcome.get("as", first.name), outcome["scope"], outcome["persistence"], outcome["action"])
    found.blame_nodes, found.blame_ranks, found.confidence = hosts, sorted(ranks), sure
    found.why = f"{pattern.says}: {why}"
    found.evidence = [_evidence(case, event) for event in _telling(first, group)]
    found.fingerprint = _fingerprint(case, found.pattern, first)
    return found


def _cases(
    case: Case, first: Event, several: bool, is_many: bool, hosts: list[str], ranks: list[int], clear: bool
) -> list[str]:
    """Which of the pattern's cases these are, the one that counts most last."""
    found = []
    blame = _way(first)
    early = case.is_early(first)
    if early and (several or blame not in ("node", "few")):
        found.append("early")
    if not early:
        found.append("late")
    if not several and (hosts or ranks):
        found.append("few")
    if len(hosts) == 1 and not is_many and case.seen.layout.size() > 1:
        found.append("one")
    if is_many:
        found.append("many")
    if blame in ("peer", "late"):
        found.append("clear" if clear else "unclear")
    return found


def _blamed(case: Case, first: Event, group: list[Event]) -> tuple[list[str], list[int], str, float]:
    """Nodes and ranks to blame, why, and how sure."""
    blame = _way(first)
    if blame == "peer":
        return _blamed_peer(case, first, group)
    if blame == "late":
        return _blamed_late(case, group)
    hosts = _unique(host for event in group for host in case.named(event))
    ranks = _unique(
        rank
        for event in group
        if (not event.hosts or "rank" in event.groups) and (rank := case.rank(event)) is not None
    )
    if blame == "few" and len(hosts) > 1:
        return [], [], f"on {len(hosts)} nodes at once, so none of them is to blame", 0.8
    if case.is_many(len(hosts), "sure" in first.pattern.flags):
        return [], [], f"on {len(hosts)} nodes at once, more than can be bad, so none is to blame", 0.75
    if not hosts and "one_rank" in first.pattern.flags:
        hosts, ranks = _exit_place(case, ranks)
    if "whole" in first.pattern.flags and len(hosts) == 1:
        ranks = case.seen.layout.ranks_of(hosts[0]) or ranks
    if not ranks and len(hosts) == 1 and not any(event.hosts for event in group):
        ranks = _lone_rank(case, hosts[0])
    where = (
        f"on {', '.join(hosts[:4])}"
        if hosts
        else f"by rank {', '.join(map(str, sorted(ranks)[:4]))}"
        if ranks
        else "the log does not tell where"
    )
    return hosts, ranks, f"said {where}" if hosts or ranks else where, 0.9 if hosts and first.tier == 1 else 0.7


def _way(event: Event) -> str:
    """How the pattern of an event blames."""
    return event.form.outcome.get("blame", event.pattern.outcome["blame"])


def _lone_rank(case: Case, host: str) -> list[int]:
    """The rank of a node that ended badly, if it is one: for lines of a kernel, which knows none."""
    bad = [
        ended for ended in _originals(case) if ended.how != "term" and host in map(case.seen.layout.host, ended.hosts)
    ]
    ranks = _ranks_of_exits(case, bad)
    return ranks if len(ranks) == 1 else []


def _exit_place(case: Case, ranks: list[int]) -> tuple[list[str], list[int]]:
    """Where the launcher says that a task was the first to be killed, for lines that do not say where."""
    killed = [ended for ended in _originals(case) if ended.how in ("oom", "kill", "segv", "bus", "abort")]
    hosts = _unique(host for ended in killed for host in ended.hosts)
    hosts = [host for name in hosts if (host := case.seen.layout.host(name))]
    return (hosts, ranks or _ranks_of_exits(case, killed)) if len(hosts) == 1 else ([], ranks)


def _blamed_peer(case: Case, first: Event, group: list[Event]) -> tuple[list[str], list[int], str, float]:
    told = peers.Accusations()
    for event in group:
        if event.peer:
            told.add(case.host(event), case.seen.layout.host(event.peer), event.peer)
    local = "local_port" in first.pattern.flags
    if local and not told.by_accused and not told.unknown:
        here = _unique(host for event in group if (host := case.host(event)))
        if len(here) == 1:
            return here, [], f"only {here[0]} complains", 0.6
    found = peers.judge(told, local)
    return [found.host] if found.host else [], [], found.why, found.confidence


def _blamed_late(case: Case, group: list[Event]) -> tuple[list[str], list[int], str, float]:
    layout = case.seen.layout
    world = len(layout.ranks)
    per_node = max((len(layout.ranks_of(host)) for host in set(layout.ranks.values())), default=0)
    ranks, why, sure = late.ranks(group, world, per_node)
    hosts = _unique(host for rank in ranks if (host := layout.of_rank(rank)))
    if len(hosts) > 1 and case.is_many(len(hosts)):
        return [], [], f"{len(ranks)} ranks on {len(hosts)} nodes were late, so none is to blame", 0.5
    who = f"rank {', '.join(map(str, ranks[:4]))}: " if ranks else ""
    return hosts, ranks, who + why, sure


def _originals(case: Case) -> list[Exit]:
    """Exits that were no answer to another one: before the launcher ended the rest, and bad in themselves.

    *Killed* beats *Terminated*: a launcher that ends the others first sends TERM.
    """
    bad = case.ends
    outlast = [ended for ended in bad if "outlast: rank" in ended.text]
    if outlast:
        outlast = sorted(outlast, key=lambda ended: (ended.how == "term", ended.time or 0.0))
        return outlast[:1]
    timed = [ended for ended in bad if ended.time is not None and ended.how != "term" and ended.rank is not None]
    if len(timed) > 1 and len(timed) == len(
        [ended for ended in bad if ended.rank is not None and ended.time is not None]
    ):
        return sorted(timed, key=lambda ended: ended.time or 0.0)[:1]
    oom = [ended for ended in bad if ended.how == "oom"]
    if oom:
        return oom
    cuts = {
        file: min(line for place, line in case.seen.teardown if place == file)
        for file in {place for place, _ in case.seen.teardown}
    }
    before = [ended for ended in bad if ended.how != "term" and ended.line < cuts.get(ended.file, 1 << 60)]
    rest = before or [ended for ended in bad if ended.how != "term"]
    hard = [ended for ended in rest if ended.how in ("segv", "bus", "illegal", "fpe")]
    return hard or rest


_BY_HOW = {
    "oom": "host_oom",
    "kill": "process_killed",
    "segv": "segfault",
    "bus": "bus_error",
    "illegal": "illegal_instruction",
    "fpe": "floating_point_exception",
}


def _by_exits(case: Case) -> Verdict | None:
    """The verdict by the exits of ranks alone."""
    bad = case.ends
    if not bad:
        return None
    if all(ended.how == "term" for ended in bad):
        return _terminated(case, bad)
    first = _originals(case)
    if not first:
        return None
    name = _BY_HOW.get(first[0].how, "unknown")
    first = [ended for ended in first if ended.how == first[0].how]
    hosts = [
        host
        for name_ in _unique(host for ended in first for host in ended.hosts)
        if (host := case.seen.layout.host(name_))
    ]
    ranks = _ranks_of_exits(case, first)
    found = Verdict(name, "unknown", "unknown", "retry", confidence=0.6)
    if pattern := next((one for one in case.book.patterns if one.name == name), None):
        found.scope, found.persistence, found.action = (
            pattern.outcome[key] for key in ("scope", "persistence", "action")
        )
    lone = len(hosts) == 1 and (len(ranks) <= 1 or first[0].how in ("oom", "kill"))
    if lone and name != "unknown":
        found.blame_nodes = hosts
    if len(ranks) == 1 or (lone and name != "unknown"):
        found.blame_ranks = ranks
    if name == "unknown":
        found.confidence = 0.3
    said = first[0].text.strip()
    found.why = f"{case.book.says(name) or 'Nothing says why'}: the launcher says {said[:120]!r}, and no line says more"
    found.evidence = [
        Evidence(str(case.seen.logs[ended.file].path), ended.line, ended.text) for ended in first[:EVIDENCE]
    ]
    found.fingerprint = verdict.fingerprint(name, first[0].how, str(first[0].code))
    return found


def _terminated(case: Case, bad: list[Exit]) -> Verdict:
    found = Verdict("sigterm_external", "scheduler", "unknown", "none", confidence=0.6)
    found.why = "All ranks got TERM and nothing failed before: only the scheduler's record tells who sent it"
    found.evidence = [Evidence(str(case.seen.logs[ended.file].path), ended.line, ended.text) for ended in bad[:3]]
    found.fingerprint = verdict.fingerprint("sigterm_external")
    return found


def _ranks_of_exits(case: Case, ended: list[Exit]) -> list[int]:
    layout = case.seen.layout
    ranks = [one.rank for one in ended if one.rank is not None]
    if layout.tasks_are_ranks():
        ranks += [task for one in ended for task in one.tasks]
        ranks += [one.task for one in ended if one.task is not None and one.rank is None]
    return sorted(set(ranks))


def _ended(case: Case, end: Event) -> Verdict:
    outcome = end.pattern.outcome
    found = Verdict(end.name, outcome["scope"], outcome["persistence"], outcome["action"], confidence=0.95)
    found.why = f"{end.pattern.says}; whatever was said afterwards is an answer to it"
    found.evidence = [_evidence(case, end)]
    found.fingerprint = verdict.fingerprint(end.name)
    return found


def _finished(case: Case, done: Event) -> Verdict:
    outcome = done.pattern.outcome
    found = Verdict(done.name, outcome["scope"], outcome["persistence"], outcome["action"], confidence=0.9)
    found.why = "The run says that it is done, and nothing was lost after that"
    found.evidence = [_evidence(case, done)]
    found.fingerprint = verdict.fingerprint(done.name)
    return found


def _diverged(case: Case) -> Verdict | None:
    """The last steps before an end have no finite loss, and nobody said a word about it."""
    steps = [step for number in range(min(len(case.seen.logs), 64)) for step in case.last_steps(number)[-LAST_STEPS:]]
    if case.exit_code in (None, 0) or len(steps) < LAST_STEPS or any(step.loss_is_finite for step in steps):
        return None
    found = Verdict("loss_nan", "training-dynamics", "unknown", "stop", confidence=0.6)
    found.why = f"The loss of the last {len(steps)} steps is not finite, and no line says why it ended"
    found.fingerprint = verdict.fingerprint("loss_nan")
    return found


def _by_silence(case: Case) -> Verdict:
    """No line says anything: the code of the launch, or the steps."""
    from outlast.crash import exits

    code = case.exit_code
    steps = [step for number in range(min(len(case.seen.logs), 64)) for step in case.last_steps(number)]
    if code == 0:
        return Verdict(
            "clean_exit",
            "none",
            "unknown",
            "done",
            confidence=0.6,
            why="It exited 0 and no line says that anything failed",
            fingerprint=verdict.fingerprint("clean_exit"),
        )
    if code is None:
        if steps:
            return Verdict(
                "running",
                "none",
                "unknown",
                "none",
                confidence=0.5,
                why="The last lines are steps, and nothing says that it ended",
                fingerprint=verdict.fingerprint("running"),
            )
        return Verdict(
            "unknown",
            "unknown",
            "unknown",
            "retry",
            confidence=0.1,
            why="No line says what happened",
            fingerprint=verdict.fingerprint("unknown"),
        )
    how, number = exits.how(code - 128 if code > 256 else code, None)
    name, scope, action, why = {
        "term": ("sigterm_external", "scheduler", "none", "It was ended by TERM, and no line says by whom"),
        "kill": ("process_killed", "unknown", "retry", "It was killed, and no line says by whom"),
        "segv": (
            "segfault",
            "software",
            "retry",
            "The launch ended with a segmentation fault, of which no line says more",
        ),
    }.get(how, ("unknown", "unknown", "retry", f"It exited {code}, and no line says why"))
    if code in (124, 137, 143) and steps and code == 124:
        name, scope, action, why = (
            "silent_hang",
            "unknown",
            "retry",
            "A time limit around the launch ran out, and no line says why",
        )
    return Verdict(
        name, scope, "unknown", action, confidence=0.3, why=why, fingerprint=verdict.fingerprint(name, str(number))
    )


def _telling(first: Event, group: list[Event]) -> list[Event]:
    """The lines to show: the deciding one, then others that say it elsewhere."""
    rest = [event for event in group if event is not first]
    return [first, *rest][:EVIDENCE]


def _evidence(case: Case, event: Event) -> Evidence:
    return Evidence(str(case.seen.logs[event.file].path), event.line, event.text)


def _fingerprint(case: Case, name: str, first: Event) -> str:
    """By pattern and key; by the message only where the pattern says little."""
    hosts = set(case.seen.layout.seen) | case.seen.layout.known()
    parts = [name, verdict.signature(first.key, hosts) if not first.key.isdigit() else first.key]
    if first.pattern.name in ("python_exception", "import_error", "file_not_found", "launch_config_error"):
        parts += [verdict.signature(first.groups.get("message", ""), hosts), first.frame]
    return verdict.fingerprint(*parts)


def _finish(case: Case, found: Verdict) -> None:
    """Fill in who was seen and is not to blame."""
    seen = {case.seen.layout.host(name) for name in case.seen.layout.seen} - {""}
    found.not_blame_nodes = sorted(seen - set(found.blame_nodes))[:10_000]


def _unique(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
