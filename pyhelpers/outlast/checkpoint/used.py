"""Which checkpoints jobs are reading, as far as the ledger tells."""

from __future__ import annotations

from collections.abc import Iterable

from outlast import ledger

EVENTS = ("staged", "launched", "first_step", "progress", "ended", "left")


def staged(events: Iterable[ledger.Event]) -> dict[str, int]:
    """By job, the step that it has put on its nodes and has made no step from since."""
    found: dict[str, int] = {}
    for event in events:
        if event.name in ("staged", "launched"):
            found[event.job] = event.number("step") or 0
        elif event.name in ("first_step", "progress", "ended", "left"):
            found.pop(event.job, None)
    return {job: step for job, step in found.items() if step}
