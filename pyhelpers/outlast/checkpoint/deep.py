"""A look into the files of a checkpoint: are they whole, which tensors are in them, are all values numbers?

Nothing of them is executed, and memory stays bounded however large they are. safetensors, torch.save's archives, and
the parts of a distributed checkpoint (each entry of a part is such an archive) are opened; other files are not.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from outlast.checkpoint import dcp, plain, safe, torchzip, values
from outlast.checkpoint.manifest import files
from outlast.checkpoint.verify import at

# Source: safetensors 0.8.0, safetensors/src/tensor.rs (Dtype): name, bytes a value.
_SAFE = {
    **{"F64": ("float64", 8), "F32": ("float32", 4), "F16": ("float16", 2), "BF16": ("bfloat16", 2)},
    **{"I64": ("int64", 8), "I32": ("int32", 4), "I16": ("int16", 2), "I8": ("int8", 1), "BOOL": ("bool", 1)},
    **{"U64": ("uint64", 8), "U32": ("uint32", 4), "U16": ("uint16", 2), "U8": ("uint8", 1)},
    **{"F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1)},
}
_ARCHIVES = (".pt", ".pth", ".bin", ".ckpt")


MOST_SHAPES = 10_000  # the first ones; how many there are is always counted


class FileError(ValueError):
    """A file that is not what its name says; the message says why."""


@dataclass
class Look:
    """What was found. `problems` are files that are not whole, `bad` tensors with NaN or infinite values."""

    opened: int = 0
    skipped: list[str] = field(default_factory=list)  # files that nobody here can open
    uncounted: int = 0  # tensors whose values could not be looked at
    tensors: int = 0
    numbers: int = 0
    dtypes: Counter[str] = field(default_factory=Counter)  # values of each
    problems: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    shapes: list[tuple[str, str, str, tuple[int, ...]]] = field(default_factory=list)  # file, name, dtype, shape

    def take(self, file: str, name: str, dtype: str, shape: tuple[int, ...], counts: values.Counts | None) -> None:
        """Note a tensor."""
        size = 1
        for side in shape:
            size *= side
        self.tensors += 1
        if len(self.shapes) < MOST_SHAPES:
            self.shapes.append((file, name, dtype or "unknown", shape))
        self.numbers += size
        self.dtypes[dtype or "unknown"] += size
        if counts is None:
            self.uncounted += 1
        elif counts.nan or counts.inf:
            self.bad.append(
                f"{file}: {name or 'a tensor'} has {counts.nan} NaN and {counts.inf} infinite of {size} values"
            )


def look(checkpoint: Path) -> Look:
    """All of a checkpoint.

    Raises: OSError: its folder can't be read.
    """
    found = Look()
    paths = sorted(path for path, _ in files(checkpoint))
    slices = _slices(checkpoint, paths, found)
    for path in (path for path in paths if not _is_metadata(path)):
        try:
            with plain.opened(at(checkpoint, path)) as file:
                _file(found, path, file, slices.get(path))
        except (FileError, safe.SafeError, torchzip.ArchiveError, EOFError) as err:
            found.problems.append(f"{path}: {err}")
        except OSError as err:
            found.problems.append(f"{path} cannot be read: {err.strerror}")
    return found


def _slices(checkpoint: Path, paths: list[str], found: Look) -> dict[str, list[tuple[str, dcp.Slice]]]:
    """What each .metadata says of the parts beside it: the entries in a part."""
    by_part: dict[str, list[tuple[str, dcp.Slice]]] = {}
    for path in (path for path in paths if _is_metadata(path)):
        try:
            told = dcp.metadata(lambda inside: plain.opened(at(checkpoint, inside)), path)
        except (dcp.MetadataError, OSError) as err:
            found.problems.append(f"{path}: {err}")
            continue
        found.opened += 1
        folder = path.rpartition("/")[0]
        for name, slices in told.slices.items():
            for one in slices:
                by_part.setdefault(f"{folder}/{one.part}" if folder else one.part, []).append((name, one))
    return by_part


def _is_metadata(path: str) -> bool:
    return path.rpartition("/")[2].endswith(dcp.METADATA)


def _file(found: Look, path: str, file: BinaryIO, slices: list[tuple[str, dcp.Slice]] | None) -> None:
    if slices is not None:
        for name, one in sorted(slices, key=lambda pair: pair[1].offset):
            _archive(found, path, cast(BinaryIO, Window(file, one.offset, one.length)), name)
    elif path.endswith(".safetensors"):
        _safetensors(found, path, file)
    elif path.endswith(_ARCHIVES):
        _archive(found, path, file)
    elif path.endswith(".json"):
        _json(file)
    else:
        found.skipped.append(path)
        return
    found.opened += 1


def _json(file: BinaryIO) -> None:
    try:
        json.load(file)
    except (ValueError, RecursionError) as err:
        raise FileError(f"no whole JSON ({err})") from err


def _archive(found: Look, path: str, file: BinaryIO, name: str = "") -> None:
    archive = torchzip.open_archive(file)
    for tensor in torchzip.tensors(archive):
        label = ".".join(filter(None, (name, tensor.name)))
        with torchzip.stored(archive, tensor) as stored:
            try:
                counts = values.count(stored, tensor.dtype, tensor.size)
            except Exception as err:  # zipfile raises what it likes where bytes are damaged
                raise FileError(f"{label}: {err}") from err
        found.take(path, label, tensor.dtype, tensor.shape, counts)


def _safetensors(found: Look, path: str, file: BinaryIO) -> None:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    tensors, told = safe.tensors(file)
    if told != size:
        raise FileError(f"has {size} bytes, its header says {told}")
    for name, dtype, shape, start, end in tensors:
        file.seek(start)
        kind, width = _SAFE.get(dtype, (dtype, 0))
        count = 1
        for side in shape:
            count *= side
        if width and count * width != end - start:
            raise FileError(f"{name}: {end - start} bytes for {count} values of {dtype}")
        found.take(path, name, kind, shape, values.count(file, kind, end - start))


class Window(io.RawIOBase):
    """Some bytes in the middle of a file, as a file."""

    def __init__(self, file: BinaryIO, start: int, length: int) -> None:
        self.file, self.start, self.length, self.at = file, start, length, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go there; before the first byte is an error, as zipfile expects of a file that is too short."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.length}[whence]
        if base + offset < 0:
            raise OSError("before the beginning")
        self.at = base + offset
        return self.at

    def tell(self) -> int:
        """Where we are."""
        return self.at

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; bytes read, 0 at the end."""
        view = memoryview(buffer)[: max(0, self.length - self.at)]
        self.file.seek(self.start + self.at)
        data = self.file.read(len(view))
        view[: len(data)] = data
        self.at += len(data)
        return len(data)
