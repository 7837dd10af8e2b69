"""The formats there are, and which of them a checkpoint has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from outlast.checkpoint import dcp, deepspeed, generic, hf, lightning, megatron
from outlast.checkpoint import format as forms
from outlast.checkpoint.format import Format, Look, Scene, Verdict
from outlast.checkpoint.listing import Listing, Snapshot, snapshots

# In this order: what has the more particular files comes first.
FORMATS: tuple[Format, ...] = (megatron, lightning, dcp, deepspeed, hf, generic)


@dataclass(frozen=True)
class Found:
    """A checkpoint by its name: its step, and the format that its files show."""

    step: int
    format: Format
    snapshot: Snapshot


def find(listing: Listing, prefix: str = "") -> list[Found]:
    """The checkpoints of a folder, by step. With a prefix, as a job has one, nothing else is taken for one."""
    found = [checkpoint for snapshot in snapshots(listing) if (checkpoint := of(snapshot, prefix))]
    return sorted(found, key=lambda checkpoint: (checkpoint.step, checkpoint.snapshot.name))


def of(snapshot: Snapshot, prefix: str = "") -> Found | None:
    """The checkpoint that this entry is, None of any other."""
    form: Format = next(form for form in FORMATS if form.fits(snapshot))
    step = _step(snapshot, form, prefix)
    return None if step is None else Found(step, form, snapshot)


def _step(snapshot: Snapshot, form: Format, prefix: str) -> int | None:
    if prefix:
        rest = snapshot.name.removeprefix(prefix) if snapshot.name.startswith(prefix) else ""
        number = re.match(r"[0-9]+", rest)
        return int(number[0]) if number else None
    told = form.step(snapshot)
    return told if told is not None else generic.step(snapshot)


def in_scene(found: Iterable[Found], look: Look, scene: Scene) -> Scene:
    """The scene with the number of ranks that these checkpoints of one run show, if it has none."""
    if scene.world is not None:
        return scene
    worlds = [one.format.world(one.snapshot, look) for one in found]
    return replace(scene, world=max((world for world in worlds if world), default=None))


def judge(found: Found, look: Look, scene: Scene) -> Verdict:
    """Is it complete over all nodes, being written, or torn?"""
    return forms.judge(found.format.wanted(found.snapshot, look, scene), found.snapshot, scene)
