"""Does a durable checkpoint still consist of what its manifest says?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from outlast.checkpoint import hashing
from outlast.checkpoint.manifest import Item, Manifest, files

A = TypeVar("A")
B = TypeVar("B")

# A hash keeps a core busy only on the fastest file systems; most of the time is a wait for the disk.
THREADS = 4


@dataclass(frozen=True)
class Report:
    """What is wrong, in words (nothing: it is whole), and how thorough the look was: `sizes` or `hashes`."""

    problems: tuple[str, ...]
    depth: str
    files: int
    bytes: int


def verify(checkpoint: Path, manifest: Manifest, threads: int = 0) -> Report:
    """The report on a checkpoint: sizes, and hashes where its manifest has them. Memory: 4 MiB a thread.

    Raises: OSError: the folder can't be read; a file that can't be is a problem of the report.
    """
    problems = sizes(checkpoint, manifest)
    depth = "sizes"
    if manifest.algorithm and not problems:
        try:
            hashing.new(manifest.algorithm)
        except hashing.HashError as err:
            return Report((), f"sizes ({err})", len(manifest.list), manifest.bytes)
        problems, depth = _hashes(checkpoint, manifest, threads), "hashes"
    return Report(tuple(problems), depth, len(manifest.list), manifest.bytes)


def sizes(checkpoint: Path, manifest: Manifest) -> list[str]:
    """What is missing, of another size, or too much.

    Raises: OSError.
    """
    there, wanted = dict(files(checkpoint)), {item.path: item.bytes for item in manifest.list}
    problems = [f"{path} is missing" for path in sorted(wanted.keys() - there.keys())]
    problems += [f"{path} is not in the manifest" for path in sorted(there.keys() - wanted.keys())]
    both = sorted(path for path in wanted.keys() & there.keys() if wanted[path] != there[path])
    return problems + [f"{path} has {there[path]} bytes, the manifest says {wanted[path]}" for path in both]


def step(manifest: Manifest, named: int) -> list[str]:
    """What is wrong with its step, where the checkpoint's name says another one: who resumes goes by that."""
    return [] if manifest.step == named else [f"its manifest says step {manifest.step}, its name says {named}"]


def _hashes(checkpoint: Path, manifest: Manifest, threads: int) -> list[str]:
    def problem(item: Item) -> str:
        if not item.hash:
            return ""
        try:
            _, found = hashing.of_file(at(checkpoint, item.path), manifest.algorithm)
        except OSError as err:
            return f"{item.path} cannot be read: {err.strerror}"
        return "" if found == item.hash else f"{item.path} has changed: its hash is another"

    return [line for line in spread(problem, manifest.list, threads) if line]


def made(checkpoint: Path, algorithm: str, threads: int = 0) -> tuple[Item, ...]:
    """The files of a checkpoint with their hashes, by path.

    Raises: HashError; OSError.
    """

    def item(path: str) -> Item:
        size, digest = hashing.of_file(at(checkpoint, path), algorithm)
        return Item(path, size, digest)

    return tuple(spread(item, sorted(path for path, _ in files(checkpoint)), threads))


def spread(work: Callable[[A], B], items: Iterable[A], threads: int = 0) -> list[B]:
    """The results in order, worked out by several threads; 0: as many as the machine has cores, 4 at most."""
    count = threads or min(THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, items))


def at(checkpoint: Path, path: str) -> Path:
    """Where a file of the manifest is: inside a folder; a checkpoint that is a file is its only one."""
    return checkpoint / path if checkpoint.is_dir() else checkpoint
