"""A trainer for the lab whose ranks each save a part: step-N/__RANK_0.distcp, then .metadata, as PyTorch's DCP has it.

It resumes as torchtitan does, from the newest step of its own folder that has a .metadata, and reads all parts, as a
launch with other shards would. Ranks that resume from different steps do not meet (outlast.demo.collective). What can
happen between two steps is in outlast.demo.faults; whoever asks for an end gets it, without a save.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from outlast.demo import collective
from outlast.demo.faults import Faults, path_from

METADATA = ".metadata"


class Metadata:
    """torch.distributed.checkpoint.metadata.Metadata, as far as a reader looks at it."""


class MetadataIndex:
    """The same of an entry's name."""


class _StorageInfo:
    """Where an entry lies: torch.distributed.checkpoint.filesystem._StorageInfo."""


_TORCH = {"metadata": (Metadata, MetadataIndex), "filesystem": (_StorageInfo,)}


def metadata(lengths: list[int]) -> bytes:
    """The pickle that torch writes when each rank has saved one entry of so many bytes."""
    root = "torch.distributed.checkpoint"
    for name in ("torch", "torch.distributed", root, *(f"{root}.{module}" for module in _TORCH)):
        sys.modules.setdefault(name, ModuleType(name))  # pickle looks for a class where it says that it is
    for module, classes in _TORCH.items():
        for cls in classes:
            cls.__module__ = f"{root}.{module}"
            setattr(sys.modules[cls.__module__], cls.__name__, cls)
    storage = {}
    for rank, length in enumerate(lengths):
        index = _made(MetadataIndex, fqn=f"model.{rank}", offset=None, index=None)
        storage[index] = _made(_StorageInfo, relative_path=f"__{rank}_0.distcp", offset=0, length=length)
    return pickle.dumps(_made(Metadata, state_dict_metadata={}, planner_data=None, storage_data=storage))


def _made(cls: type, **fields: object) -> Any:
    record = cls()
    record.__dict__.update(fields)
    return record


def part(step: int, rank: int, size: int) -> bytes:
    """What a rank saves at a step."""
    return f"step {step} of rank {rank}\n".encode() + np.random.default_rng((step, rank)).bytes(size)


def save(folder: Path, step: int, place: collective.Place, group: collective.Group, size: int) -> None:
    """All ranks write their parts, then rank 0 says of which the checkpoint consists."""
    into = folder / f"step-{step}"
    into.mkdir(parents=True, exist_ok=True)
    (into / f"__{place.rank}_0.distcp").write_bytes(part(step, place.rank, size))
    group.barrier()
    if place.rank == 0:
        lengths = [len(part(step, rank, size)) for rank in range(place.world)]
        (into / f"{METADATA}.tmp").write_bytes(metadata(lengths))
        (into / f"{METADATA}.tmp").rename(into / METADATA)


def newest(folder: Path) -> int:
    """The newest step that this rank finds; 0: none."""
    found = [int(path.parent.name.removeprefix("step-")) for path in folder.glob(f"step-*/{METADATA}")]
    return max(found, default=0)


def load(folder: Path, step: int, size: int) -> int:
    """How many parts it has. Raises: SystemExit: one is not as it was written; OSError: it can't be read."""
    paths = sorted((folder / f"step-{step}").glob("*.distcp"))
    for path in paths:
        rank = int(path.name.split("_")[2])
        if path.read_bytes() != part(step, rank, size):
            sys.exit(f"ValueError: {path} does not hold what rank {rank} has written")
    return len(paths)


def main() -> None:
    """Train up to --steps, saving each --every."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, default in (("--steps", 100), ("--every", 20), ("--size", 200_000)):
        parser.add_argument(name, type=int, default=default)
    args = parser.parse_args()
    place = collective.place_from(os.environ)
    step = newest(args.folder)
    faults = Faults(path_from(os.environ), place.rank)
    group = collective.meet(place, step, 600)
    parts = load(args.folder, step, args.size) if step else 0
    if place.rank == 0:
        local = os.environ["OUTLAST_RESUME_STEP"], os.environ["OUTLAST_RESUME"]
        print(f"resumed from step {step} with {parts} parts; promised {local}", flush=True)
    resumed = step
    while step < args.steps:
        faults.between_steps(step, step - resumed)
        step += 1
        time.sleep(0.1)
        group.barrier()
        if place.rank == 0:
            print(f"step: {step:2}  loss:  {8 / step:7.5f}", flush=True)
        if step % args.every == 0:
            save(args.folder, step, place, group, args.size)
    group.barrier()


if __name__ == "__main__":
    main()
