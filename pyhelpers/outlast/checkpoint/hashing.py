"""Hashes of files: xxh3_128 where the xxhash wheel is there, else the standard library's blake2b.

A manifest names its algorithm, so both are read everywhere; without the wheel xxh3_128 is *unknown*, never wrong.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from outlast.checkpoint import plain

try:
    import xxhash
except ImportError:  # a node's own Python
    xxhash = None  # type: ignore[assignment]

CHUNK = 1 << 20  # bytes: all that a file takes of memory, and what stays in a core's cache


class Hasher(Protocol):
    """A hash that takes bytes as they pass."""

    def update(self, data: memoryview, /) -> object:
        """Take these bytes, too."""
        ...

    def hexdigest(self) -> str:
        """The hash of all that passed."""
        ...


class HashError(ValueError):
    """An algorithm that is not here."""


def _xxh3() -> Hasher:
    if xxhash is None:
        raise HashError("xxh3_128 needs the package xxhash, which this Python lacks")
    return xxhash.xxh3_128()


_ALGORITHMS: dict[str, Callable[[], Hasher]] = {
    "xxh3_128": _xxh3,
    "blake2b": lambda: hashlib.blake2b(digest_size=32),
}


def best() -> str:
    """The fastest algorithm that this Python has."""
    return "blake2b" if xxhash is None else "xxh3_128"


def new(algorithm: str) -> Hasher:
    """A hasher. Raises: HashError: this Python has none of that name."""
    if algorithm not in _ALGORITHMS:
        raise HashError(f"no hash is called {algorithm}")
    return _ALGORITHMS[algorithm]()


def of_file(path: Path, algorithm: str) -> tuple[int, str]:
    """The bytes of a file and their hash.

    Raises: HashError; OSError.
    """
    hasher, size = new(algorithm), 0
    buffer = memoryview(mmap.mmap(-1, CHUNK))  # whole pages: to anywhere else the kernel copies at half the speed
    with plain.raw(path) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
            size += count
    return size, hasher.hexdigest()
