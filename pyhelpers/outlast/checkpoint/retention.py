"""Which durable checkpoints stay. A pure decision: what is not named as one to remove is not touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

AT_LEAST = 2  # verified ones: the newest may turn out to be poisoned


@dataclass(frozen=True)
class Held:
    """A checkpoint as the decision sees it. `ours`: it has a manifest of ours; `sound`: it was verified.

    `in_use`: being read, copied, or resumed from. `flagged`: written when the loss had gone wrong, so never the best.
    """

    name: str
    step: int
    ours: bool = True
    sound: bool = True
    in_use: bool = False
    pinned: bool = False
    flagged: bool = False
    loss: float | None = None


@dataclass(frozen=True)
class Policy:
    """What to keep: the newest, the best by evaluation loss, and every step that is a multiple of `every` (0: none)."""

    newest: int = 3
    best: int = 1
    every: int = 0


@dataclass(frozen=True)
class Decision:
    """Why each one that stays stays, and those to remove, oldest first."""

    keep: dict[str, tuple[str, ...]]
    remove: tuple[str, ...]


def decide(held: Sequence[Held], policy: Policy) -> Decision:
    """The decision over all checkpoints of a run."""
    ordered = sorted(held, key=lambda one: (one.step, one.name))
    ours = [one for one in ordered if one.ours]
    reasons: dict[str, list[str]] = {one.name: _own(one, policy) for one in ordered}
    # The newest stays, whatever is asked for.
    for one in ours[-max(policy.newest, 1) :]:
        reasons[one.name].append("among the newest")
    for one in _best(ours)[: policy.best]:
        reasons[one.name].append(f"best loss ({one.loss:g})")
    sound = [one for one in reversed(ours) if one.sound]
    # When the newest are all flagged, the two before them are what one goes back to.
    for pool, what in (([one for one in sound if not one.flagged], "well"), (sound, "whole")):
        missing = AT_LEAST - sum(1 for one in pool if reasons[one.name])
        for one in [one for one in pool if not reasons[one.name]][: max(missing, 0)]:
            reasons[one.name].append(f"one of {AT_LEAST} that are known to be {what}")
    remove = tuple(one.name for one in ours if not reasons[one.name])
    return Decision({name: tuple(why) for name, why in reasons.items() if why}, remove)


def _own(one: Held, policy: Policy) -> list[str]:
    """The reasons that a checkpoint has in itself."""
    why = [] if one.ours else ["not ours: no manifest"]
    why += ["pinned"] if one.pinned else []
    why += ["in use"] if one.in_use else []
    why += [f"every {policy.every}"] if policy.every and one.step % policy.every == 0 else []
    return why


def _best(ours: Sequence[Held]) -> list[Held]:
    """Those that can be the best, best first; of two with one loss the newer."""
    fit = [one for one in ours if one.loss is not None and math.isfinite(one.loss) and one.sound and not one.flagged]
    return sorted(fit, key=lambda one: (one.loss or 0.0, -one.step))
