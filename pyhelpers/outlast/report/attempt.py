"""The attempts of a run and how each ended, out of its ledger."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from outlast.crash.verdict import Evidence, Verdict
from outlast.ledger import Event

# Ends that a person should hear of, whatever follows.
FIELD_MAX = 800  # characters of a text in the ledger (lib/ledger.sh)
FAILURES = frozenset({
    "node", "ended_unknown", "early_exit", "wrong_resume", "unhealthy", "launch", "bad_checkpoint", "storage", "hang",
    "systemic", "crash", "internal", "walltime_late",
})  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """One launch in one job, or (`number` 0) a job that ended before its first. Times are UTC seconds since 1970.

    `place` is the job's in the chain, from 1. `safe_t` is when training reached the step that is durable now, so what
    comes after it is lost. `successor`, `held`, `todo`, `excluded`, `until`, `swapped` and `finished` are what
    followed: `until` has the day on which a node counts as good again, `swapped` the spares that took a place.
    `verdict` is what the job's own decision read in the log, None where it did not.
    """

    run: str
    job: str
    restart: int
    number: int
    name: str
    place: int
    began_t: float
    ended_t: float
    hosts: tuple[str, ...] = ()  # not all of very many
    nodes: int = 0
    from_step: int | None = None
    step: int | None = None
    durable_step: int | None = None
    safe_t: float = 0.0
    kind: str = ""
    code: int | None = None
    evidence: str = ""
    verdict: Verdict | None = None
    then: str = ""
    successor: str = ""
    held: str = ""
    todo: str = ""
    excluded: tuple[str, ...] = ()
    until: dict[str, str] = field(default_factory=dict)
    swapped: tuple[str, ...] = ()
    finished: bool = False

    @property
    def id(self) -> str:
        """Its name in logs/ and reports/."""
        return f"{self.job}.{self.restart}.{self.number}"

    @property
    def failed(self) -> bool:
        """Did it end as nobody wanted?"""
        return self.kind in FAILURES

    @property
    def is_told(self) -> bool:
        """Is there a report of it: after a failure, a hold and at the end of the run?"""
        return self.failed or self.finished or (bool(self.held) and self.kind != "stopped")

    @property
    def lost_steps(self) -> int:
        """Steps that have to be trained again."""
        return max((self.step or 0) - (self.durable_step or 0), 0)

    @property
    def spares_used(self) -> int:
        """Spares that train in the next launch of this job: the swaps come after the report is written."""
        return len(self.swapped) or len(set(self.excluded) & set(self.hosts))

    @property
    def lost_node_hours(self) -> float:
        """What the steps that have to be trained again had cost; without a step, what the attempt cost."""
        if not self.failed or (self.step is not None and not self.lost_steps):
            return 0.0
        return max(self.ended_t - (self.safe_t or self.began_t), 0.0) * self.nodes / 3600


def ended(events: Iterable[Event]) -> list[Attempt]:
    """The attempts that have ended, in order. `events` are in order of time."""
    book = _Book()
    for event in events:
        book.take(event)
    return book.ended


class _Book:
    def __init__(self) -> None:
        self.ended: list[Attempt] = []
        self._open: dict[tuple[str, int], Attempt] = {}
        self._last: dict[tuple[str, int], int] = {}  # of each start of a job, where in `ended` its last attempt is
        self._places_ended: dict[tuple[str, int, int], int] = {}
        self._early: dict[tuple[str, int, int], list[Event]] = {}  # nodes are left out before the end is written
        self._insured: dict[tuple[str, int], str] = {}
        self._names: dict[str, str] = {}
        self._places: dict[str, int] = {}
        self._saved: dict[tuple[str, int], dict[int, float]] = {}  # of each start of a job: step, when it was saved

    def take(self, event: Event) -> None:
        """The next event."""
        if not event.job:
            if event.name == "submitted":
                self._names[event.text("successor")] = event.text("name")
            return
        key = (event.job, event.restart)
        self._places.setdefault(event.job, len(self._places) + 1)
        match event.name:
            case "started" | "launched":
                self._open[key] = self._begun(event)
                self._early.pop((*key, event.attempt), None)  # that was before the launch, and not its fault
            case "excluded" | "struck":
                self._left_out(event)
            case "first_step" | "progress":
                self._change(key, step=event.number("step"))
            case "checkpoint_local":
                step = event.number("step")
                if step is not None:
                    self._saved.setdefault(key, {})[step] = event.t
            case "ended":
                self._end(event)
            case _:
                self._after(event)

    def _begun(self, event: Event) -> Attempt:
        listed = event.text("hosts")
        if len(listed) >= FIELD_MAX:
            listed = listed.rpartition(",")[0]  # the last one may have been cut
        hosts = tuple(listed.split(",")) if listed else ()
        return Attempt(
            event.run,
            event.job,
            event.restart,
            event.attempt,
            self._names.get(event.job) or event.run,
            self._places[event.job],
            event.t,
            event.t,
            hosts,
            int(event.number("nodes") or len(hosts)),
            from_step=event.number("step") or event.number("durable_step"),
        )

    def _change(self, key: tuple[str, int], **fields: int | None) -> None:
        if key in self._open:
            self._open[key] = replace(self._open[key], **fields)  # type: ignore[arg-type] # mypy wants them named

    def _end(self, event: Event) -> None:
        key = (event.job, event.restart)
        own = (*key, event.attempt)
        now = self._open.pop(key, None) or self._begun(event)
        for early in self._early.pop(own, []):
            now = _followed(now, early)
        step, durable = event.number("step"), event.number("durable_step")
        saved = self._saved.get(key, {}).get(durable or 0, 0.0)
        self.ended.append(
            replace(
                now,
                number=event.attempt,
                ended_t=event.t,
                step=now.step if step is None else step,
                durable_step=durable,
                safe_t=saved if saved >= now.began_t else 0.0,
                kind=event.text("class"),
                code=event.number("code"),
                evidence=event.text("evidence"),
                verdict=_said(event),
                then=event.text("then"),
                successor=self._insured.get(key, "") if event.text("then") == "submit" else "",
            )
        )
        self._last[key] = self._places_ended[own] = len(self.ended) - 1

    def _left_out(self, event: Event) -> None:
        """Whose fault it was: of the attempt of that number, which may not have ended yet."""
        own = (event.job, event.restart, event.attempt)
        if own in self._places_ended:
            at = self._places_ended[own]
            self.ended[at] = _followed(self.ended[at], event)
        else:
            self._early.setdefault(own, []).append(event)

    def _after(self, event: Event) -> None:
        """What followed the last end of this job. A job may be held before it has launched anything."""
        key = (event.job, event.restart)
        if event.name == "submitted":
            self._names[event.text("successor")] = event.text("name")
            self._insured[key] = event.text("successor")
        if event.name == "held" and key not in self._last:
            now = self._open.get(key) or self._begun(event)
            self.ended.append(replace(now, number=event.attempt, ended_t=event.t))
            self._last[key] = len(self.ended) - 1
        at = self._last.get(key)
        if at is not None:
            self.ended[at] = _followed(self.ended[at], event)


def _said(event: Event) -> Verdict | None:
    if not event.text("pattern"):
        return None
    said = Verdict(event.text("pattern"), event.text("scope"), event.text("persistence"), event.text("action"))
    said.fingerprint, said.why = event.text("fingerprint"), event.text("why")
    said.blame_nodes = (event.text("began_on") or event.text("blame")).split()
    sure = event.fields.get("confidence")
    said.confidence = float(sure) if isinstance(sure, int | float) else 0.0
    if event.number("line"):
        log = f"logs/{event.job}.{event.restart}.{event.attempt}.log"
        said.evidence = [Evidence(log, event.number("line") or 0, event.text("text"))]
    return said


def _followed(attempt: Attempt, event: Event) -> Attempt:
    match event.name:
        case "submitted":
            return replace(attempt, successor=event.text("successor"))
        case "held":
            return replace(attempt, held=event.text("why"), todo=event.text("todo"))
        case "excluded":
            return replace(attempt, excluded=tuple(dict.fromkeys([*attempt.excluded, *event.text("nodes").split()])))
        case "struck":
            nodes = dict.fromkeys(event.text("nodes").split(), event.text("until"))
            return replace(attempt, until={**attempt.until, **nodes})
        case "swapped" if event.number("with") is None:
            return replace(attempt, swapped=(*attempt.swapped, event.text("in")))
        case "warned" if event.text("text").startswith("no successor"):
            return replace(attempt, then="stop", successor="")
        case "finished":
            return replace(attempt, finished=True)
    return attempt
