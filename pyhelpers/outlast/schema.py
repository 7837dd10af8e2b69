"""TOML tables as frozen dataclasses: each key known and typed, or one line that says what is wrong."""

import shlex
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import date
from typing import Any, get_args, get_origin

from outlast.refused import Refused, nearest

Flat = dict[str, object]  # dotted key -> value


@dataclass(frozen=True)
class Key:
    """One key of a file: its type, and what may stand there."""

    type: Any
    default: object
    one_of: tuple[str, ...] = ()
    split: bool = False  # a text stands for a list of words, quoted as in a shell


def words() -> Any:
    """A field for a list of words; in a file it may also be one text, split as a shell would."""
    return field(default=(), metadata={"split": True})


def choice(*names: str) -> Any:
    """A field for one of these names; the first is the default."""
    return field(default=names[0], metadata={"one_of": names})


def _name(field: Any) -> str:
    """The key of a field: `from_`, since `from` is a word of Python's."""
    return str(field.name).rstrip("_")


def keys(cls: Any, prefix: str = "") -> dict[str, Key]:
    """Every dotted key of a dataclass, nested ones included."""
    found: dict[str, Key] = {}
    for f in fields(cls):
        if is_dataclass(f.type):
            found |= keys(f.type, f"{prefix}{_name(f)}.")
        else:
            default = f.default_factory() if f.default_factory is not MISSING else f.default
            found[prefix + _name(f)] = Key(f.type, default, **f.metadata)
    return found


def flat(table: Mapping[str, object], known: Mapping[str, Key], where: str, prefix: str = "") -> Flat:
    """The table with dotted keys, every value checked and of its key's type.

    Raises: Refused: an unknown key (with the nearest one) or a value of another type.
    """
    found: Flat = {}
    for name, value in table.items():
        key = prefix + name
        if key in known:
            found[key] = typed(key, value, known[key], where)
        elif isinstance(value, Mapping) and any(k.startswith(f"{key}.") for k in known):
            found |= flat(value, known, where, f"{key}.")
        else:
            raise Refused(f"{where}: unknown key {key}{nearest(key, list(known))}")
    return found


def typed(key: str, value: object, kind: Key, where: str) -> object:
    """The value as its key wants it: lists become tuples, one text becomes a list where that is allowed.

    Raises: Refused: the value is of another type, negative, or not one of the names allowed.
    """
    if get_origin(kind.type) is tuple and get_args(kind.type)[0] is str:
        return _texts(key, value, kind, where)
    if get_origin(kind.type) is tuple:
        return _records(key, value, get_args(kind.type)[0], where)
    if get_origin(kind.type) is dict:
        return _table(key, value, get_args(kind.type)[1], where)
    if isinstance(value, date) and kind.type is str:
        return value.isoformat()
    if type(value) is not kind.type or (isinstance(value, int) and value < 0):
        raise Refused(f"{where}: {key} is {_NAMES[kind.type]}, not {value!r}")
    if kind.one_of and value not in kind.one_of:
        known = ", ".join(one or "empty" for one in kind.one_of)
        raise Refused(f"{where}: {key} is one of {known}, not {value!r}")
    return value


_NAMES = {str: "a text", int: "a whole number, 0 or more", bool: "true or false"}


def _texts(key: str, value: object, kind: Key, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value)) if kind.split else (value,)
        except ValueError as err:
            raise Refused(f"{where}: {key} has {str(err).lower()}: {value!r}") from err
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise Refused(f"{where}: {key} is a list of texts, not {value!r}")
    return tuple(value)


def _records(key: str, value: object, cls: Any, where: str) -> tuple[object, ...]:
    if not isinstance(value, list) or not all(isinstance(v, Mapping) for v in value):
        raise Refused(f"{where}: {key} is a list of tables, not {value!r}")
    return tuple(record(cls, v, f"{where}: {key}") for v in value)


def _table(key: str, value: object, cls: Any, where: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise Refused(f"{where}: {key} is a table, not {value!r}")
    if is_dataclass(cls):
        return {name: record(cls, v, f"{where}: {key}.{name}") for name, v in value.items()}
    return {name: typed(f"{key}.{name}", v, Key(cls, ""), where) for name, v in value.items()}


def record(cls: Any, table: object, where: str) -> Any:
    """A dataclass from a table, keys without a value at their default.

    Raises: Refused: as flat, or a key without a default is missing.
    """
    if not isinstance(table, Mapping):
        raise Refused(f"{where}: a table is wanted, not {table!r}")
    return build(cls, flat(table, keys(cls), where), where)


def build(cls: Any, values: Flat, where: str, prefix: str = "") -> Any:
    """A dataclass from checked values with dotted keys.

    Raises: Refused: a key without a default is missing.
    """
    made: dict[str, object] = {}
    for f in fields(cls):
        key = prefix + _name(f)
        if is_dataclass(f.type):
            made[f.name] = build(f.type, values, where, f"{key}.")
        elif key in values:
            made[f.name] = values[key]
        elif f.default is MISSING and f.default_factory is MISSING:
            raise Refused(f"{where}: {key} is missing")
    return cls(**made)


def flattened(record: Any, prefix: str = "") -> Flat:
    """The dotted keys and values of a dataclass, in the order of its fields; tables give one key a name."""
    found: Flat = {}
    for f in fields(record):
        value = getattr(record, f.name)
        if is_dataclass(value):
            found |= flattened(value, f"{prefix}{_name(f)}.")
        elif isinstance(value, Mapping):
            found |= {f"{prefix}{_name(f)}.{name}": text for name, text in sorted(value.items())}
        else:
            found[prefix + _name(f)] = value
    return found


def parsed(key: str, text: str, kind: Key, where: str) -> object:
    """The value of a key that was typed as text: `--set KEY=TEXT`.

    Raises: Refused: the text is not a value of that type.
    """
    value: object = text
    if kind.type is int and text.isascii() and text.isdecimal() and len(text) < 19:
        value = int(text)
    elif kind.type is bool and text in ("true", "false"):
        value = text == "true"
    elif text.startswith("[") and get_origin(kind.type) is tuple:
        value = _toml_list(key, text, where)
    return typed(key, value, kind, where)


def _toml_list(key: str, text: str, where: str) -> object:
    import tomllib

    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError as err:
        raise Refused(f'{where}: {key} is a list such as ["a", "b"], not {text!r}') from err
