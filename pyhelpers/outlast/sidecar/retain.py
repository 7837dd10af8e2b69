"""Takes away the run's checkpoints that need not be kept, while its job runs, as the owner of its lease.

What stays though it is not among the newest is also written into checkpoints/.kept, a name a line: where Python fails
later, lib/retention.sh removes none of these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outlast import ledger, rundir
from outlast.checkpoint import flags, manifest, retention, shelf, trash, used
from outlast.checkpoint.retention import AT_LEAST, Decision, Held, Policy
from outlast.sidecar import disk, publish

KEPT = ".kept"


@dataclass(frozen=True)
class Run:
    """The run's folder and the name of its checkpoints; the job that owns it, and the generation of its lease."""

    path: Path
    prefix: str
    job: str
    generation: str

    @property
    def durable(self) -> Path:
        """Where durable checkpoints lie."""
        return self.path / "checkpoints"


def prune(run: Run, policy: Policy, grace_s: float = 0, reading: Collection[int] = ()) -> list[str]:
    """The names of those that were taken away, oldest first: for the time of grace they can be had back.

    `reading`: steps that the job knows somebody to read.

    Raises: LeaseLostError, OSError.
    """
    publish.check_lease(run.path / "lease", run.generation)
    held = _held(run, policy, reading)
    decision = decided(held, policy, lambda name: _is_sound(run.durable / name))
    aside = sorted(name for name, why in decision.keep.items() if why != ("among the newest",))
    rundir.write(run.durable / KEPT, "".join(f"{name}\n" for name in aside), 0o640)
    for name in decision.remove:
        publish.check_lease(run.path / "lease", run.generation)
        trash.put(run.durable / name, time.time() + grace_s, by_job=True)
    trash.sweep(run.durable, time.time())
    return list(decision.remove)


def make_room(run: Run) -> list[str]:
    """The names of those that waited for the end of their grace, and are gone: the room is needed.

    Raises: LeaseLostError, OSError.
    """
    publish.check_lease(run.path / "lease", run.generation)
    return trash.make_room(run.durable)


def _held(run: Run, policy: Policy, reading: Collection[int]) -> list[Held]:
    found = {}
    for path in run.durable.iterdir():
        step = disk.step_of(path.name, run.prefix)
        if step >= 0 and manifest.paper(path).exists():
            found[path] = step
    if len(found) <= policy.newest:
        return [Held(path.name, step) for path, step in found.items()]  # all of them stay: nothing to look up
    events = ledger.read(run.path / "events.jsonl", *flags.EVENTS, *used.EVENTS)
    history, resumed = flags.turns(events), used.staged(events).get(run.job, -1)
    return [_one(path, step, {*reading, resumed}, history) for path, step in found.items()]


def _one(path: Path, step: int, reading: Collection[int], history: Sequence[flags.Turn]) -> Held:
    try:
        told = manifest.read(path)
    except manifest.ManifestError:
        return Held(path.name, step, ours=False)
    loss = told.loss
    if loss is None:
        entry = shelf.one(path, time.time())
        loss = entry.loss if entry else None
    return Held(
        name=path.name,
        step=step,
        in_use=step in reading,
        pinned=shelf.pin_file(path).exists(),
        flagged=bool(told.flagged or flags.of(step, history)),
        loss=loss,
    )


def decided(held: Sequence[Held], policy: Policy, is_sound: Callable[[str], bool]) -> Decision:
    """The decision; only those that it rests on are asked whether they are sound: that takes a look at each file."""
    known: dict[str, bool] = {}
    while True:
        decision = retention.decide([replace(one, sound=known.get(one.name, True)) for one in held], policy)
        doubt = _doubtful(held, decision, known) if decision.remove else []
        if not doubt:
            return decision
        known |= {name: is_sound(name) for name in doubt}


def _doubtful(held: Sequence[Held], decision: Decision, known: dict[str, bool]) -> list[str]:
    stay = sorted((one for one in held if one.ours and one.name in decision.keep), key=lambda one: -one.step)
    doubt = {one.name for one in stay if any(why.startswith("best") for why in decision.keep[one.name])}
    for pool in ([one for one in stay if not one.flagged], stay):
        fit = [one.name for one in pool if known.get(one.name, True)]
        doubt.update(fit[:AT_LEAST])
    return sorted(doubt - known.keys())


def _is_sound(path: Path) -> bool:
    entry = shelf.one(path, time.time())
    return entry is not None and entry.state == "durable"
