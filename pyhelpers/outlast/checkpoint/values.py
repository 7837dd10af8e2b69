"""How many values of a tensor are no numbers, counted in bounded memory. Needs NumPy; without it nothing is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

try:
    import numpy
except ImportError:  # a node's own Python
    numpy = None  # type: ignore[assignment]

CHUNK = 16 << 20  # bytes


@dataclass(frozen=True)
class Counts:
    """Values that are NaN, and infinite ones."""

    nan: int = 0
    inf: int = 0


def _floats(values: Any) -> tuple[Any, Any]:
    return numpy.isnan(values), numpy.isinf(values)


def _bits(exponent: int, mantissa: int) -> Callable[[Any], tuple[Any, Any]]:
    """Of a float that NumPy does not know: all bits of the exponent set, and any or none of the rest."""

    def look(values: Any) -> tuple[Any, Any]:
        special = (values & exponent) == exponent
        has_rest = (values & mantissa) != 0
        return special & has_rest, special & ~has_rest

    return look


def _e4m3(values: Any) -> tuple[Any, Any]:
    # float8_e4m3fn has one NaN of each sign and no infinity.
    return (values & 0x7F) == 0x7F, values != values  # all False, of the same shape


_KINDS: dict[str, tuple[str, Callable[[Any], tuple[Any, Any]]]] = {
    "float64": ("<f8", _floats),
    "float32": ("<f4", _floats),
    "float16": ("<f2", _floats),
    "bfloat16": ("<u2", _bits(0x7F80, 0x007F)),
    "float8_e5m2": ("|u1", _bits(0x7C, 0x03)),
    "float8_e4m3fn": ("|u1", _e4m3),
}
WHOLE = frozenset("int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split())


def count(file: BinaryIO, dtype: str, size: int) -> Counts | None:
    """The counts of the next `size` bytes; None: nobody here can count this dtype.

    Raises: EOFError: the file ends before; OSError.
    """
    if dtype not in WHOLE and (numpy is None or dtype not in _KINDS):
        return None
    nan = inf = 0
    while size > 0:
        chunk = file.read(min(CHUNK, size))
        if not chunk:
            raise EOFError(f"{size} bytes are missing at its end")
        size -= len(chunk)
        if dtype in _KINDS:
            # Reads of a zip entry may end within a value.
            code, look = _KINDS[dtype]
            width = numpy.dtype(code).itemsize
            rest = -len(chunk) % width
            if rest:
                more = file.read(min(rest, size))
                size -= len(more)
                chunk += more
            nans, infs = look(numpy.frombuffer(chunk, code))
            nan, inf = nan + int(nans.sum()), inf + int(infs.sum())
    return Counts(nan, inf)
