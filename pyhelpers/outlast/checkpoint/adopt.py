"""Takes a checkpoint that outlast has not written: it gets a manifest, where it is or as a copy in a run."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import outlast
from outlast.checkpoint import hashing, manifest, plain, verify
from outlast.checkpoint.manifest import Item, Manifest, files
from outlast.checkpoint.shelf import Entry, look_into


def named(entry: Entry, prefix: str) -> str:
    """Its name in a run whose checkpoints have this prefix: the trainer looks for that."""
    if not prefix or re.match(re.escape(prefix) + r"[0-9]", entry.name):
        return entry.name
    is_file = entry.path.is_file() or entry.found.snapshot.is_wrapped
    suffix = entry.path.suffix if is_file else ""
    return f"{prefix}{entry.step}{suffix}"


def described(entry: Entry, items: tuple[Item, ...], algorithm: str, run: str, now: float) -> Manifest:
    """The manifest of a checkpoint: what its files tell of it."""
    look, found = look_into(entry.path.parent), entry.found
    return Manifest(
        step=entry.step,
        list=items,
        run=run,
        written=int(now),
        algorithm=algorithm,
        format=found.format.NAME,
        world_size=found.format.world(found.snapshot, look),
        loss=entry.loss,
        flagged=entry.flagged,
        hosts=(os.uname().nodename,),
        versions={"outlast": outlast.__version__},
    )


def in_place(entry: Entry, now: float) -> Manifest:
    """Its manifest, which lies in it now.

    Raises: OSError.
    """
    algorithm = hashing.best()
    told = described(entry, verify.made(entry.path, algorithm), algorithm, "", now)
    manifest.publish(entry.path, told)
    return told


def into(entry: Entry, folder: Path, name: str, run: str, now: float) -> Manifest:
    """The manifest of a copy in the folder, under that name; it appears whole or not at all.

    Raises: FileExistsError: the name is taken; OSError.
    """
    target, part, algorithm = folder / name, folder / f".incoming-{name}", hashing.best()
    if os.path.lexists(target):
        raise FileExistsError(17, "is there already", str(target))
    shutil.rmtree(part, ignore_errors=True)
    try:
        items = tuple(_copied(entry, path, part, name, algorithm) for path, _ in sorted(files(entry.path)))
        told = described(entry, items, algorithm, run, now)
        manifest.publish(part, told)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return told


def _copied(entry: Entry, path: str, part: Path, name: str, algorithm: str) -> Item:
    """A file, copied and hashed in one pass. One that is the whole checkpoint gets its new name."""
    inside = path if entry.path.is_dir() else name
    target = part / inside
    target.parent.mkdir(parents=True, exist_ok=True)
    hasher, size, buffer = hashing.new(algorithm), 0, memoryview(bytearray(hashing.CHUNK))
    with plain.raw(verify.at(entry.path, path)) as source, target.open("xb", buffering=0) as copy:
        while count := source.readinto(buffer):
            hasher.update(buffer[:count])
            left = buffer[:count]
            while left:
                left = left[copy.write(left) :]
            size += count
    return Item(inside, size, hasher.hexdigest())
