"""What lies in a folder of checkpoints on each host: names, sizes and times, without a byte of content.

One host's agent makes a listing of its folder, and the coordinator judges over all of them (format.py).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = ("MANIFEST.json", "MANIFEST.json.new")  # outlast's own


@dataclass(frozen=True, slots=True)
class File:
    """A file as one host has it. `path` is relative to the folder of checkpoints; an empty folder's ends with /."""

    path: str
    size: int
    mtime: float  # UTC seconds since 1970
    is_link: bool = False


Listing = Mapping[str, tuple[File, ...]]  # by host


@dataclass(frozen=True)
class Snapshot:
    """One entry of the folder over all hosts: a folder (`checkpoint-600`) or a file (`step-600.ckpt`).

    `files` are by path inside it (of an entry that is a file: its own name), then by host. `beside` are the plain
    files of the folder around it, such as `latest`.
    """

    name: str
    files: Mapping[str, Mapping[str, File]]
    beside: Mapping[str, Mapping[str, File]]
    is_file: bool = False
    is_wrapped: bool = False  # a file that lies in a folder of its name, as durable ones do
    newest: float | None = None  # what changed() says, where it is known
    inside: Collection[str] | None = None  # what paths() says, where it is known

    def paths(self) -> Collection[str]:
        """The files inside, sorted, each once."""
        if self.inside is not None:
            return self.inside
        return sorted(path for path in self.files if not path.endswith("/"))

    def path_of(self, inside: str) -> str:
        """A path inside as a path from the folder of checkpoints."""
        return inside if self.is_file and not self.is_wrapped else f"{self.name}/{inside}"

    def changed(self) -> float:
        """When a file of it last changed on any host; 0 where there is none."""
        if self.newest is not None:
            return self.newest
        return max((file.mtime for hosts in self.files.values() for file in hosts.values()), default=0.0)

    def sizes(self, inside: str) -> set[int]:
        """The sizes of a file on those hosts that have it."""
        return {file.size for file in self.files.get(inside, {}).values() if not file.is_link}

    def hosts(self) -> list[str]:
        """Who holds a part of it, sorted."""
        return sorted({host for hosts in self.files.values() for host in hosts})


def scan(folder: Path, top: str = "") -> tuple[File, ...]:
    """All files below the folder, by path; links are named and not followed, what vanishes meanwhile is left out.

    So are pipes and the like. Folders in it without a number in their name are no checkpoints and not looked into:
    somebody's home may be large. With `top` nothing is but that one entry, and plain files beside it (`latest`, say).
    Raises: OSError: the folder itself can't be read.
    """
    if top:
        names = [entry.name for entry in os.scandir(folder) if entry.name == top or _is_beside(entry)]
    else:
        names = [name for name in os.listdir(folder) if _may_be_one(folder, name)]
    return tuple(sorted(_below(folder, "", names), key=lambda file: file.path))


def _may_be_one(folder: Path, name: str) -> bool:
    # What begins with a dot is outlast's own: copies under way, trash, notes.
    return not name.startswith(".") and (re.search("[0-9]", name) is not None or not (folder / name).is_dir())


def _is_beside(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)


def _below(folder: Path, prefix: str, names: list[str]) -> Iterator[File]:
    is_empty = True
    for name in names:
        if name in LEFT_OUT:
            continue
        is_empty = False
        path = folder / name
        try:
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                yield from _below(path, f"{prefix}{name}/", os.listdir(path))
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                yield File(prefix + name, status.st_size, status.st_mtime, stat.S_ISLNK(status.st_mode))
        except FileNotFoundError:
            continue
    if is_empty and prefix:
        yield File(prefix, 0, folder.stat().st_mtime)


def snapshots(listing: Listing) -> list[Snapshot]:
    """The entries of the folder, by name; each may be a checkpoint or not."""
    inside: dict[str, dict[str, dict[str, File]]] = {}
    beside: dict[str, dict[str, File]] = {}
    for host, files in listing.items():
        for file in files:
            top, slash, rest = file.path.partition("/")
            if slash:
                inside.setdefault(top, {}).setdefault(rest or "/", {})[host] = file
            else:
                beside.setdefault(top, {})[host] = file
    alone = {name for name, files in inside.items() if set(files) == {name}}
    folders = [Snapshot(name, files, beside, name in alone, name in alone) for name, files in inside.items()]
    plain = [Snapshot(name, {name: hosts}, beside, is_file=True) for name, hosts in beside.items()]
    return sorted(folders + plain, key=lambda snapshot: snapshot.name)
