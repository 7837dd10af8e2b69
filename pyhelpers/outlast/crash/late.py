"""Which rank did not arrive at a collective: the one whose last enqueued work is behind that which timed out."""

import re
from collections import defaultdict

from outlast.crash.scan import Event

_GROUP = re.compile(r"PG (?:GUID|ID) (\S+)")
NEARLY_ALL = 0.75


def ranks(events: list[Event], world: int, per_node: int) -> tuple[list[int], str, float]:
    """Ranks that did not arrive, why, and how sure; none if the log does not tell."""
    told = sorted(
        {
            rank
            for event in events
            for key, value in event.groups.items()
            if key.startswith("late")
            for rank in _numbers(value)
        }
    )
    if told:
        return told, f"named as the rank{'s' * (len(told) > 1)} that did not arrive", 0.85
    behind = _behind(events)
    if behind:
        return behind, "its last enqueued work is older than the one that the others wait for", 0.75
    waiting = {event.rank for event in events if "seq" in event.groups and event.rank is not None}
    missing = sorted(set(range(world)) - waiting) if world and len(waiting) >= NEARLY_ALL * world else []
    if missing and len(missing) <= max(per_node, 1):
        return missing, "all others say that they wait", 0.55
    return [], "the log does not tell which rank was late", 0.5


def _numbers(value: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", value)][:64]


def _behind(events: list[Event]) -> list[int]:
    """Ranks that had not enqueued what others of the same process group timed out on."""
    waited: dict[int, int] = {}
    enqueued: dict[str, dict[int, int]] = defaultdict(dict)
    for event in events:
        if event.rank is None:
            continue
        if "seq" in event.groups:
            waited.setdefault(event.rank, int(event.groups["seq"]))
        if "enqueued" in event.groups:
            group = _GROUP.search(event.text)
            mine = enqueued[group[1] if group else ""]
            mine[event.rank] = max(mine.get(event.rank, -1), int(event.groups["enqueued"]))
    if not waited:
        return []
    first = min(waited.values())
    late: set[int] = set()
    for told in enqueued.values():
        # Numbers of different process groups have nothing to do with each other.
        if any(rank in waited and last >= first for rank, last in told.items()):
            late |= {rank for rank, last in told.items() if last < first and rank not in waited}
    return sorted(late)
