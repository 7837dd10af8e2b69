"""What `torch.save` writes: a zip archive with a pickle and the tensors' bytes; read without torch.

Source: pytorch 2.13.0, torch/serialization.py (_save): NAME/data.pkl, NAME/data/KEY for each storage, NAME/version.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from outlast.checkpoint import pickles
from outlast.checkpoint.pickles import Record

LARGEST_PICKLE = 1 << 28  # bytes; the tensors are not in it
DEEPEST = 100  # containers in containers

# Storage types of torch, or the dtype that an untyped one is rebuilt with: name, bytes a value.
DTYPES = {
    "DoubleStorage": ("float64", 8),
    "FloatStorage": ("float32", 4),
    "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2),
    "LongStorage": ("int64", 8),
    "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2),
    "CharStorage": ("int8", 1),
    "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1),
}


class ArchiveError(ValueError):
    """It is no whole archive of torch; the message says why."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of an archive: where its values are. `dtype` is empty where outlast does not know it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    key: str
    size: int  # bytes of its storage


@dataclass(frozen=True)
class Archive:
    """An open archive: `content` is what its pickle holds (tensors and objects as Records)."""

    zip: zipfile.ZipFile
    root: str
    content: Any


def open_archive(file: BinaryIO) -> Archive:
    """The archive; its directory is at its end, so one that is cut short is found out.

    Raises: ArchiveError; OSError.
    """
    try:
        archive = zipfile.ZipFile(file)
        inside = next((name for name in archive.namelist() if name.endswith("/data.pkl")), "")
        if not inside:
            raise ArchiveError("a zip archive without data.pkl")
        if archive.getinfo(inside).file_size > LARGEST_PICKLE:
            raise ArchiveError(f"data.pkl has {archive.getinfo(inside).file_size} bytes")
        content = pickles.loads(archive.read(inside))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as err:
        raise ArchiveError(f"no whole archive of torch.save ({err})") from err
    except pickles.PickleError as err:
        raise ArchiveError(f"data.pkl: {err}") from err
    return Archive(archive, inside.removesuffix("data.pkl"), content)


def tensors(archive: Archive) -> Iterator[Tensor]:
    """Each tensor in the archive's content once, with the path to it as its name."""
    yield from _walk(archive.content, "", set(), 0)


def _walk(value: Any, name: str, seen: set[int], depth: int) -> Iterator[Tensor]:
    # Each container once: a pickle can refer to one so often that the paths to it are beyond counting.
    if not isinstance(value, Record | dict | list | tuple) or id(value) in seen or depth > DEEPEST:
        return
    seen.add(id(value))
    if isinstance(value, Record):
        tensor = as_tensor(value, name)
        if tensor is not None:
            yield tensor
            return
        for inner in (value.args, value.fields, value.items):
            yield from _walk(inner, name, seen, depth + 1)
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield from _walk(inner, f"{name}.{key}" if name else str(key), seen, depth + 1)


def as_tensor(record: Any, name: str = "") -> Tensor | None:
    """The tensor that a record rebuilds, None of any other.

    Source: pytorch 2.13.0, torch/_utils.py: _rebuild_tensor_v2(storage, offset, size, stride, …) and
    _rebuild_parameter(data, …); a DTensor holds its local tensor in its state.
    """
    if not isinstance(record, Record) or not record.args:
        return None
    function = pickles.name_of(record).rpartition(".")[2]
    if function.startswith("_rebuild_parameter"):
        return as_tensor(record.args[0], name)
    if not function.startswith("_rebuild_tensor") or len(record.args) < 3:
        return None
    storage, shape = record.args[0], record.args[2]
    if not isinstance(storage, tuple) or len(storage) < 5 or storage[0] != "storage":
        return None
    shape = shape.args[0] if isinstance(shape, Record) and shape.args else shape
    if not isinstance(shape, tuple) or not all(isinstance(side, int) for side in shape):
        return None
    dtype, width = DTYPES.get(pickles.name_of(storage[1]).rpartition(".")[2], ("", 1))
    count = storage[4] if isinstance(storage[4], int) else 0
    return Tensor(name, dtype, shape, str(storage[2]), count * width)


def number(archive: Archive, value: Any) -> float | None:
    """A number of the archive's content: as it is, or the only value of a tensor; None of anything else.

    Raises: ArchiveError; OSError.
    """
    if isinstance(value, int | float):
        return float(value)
    tensor = as_tensor(value)
    code = {"float64": "<d", "float32": "<f", "float16": "<e", "int64": "<q"}.get(tensor.dtype if tensor else "")
    if tensor is None or code is None or tensor.size != struct.calcsize(code):
        return None
    return float(struct.unpack(code, stored(archive, tensor).read(struct.calcsize(code)))[0])


def stored(archive: Archive, tensor: Tensor) -> BinaryIO:
    """The bytes of a tensor's storage, as an open file.

    Raises: ArchiveError: it is not there, or has another size.
    """
    try:
        info = archive.zip.getinfo(f"{archive.root}data/{tensor.key}")
        if info.file_size < tensor.size:
            raise ArchiveError(f"{tensor.name or tensor.key}: {info.file_size} bytes of {tensor.size}")
        return archive.zip.open(info)  # type: ignore[return-value]  # typeshed: IO[bytes]
    except (KeyError, zipfile.BadZipFile) as err:
        raise ArchiveError(f"{tensor.name or tensor.key}: its bytes are missing ({err})") from err
