"""The rules: of all that the logs say, what came first and caused the rest.

1. A scheduler's own word on the end (time limit, preempted, put back, cancelled) makes everything after it an echo.
2. A failure that training went on after is over.
3. A cause beats what may be an echo, and that beats what mostly is one; within these the first in time.
4. Blame goes where the pattern says: to the node of the line, the silent peer, the late rank, or nobody. When more
   nodes show the same than can be bad at once, it is nobody's fault.
5. Only when no line says more do the exits of ranks count: those before the launcher ended the others.
6. Unknown is an answer.
"""

from outlast.crash import blame, ends, silence, verdict
from outlast.crash.by_exits import EVIDENCE, by_exits
from outlast.crash.case import Case, unique
from outlast.crash.patterns import Book
from outlast.crash.scan import Event, Seen
from outlast.crash.verdict import Verdict

# Patterns of one kind of complaint, told by several libraries in their own words.
NETWORK = {"ib_retry_exceeded", "nccl_remote_error", "connection_refused", "gloo_peer_closed"}
TIMEOUTS = {"collective_timeout", "watchdog_stuck"}


def judge(seen: Seen, book: Book, exit_code: int | None = None, scheduler: str = "") -> Verdict:
    """What the logs say about the end."""
    case = Case(seen, book, exit_code, scheduler)
    done = ends.done(case)
    end = ends.scheduler_end(case)
    failures = _failures(case, end, done)
    if not failures and not done and (diverged := silence.diverged(case)):
        _finish(case, diverged)
        return diverged
    if failures:
        found = _failed(case, failures)
    elif end:
        found = ends.ended(case, end)
    elif done:
        found = ends.finished(case, done)
    else:
        found = by_exits(case) or silence.by_silence(case)
    _finish(case, found)
    return found


def _failures(case: Case, end: Event | None, done: Event | None) -> list[Event]:
    """The events that may be the failure, in order."""
    told = [event for event in case.order(case.seen.events) if 1 <= event.tier <= 3]
    if end:
        told = [event for event in told if ends.is_before(event, end)]
    if done:
        told = [event for event in told if ends.is_after_the_work(event, done)]
        if case.exit_code == 0:
            return []
    return [event for event in told if not case.is_over(event)]


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
    found = by_exits(case)
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
    hosts, ranks, why, sure = blame.blamed(case, first, group)
    all_hosts = unique(host for event in group for host in case.named(event))
    all_ranks = unique(rank for event in group if (rank := case.rank(event)) is not None)
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
    found.evidence = [case.evidence(event) for event in _telling(first, group)]
    found.fingerprint = _fingerprint(case, found.pattern, first)
    return found


def _cases(
    case: Case, first: Event, several: bool, is_many: bool, hosts: list[str], ranks: list[int], clear: bool
) -> list[str]:
    """Which of the pattern's cases these are, the one that counts most last."""
    found = []
    way = blame.way(first)
    early = case.is_early(first)
    if early and (several or way not in ("node", "few")):
        found.append("early")
    if not early:
        found.append("late")
    if not several and (hosts or ranks):
        found.append("few")
    if len(hosts) == 1 and not is_many and case.seen.layout.size() > 1:
        found.append("one")
    if is_many:
        found.append("many")
    if way in ("peer", "late"):
        found.append("clear" if clear else "unclear")
    return found


def _telling(first: Event, group: list[Event]) -> list[Event]:
    """The lines to show: the deciding one, then others that say it elsewhere."""
    rest = [event for event in group if event is not first]
    return [first, *rest][:EVIDENCE]


def _fingerprint(case: Case, name: str, first: Event) -> str:
    """By pattern and key; by the message only where the pattern says little."""
    hosts = set(case.seen.layout.seen) | case.seen.layout.known()
    parts = [name, verdict.signature(first.key, hosts) if not first.key.isdecimal() else first.key]
    if first.pattern.name in ("python_exception", "import_error", "file_not_found", "launch_config_error"):
        parts += [verdict.signature(first.groups.get("message", ""), hosts), first.frame]
    return verdict.fingerprint(*parts)


def _finish(case: Case, found: Verdict) -> None:
    """Fill in who was seen and is not to blame."""
    seen = {case.seen.layout.host(name) for name in case.seen.layout.seen} - {""}
    found.not_blame_nodes = sorted(seen - set(found.blame_nodes))[:10_000]
