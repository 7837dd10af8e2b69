"""The nodes of a job, as its ledger tells: spares, those that are out of use, those that changed places."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from outlast.ledger import Event


@dataclass(frozen=True)
class Swap:
    """Who has whose place in the launch (`slot`, from 0). `how` and `why` are empty where the host was out of use."""

    slot: int
    host: str
    replaced_by: str
    how: str = ""
    why: str = ""


@dataclass(frozen=True)
class Nodes:
    """`count`: of the allocation, None where the job has not begun. `dropped`: by host, why it is out of use."""

    count: int | None = None
    dropped: dict[str, str] = field(default_factory=dict)
    swaps: list[Swap] = field(default_factory=list)

    def spares(self, training: int) -> int:
        """How many there were at the start, where so many train."""
        return max(0, (self.count or 0) - training)

    def spares_left(self, training: int) -> int:
        """How many are left: well, as far as is known, and not training."""
        return max(0, self.spares(training) - len(self.dropped))


def of(events: Iterable[Event], job: str) -> Nodes:
    """The nodes of that job, since it was last started; `events` are in order of time."""
    found = Nodes()
    for event in events:
        if event.job != job:
            continue
        if event.name == "started":
            found = Nodes(event.number("nodes"))
        elif event.name == "excluded":
            found.dropped.update(dict.fromkeys(event.text("nodes").split(), event.text("why")))
        elif event.name == "swapped":
            swap = (event.text("out"), event.text("in"), event.text("how"), event.text("why"))
            found.swaps.append(Swap(event.number("slot") or 0, *swap))
    return found


def newest(events: Iterable[Event]) -> str:
    """The job that has started last, or empty."""
    return max(((event.t, event.job) for event in events if event.name == "started"), default=(0.0, ""))[1]
