"""Checkpoints that were written after the loss had gone wrong: kept or not like others, and never the best.

Whoever watches the loss writes two events into the run's ledger (docs/checkpoints.md, "Flagged"): `loss_bad` with the
step from which on it is wrong and why, and `loss_good` with the step from which on it is well again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from outlast import ledger

EVENTS = ("loss_bad", "loss_good", "launched")


@dataclass(frozen=True)
class Turn:
    """From this step on the loss is wrong, because `why`; empty: it is well."""

    step: int
    why: str


def turns(events: Iterable[ledger.Event]) -> tuple[Turn, ...]:
    """How the loss went, in order of steps. A launch undoes what was seen beyond its step."""
    found: list[Turn] = []
    for event in events:
        step = event.number("step")
        if step is None:
            continue
        if event.name == "launched":
            found = [turn for turn in found if turn.step <= step]
        elif event.name in ("loss_bad", "loss_good"):
            bad = event.name == "loss_bad"
            found.append(Turn(step, (event.text("why") or "no reason given") if bad else ""))
    return tuple(sorted(found, key=lambda turn: turn.step))


def of(step: int, history: Iterable[Turn]) -> str:
    """Why a checkpoint of this step is flagged; empty: it is not."""
    last = [turn for turn in history if turn.step <= step][-1:]
    return last[0].why if last else ""
