"""MANIFEST.json: what a durable checkpoint consists of. Written last, so a checkpoint with one is durable.

lib/checkpoint.sh writes a short one (sizes, no hashes), and reads of any the first line alone: it must hold
`"files":N,"bytes":N` with only numbers between. docs/checkpoints.md has the fields.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from outlast.checkpoint import plain

VERSION = 2
NAME = "MANIFEST.json"
LARGEST = 1 << 29  # bytes; a file takes some 100


class ManifestError(ValueError):
    """No manifest, or none that holds together; the message says why."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the checkpoint; `hash` is empty where none was made."""

    path: str
    bytes: int
    hash: str = ""


@dataclass(frozen=True)
class Manifest:
    """All that is written about a checkpoint; None and empty are unknown."""

    step: int
    list: tuple[Item, ...]
    run: str = ""
    job: str = ""
    restart: int = 0
    attempt: int = 0
    written: int = 0  # UTC seconds since 1970
    algorithm: str = ""  # of the hashes; empty: there are none
    format: str = ""
    world_size: int | None = None  # as its files tell
    ranks: int | None = None  # that its launch had; of torchrun the agents
    loss: float | None = None
    flagged: str = ""  # why it must never be the best: the loss went NaN, or spiked
    hosts: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""  # of the trainer's folder
    dirty: bool | None = None  # were there changes that no commit has?
    parent: str = ""  # the checkpoint that its attempt resumed from

    @property
    def bytes(self) -> int:
        """The bytes of all its files."""
        return sum(item.bytes for item in self.list)


def paper(checkpoint: Path) -> Path:
    """Where the manifest of a checkpoint is: inside a folder, beside a file."""
    if checkpoint.is_dir():
        return checkpoint / NAME
    return checkpoint.with_name(f".{checkpoint.name}.{NAME}")


def read(checkpoint: Path) -> Manifest:
    """The manifest of a checkpoint.

    Raises: ManifestError: torn, or it contradicts itself; FileNotFoundError: it has none; OSError.
    """
    try:
        with plain.opened(paper(checkpoint)) as file:
            content = file.read(LARGEST + 1)
    except plain.NotPlainError as err:
        raise ManifestError(str(err.strerror)) from err
    if len(content) > LARGEST:
        raise ManifestError(f"more than {LARGEST} bytes")
    return parse(content.decode(errors="surrogateescape"))


def parse(text: str) -> Manifest:
    """The manifest that a text is; keys that are not known are left out.

    Raises: ManifestError.
    """
    try:
        raw = json.loads(text)
        items = tuple(_item(entry) for entry in raw["list"])
        manifest = Manifest(step=_whole(raw["step"]), list=items, **_others(raw))
        counts = _whole(raw["files"]), _whole(raw["bytes"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise ManifestError(f"no whole manifest ({type(err).__name__}: {err})") from err
    if counts != (len(items), manifest.bytes):
        raise ManifestError(f"it says {counts[0]} files with {counts[1]} bytes and lists {len(items)}")
    if len({item.path for item in items}) != len(items):
        raise ManifestError("it lists a file twice")
    return manifest


def _item(entry: Mapping[str, Any]) -> Item:
    path = str(entry["path"])
    if not path or path.startswith("/") or ".." in PurePosixPath(path).parts or "\0" in path:
        raise ValueError(f"a path that leads out of it: {path!r}")
    return Item(path, _whole(entry["bytes"]), str(entry.get("hash", "")))


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


_TEXTS = ("run", "job", "algorithm", "format", "flagged", "commit", "parent")


def _others(raw: Mapping[str, Any]) -> dict[str, Any]:
    texts = {key: str(raw[key]) for key in _TEXTS if key in raw}
    counts = {key: _whole(raw[key]) for key in ("restart", "attempt", "written") if key in raw}
    told: dict[str, Any] = {**texts, **counts}
    told["world_size"] = _whole(raw["world_size"]) if raw.get("world_size") is not None else None
    told["ranks"] = _whole(raw["ranks"]) if raw.get("ranks") is not None else None
    told["loss"] = float(raw["loss"]) if raw.get("loss") is not None else None
    told["dirty"] = bool(raw["dirty"]) if raw.get("dirty") is not None else None
    told["hosts"] = tuple(str(host) for host in raw.get("hosts", ()))
    told["versions"] = {str(name): str(version) for name, version in dict(raw.get("versions", {})).items()}
    return told


def render(manifest: Manifest) -> str:
    """The text of a manifest: one line of facts, then a line for each file."""
    items = sorted(manifest.list, key=lambda item: item.path)
    return "".join(lines(manifest, items, len(items), manifest.bytes))


def lines(manifest: Manifest, items: Iterable[Item], count: int, size: int) -> Iterator[str]:
    """The same piece by piece, of so many files in the order of paths, with so many bytes: its own list is left out."""
    head: dict[str, Any] = {"step": manifest.step, "files": count, "bytes": size}
    head |= {"manifest": VERSION, "run": manifest.run, "job": manifest.job}
    head |= {key: getattr(manifest, key) for key in ("restart", "attempt", "ranks", "written", "algorithm", "format")}
    head |= {key: getattr(manifest, key) for key in ("world_size", "loss", "flagged", "hosts", "versions")}
    head |= {key: getattr(manifest, key) for key in ("commit", "dirty", "parent")}
    yield f'{_json(head)[:-1]},\n  "list":[\n'
    between = ""
    for item in items:
        yield f"{between}    {_json(_entry(item))}"
        between = ",\n"
    yield "\n  ]}\n"


def _entry(item: Item) -> dict[str, Any]:
    entry = {"path": item.path, "bytes": item.bytes}
    return {**entry, "hash": item.hash} if item.hash else entry


def _json(value: object) -> str:
    # A file's name may be any bytes; JSON's escapes carry them as Python reads them.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def publish(checkpoint: Path, manifest: Manifest) -> None:
    """Make the checkpoint durable: its files are on disk, then its manifest is, then that has its name.

    Raises: OSError: it is not durable.
    """
    target = paper(checkpoint)
    for path in [*checkpoint.rglob("*"), checkpoint]:
        if plain.is_plain(path) or (path.is_dir() and not path.is_symlink()):
            _sync(path)
    new = target.with_name(f"{target.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(render(manifest))
        file.flush()
        os.fsync(file.fileno())
    new.replace(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def files(checkpoint: Path) -> Iterator[tuple[str, int]]:
    """The files of a checkpoint as a manifest lists them, and their bytes; links, pipes and such are none of them.

    Raises: OSError.
    """
    if not checkpoint.is_dir():
        yield checkpoint.name, checkpoint.stat().st_size
        return
    for folder, _, names in os.walk(checkpoint, onerror=_raise):
        for name in names:
            path = Path(folder) / name
            if name not in (NAME, f"{NAME}.new") and plain.is_plain(path):
                yield str(path.relative_to(checkpoint)), path.stat().st_size


def _raise(err: OSError) -> None:
    raise err
