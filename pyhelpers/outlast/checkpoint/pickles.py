"""Pickles read without running them: every class and function in them becomes an inert record.

A pickle is a program, and a checkpoint may be another person's. Here nothing is imported and nothing is called:
what a pickle names is only noted. So neither torch nor the trainer's own classes are needed, either.
"""

from __future__ import annotations

import gc
import io
import pickle
from typing import Any, BinaryIO


class _Dict(dict[Any, Any]):
    """An OrderedDict: unlike a plain dict it can be given attributes, and torch gives it `_metadata`."""


# Plain containers, harmless to build; everything else that is named becomes a Record.
_CONTAINERS: dict[str, type] = {
    "collections.OrderedDict": _Dict,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    # as protocol 2 writes them, which torch.save takes
    "__builtin__.set": set,
    "__builtin__.frozenset": frozenset,
}


class PickleError(ValueError):
    """It is no whole pickle; the message says why."""


_NOTHING: list[Any] = []  # never appended to


class Record:
    """An object of a pickle: the name of its class or function, what that was called with, and its state."""

    # A large run's metadata has millions of them.
    __slots__ = ("args", "fields", "items")
    NAME = ""

    args: tuple[Any, ...]
    fields: dict[Any, Any]
    items: list[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Record:
        record = object.__new__(cls)
        record.args, record.fields, record.items = args, kwargs, _NOTHING
        return record

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        """Nothing more: __new__ is called in every way that a pickle makes an object."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict) and state[0] is None:
            state = state[1]  # a class with __slots__
        if isinstance(state, dict):
            self.fields = {**self.fields, **state} if self.fields else state
        else:
            self.fields["state"] = state

    def __setitem__(self, key: Any, value: Any) -> None:  # a subclass of dict
        self.fields[key] = value

    def append(self, value: Any) -> None:
        """Of a subclass of list."""
        self.extend([value])

    def extend(self, values: Any) -> None:
        """Of a subclass of list."""
        if self.items is _NOTHING:
            self.items = []
        self.items.extend(values)

    def get(self, key: Any, default: Any = None) -> Any:
        """A field, or the default."""
        return self.fields.get(key, default)


class Named(type):
    """What a pickle names, before it is called: `torch.float32` is never called at all."""

    NAME: str

    def __repr__(cls) -> str:
        return f"<{cls.NAME}>"


class _Reader(pickle.Unpickler):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.known: dict[str, type] = {}

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in _CONTAINERS:
            return _CONTAINERS[full]
        return self.known.setdefault(full, Named("Named", (Record,), {"NAME": full, "__slots__": ()}))

    def persistent_load(self, pid: Any) -> Any:
        """The storage of a tensor: torch writes ('storage', type, key, location, count)."""
        return pid


def read(file: BinaryIO) -> Any:
    """The first object of the pickle.

    Raises: PickleError: cut short, or none at all; OSError.
    """
    # Millions of new objects, none of them garbage: looking for it among them takes most of the time.
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _Reader(file).load()
    except OSError:
        raise
    # A pickle is a program: whatever goes wrong inside, from a stack that is empty to a key that can't be one.
    except (Exception, MemoryError, RecursionError) as err:
        raise PickleError(f"no whole pickle ({type(err).__name__}: {err})") from err
    finally:
        if was_on:
            gc.enable()


def loads(content: bytes) -> Any:
    """The object of a pickle in memory. Raises: PickleError."""
    return read(io.BytesIO(content))


def name_of(value: Any) -> str:
    """`torch.float32` of what a pickle names or of an object of it; empty of anything else."""
    return str(getattr(value, "NAME", ""))
