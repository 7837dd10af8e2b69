"""Checkpoints of PyTorch Lightning: one NAME.ckpt, a file, or a folder of a sharded strategy.

Source: pytorch-lightning 2.6.6, trainer/connectors/checkpoint_connector.py (dump_checkpoint: epoch, global_step,
state_dict, loops, optimizer_states, lr_schedulers, callbacks), lightning_fabric/utilities/cloud_io.py (_atomic_save
writes elsewhere and moves: across file systems a move is a copy, which can be cut short), strategies/fsdp.py and
model_parallel.py: a folder is a distributed checkpoint, and rank 0 writes meta.pt behind it.
"""

from __future__ import annotations

import re
from typing import Any

from outlast.checkpoint import dcp, torchzip
from outlast.checkpoint import format as forms
from outlast.checkpoint.format import Look, Need, Reshard, Resume, Scene, Wanted
from outlast.checkpoint.listing import Snapshot

NAME = "lightning"
META = "meta.pt"
_STEP = re.compile(r"(?:.*[^A-Za-z])?step[-_=]?([0-9]+)(?:[^0-9].*)?")
_DEEPSPEED = "checkpoint/"  # its strategy writes one of DeepSpeed, under the tag `checkpoint`


def step(snapshot: Snapshot) -> int | None:
    """The number behind `step` in the name (step=40.ckpt, epoch=1-step=40.ckpt); None of last.ckpt."""
    found = _STEP.fullmatch(snapshot.name.removesuffix(".ckpt")) if snapshot.name.endswith(".ckpt") else None
    return int(found[1]) if found else None


def fits(snapshot: Snapshot) -> bool:
    """Is it called *.ckpt, or has it the meta.pt of a sharded one?"""
    return snapshot.name.endswith(".ckpt") or (META in snapshot.files and dcp.METADATA in snapshot.files)


def wanted(snapshot: Snapshot, look: Look, scene: Scene) -> Wanted:
    """One whole archive; or the parts that .metadata names, and meta.pt behind them."""
    if not snapshot.is_file:
        return _sharded(snapshot, look)
    files = {snapshot.name: Need("rank 0", at_least=1)}
    try:
        with look(_main(snapshot)) as file:
            torchzip.open_archive(file)
    except torchzip.ArchiveError as err:
        return Wanted(files, late=str(err))  # it may be on its way
    except OSError:
        return Wanted(files, quiet=True)
    return Wanted(files)


def _sharded(snapshot: Snapshot, look: Look) -> Wanted:
    if any(path.startswith(_DEEPSPEED) for path in snapshot.paths()):
        return Wanted({"latest": Need("rank 0")}, quiet=True)
    if dcp.METADATA not in snapshot.files:
        return Wanted({dcp.METADATA: Need("rank 0"), META: Need("rank 0")})
    parts = dcp.parts(look, snapshot.name)
    return Wanted({**parts.files, META: Need("rank 0", at_least=1)}, doubt=parts.doubt, lost=parts.lost)


def loss(snapshot: Snapshot, look: Look) -> float | None:
    """The score of a ModelCheckpoint that watches a loss, as it stood when this one was written."""
    try:
        with look(_main(snapshot)) as file:
            archive = torchzip.open_archive(file)
            for name, state in _callbacks(archive.content).items():
                monitor = state.get("monitor") if isinstance(state, dict) else None
                if "ModelCheckpoint" in str(name) and isinstance(monitor, str) and "loss" in monitor:
                    if monitor.startswith("train"):
                        continue
                    return forms.number(torchzip.number(archive, state.get("current_score")))
    except (OSError, torchzip.ArchiveError):
        pass
    return None


def _callbacks(content: Any) -> dict[Any, Any]:
    callbacks = content.get("callbacks") if isinstance(content, dict) else None
    return callbacks if isinstance(callbacks, dict) else {}


def _main(snapshot: Snapshot) -> str:
    """The file that holds all but the tensors."""
    return snapshot.path_of(snapshot.name if snapshot.is_file else META)


def world(snapshot: Snapshot, look: Look) -> int | None:
    """Of a sharded one the highest rank that wrote a part; one file does not tell."""
    return None if snapshot.is_file else dcp.world(snapshot, look)


def resume(snapshot: Snapshot) -> Resume:
    """trainer.fit(ckpt_path=PATH)."""
    return Resume("path", snapshot.name)


def reshard(snapshot: Snapshot, look: Look) -> Reshard:
    """One file holds all; a distributed checkpoint can; DeepSpeed's can't."""
    if any(path.startswith(_DEEPSPEED) for path in snapshot.paths()):
        return Reshard("no", "DeepSpeed's ZeRO files are cut for their number of ranks")
    return Reshard("yes", "one file for all ranks" if snapshot.is_file else "a distributed checkpoint")


_NEEDS = {"optimizer": "optimizer_states", "schedule": "lr_schedulers", "data position": "loops"}


def lacks(snapshot: Snapshot, look: Look, scene: Scene) -> list[str]:
    """Of what dump_checkpoint writes, what is not there; Lightning saves no random state by itself."""
    try:
        with look(_main(snapshot)) as file:
            content = torchzip.open_archive(file).content
    except (OSError, torchzip.ArchiveError) as err:
        return [f"{_main(snapshot)} cannot be read ({err}), so nothing is known"]
    keys = {str(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    has = {kind: bool(keys.get(key)) for kind, key in _NEEDS.items()}
    has["optimizer"] = has["optimizer"] or not snapshot.is_file  # a sharded one has it among its parts
    lack = [f"{kind}: {_NEEDS[kind]} is empty or missing" for kind, there in has.items() if not there]
    if not any("rng" in key.lower() for key in keys):
        lack.append("RNG: Lightning saves none; add it in on_save_checkpoint, under a key with `rng` in it")
    return lack
