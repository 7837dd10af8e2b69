"""The header of a safetensors file, which says how long the whole file is.

Source: safetensors 0.8.0, README.md, "Format": 8 bytes with the header's length, JSON, the tensors without holes.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

LARGEST = 100_000_000  # bytes of a header, as the library itself has it

Tensor = tuple[str, str, tuple[int, ...], int, int]  # name, dtype, shape, first byte and the one behind the last


class SafeError(ValueError):
    """No header, or one that does not hold together; the message says why."""


def tensors(file: BinaryIO) -> tuple[list[Tensor], int]:
    """Its tensors as their bytes lie, and the bytes of the whole file; the file is open at its start.

    Raises: SafeError; OSError.
    """
    length = _length(file)
    text = file.read(length)
    if len(text) < length:
        raise SafeError(f"ends within its header of {length} bytes")
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        entries = [_entry(str(name), entry) for name, entry in header.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise SafeError(f"has a damaged header ({err})") from err
    at, start = 0, len(text) + 8
    entries.sort(key=lambda entry: entry[3:])
    for name, _, _, first, last in entries:
        if first != at or last < at:
            raise SafeError(f"has a damaged header: {name} begins at {first}, the tensor before ends at {at}")
        at = last
    return [(*entry[:3], start + entry[3], start + entry[4]) for entry in entries], start + at


def size(file: BinaryIO) -> int:
    """The bytes that the whole file has, as its header says.

    Raises: SafeError; OSError.
    """
    return tensors(file)[1]


def _length(file: BinaryIO) -> int:
    start = file.read(8)
    if len(start) < 8:
        raise SafeError(f"has {len(start)} bytes, less than any header")
    length = int(struct.unpack("<Q", start)[0])
    if length > LARGEST:
        raise SafeError("does not begin with a header")
    return length


def _entry(name: str, entry: dict[str, Any]) -> Tensor:
    first, last = entry["data_offsets"]
    return name, str(entry["dtype"]), tuple(int(side) for side in entry["shape"]), int(first), int(last)
