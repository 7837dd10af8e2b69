"""What every checkpoint format answers (Format), and the judgement that follows from it alike for all.

Everything here is a pure function over a listing of all hosts, but for a look into small files of metadata (Look).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, Protocol

from outlast.checkpoint.listing import Snapshot

State = Literal["complete", "writing", "torn", "unknown"]
Writer = Literal["running", "done", "gone", "unknown"]  # done: its ranks ended with 0; gone: in another way
Answer = Literal["yes", "no", "unknown"]
LARGEST_JSON = 1 << 26


class Look(Protocol):
    """Opens a file of the folder of checkpoints, on whichever host has it."""

    def __call__(self, path: str, /) -> BinaryIO:
        """The file, open at its start; seekable.

        Raises: OSError: it is not there, or not within reach.
        """
        ...


def blind(path: str) -> BinaryIO:
    """The look of one who has only listings."""
    raise FileNotFoundError(f"{path}: not within reach")


@dataclass(frozen=True)
class Scene:
    """What is known around a checkpoint. `quiet_s`: unchanged for so long, a file is not being written.

    `marker` is the last file of a checkpoint as the job names it (checkpoint.complete), on top of the format's own.
    `hosts` are those of the launch, in the order of ranks; empty: not known.
    """

    now: float
    quiet_s: float = 60.0
    writer: Writer = "unknown"
    ended: float = 0.0  # when the writer's ranks ended; with writer "gone"
    world: int | None = None
    marker: str = ""
    hosts: tuple[str, ...] = ()
    ranks_per_node: int = 1


@dataclass(frozen=True, slots=True)
class Need:
    """A file that belongs to a checkpoint: whose it is (`rank 3`, `node 0`; empty: not known), and its size."""

    owner: str = ""
    size: int | None = None  # bytes, where the metadata says them
    at_least: int = 0

    def fits(self, sizes: set[int]) -> bool:
        """Is one of these copies long enough?"""
        return any(size == self.size if self.size is not None else size >= self.at_least for size in sizes)


@dataclass(frozen=True)
class Wanted:
    """The files that a checkpoint must have, by path inside it.

    `quiet`: nobody writes a last file, or not the last of all ranks, so it must be at rest too. `doubt`: why the
    list may not be all; empty where it is. `late`: what else is not there yet. `lost`: why it can never be whole.
    `all_nodes`: only the nodes themselves can tell what there is, so whoever judges must have seen them all.
    """

    files: Mapping[str, Need] = field(default_factory=dict)
    quiet: bool = False
    doubt: str = ""
    late: str = ""
    lost: str = ""
    all_nodes: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a checkpoint is over all nodes, and why, in words; `missing` are files with whose they are."""

    state: State
    reason: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resume:
    """How a trainer finds it: its `path` on the command line, a file `latest` that names it, or by its own search."""

    how: Literal["path", "latest", "own"]
    what: str  # the path from the folder of checkpoints, or the file and what it must hold


@dataclass(frozen=True)
class Reshard:
    """Can it be loaded by another number of ranks?"""

    can: Answer
    why: str


class Format(Protocol):
    """One format; each is a module of functions."""

    NAME: str

    def step(self, snapshot: Snapshot) -> int | None:
        """The step that its name says; None: it is no checkpoint by its name."""
        ...

    def fits(self, snapshot: Snapshot) -> bool:
        """Are there files that only this format has?"""
        ...

    def wanted(self, snapshot: Snapshot, look: Look, scene: Scene) -> Wanted:
        """The files that it must have."""
        ...

    def loss(self, snapshot: Snapshot, look: Look) -> float | None:
        """The evaluation loss at its step, where its files say it."""
        ...

    def world(self, snapshot: Snapshot, look: Look) -> int | None:
        """How many ranks wrote it, where its files say it."""
        ...

    def resume(self, snapshot: Snapshot) -> Resume:
        """How a trainer resumes from it."""
        ...

    def reshard(self, snapshot: Snapshot, look: Look) -> Reshard:
        """Can another number of ranks load it?"""
        ...

    def lacks(self, snapshot: Snapshot, look: Look, scene: Scene) -> list[str]:
        """What an exact resume needs and is not in it, in words; docs/checkpoints.md, "lint"."""
        ...


def judge(wanted: Wanted, snapshot: Snapshot, scene: Scene) -> Verdict:
    """Is it complete over all nodes, being written, or torn?

    While its ranks run it must be at rest in any case: something may follow its last file (ezpz's meta.json).
    """
    files = dict(wanted.files)
    if scene.marker and not snapshot.is_file:
        files.setdefault(scene.marker, Need("the job's checkpoint.complete"))
    if wanted.lost:
        return Verdict("torn", wanted.lost)
    missing = [_lack(path, need, snapshot, scene) for path, need in sorted(files.items())]
    missing = [line for line in [*missing, wanted.late] if line]
    rest_s = scene.now - snapshot.changed()
    must_rest = (wanted.quiet or scene.writer == "running") and _may_change(scene, snapshot)
    if not missing and not wanted.doubt and not must_rest:
        return Verdict("complete", f"all {len(snapshot.paths())} files are there")
    if not missing and must_rest:
        return _at_rest_or_not(scene, rest_s)
    if not missing:
        return Verdict("writing", wanted.doubt) if _is_written(scene, rest_s) else Verdict("unknown", wanted.doubt)
    shown = "; ".join(missing[:3]) + (f"; and {len(missing) - 3} more" if len(missing) > 3 else "")
    state: State = "writing" if _is_written(scene, rest_s) else "torn"
    return Verdict(state, shown, tuple(missing))


def _lack(path: str, need: Need, snapshot: Snapshot, scene: Scene) -> str:
    """What is wrong with this file; empty: nothing."""
    owner = f" ({need.owner}{_where(need.owner, scene)})" if need.owner else ""
    there = snapshot.files.get(path)
    if not there:
        return f"{path}{owner} is missing"
    sizes = snapshot.sizes(path)
    if not sizes:
        return f"{path}{owner} is a link"
    if need.fits(sizes):
        return ""
    most = need.size if need.size is not None else need.at_least
    return f"{path}{owner} has {max(sizes)} of {most} bytes"


def _where(owner: str, scene: Scene) -> str:
    """The node of `rank 3`, where the launch is known."""
    rank = re.fullmatch("rank ([0-9]+)", owner)
    node = int(rank[1]) // scene.ranks_per_node if rank else len(scene.hosts)
    return f" on {scene.hosts[node]}" if node < len(scene.hosts) else ""


def _is_written(scene: Scene, rest_s: float) -> bool:
    """May its missing parts still come? A writer that runs may take its time: async saves pause for minutes."""
    if scene.writer in ("done", "gone"):
        return False
    return scene.writer == "running" or rest_s < scene.quiet_s


def _may_change(scene: Scene, snapshot: Snapshot) -> bool:
    """Without a last file: can't we be sure that all has been written?

    Quiet proves it only while the writer lives: what a killed rank was writing is quiet for ever.
    """
    if scene.writer == "done":
        return False
    if scene.writer == "gone":
        return scene.ended - snapshot.changed() < scene.quiet_s
    return scene.now - snapshot.changed() < scene.quiet_s


def _at_rest_or_not(scene: Scene, rest_s: float) -> Verdict:
    if scene.writer == "gone":
        when = f"within {scene.quiet_s:.0f} s before its ranks ended"
        return Verdict("unknown", f"it changed {when}, and nothing in it says that it is whole")
    return Verdict("writing", f"it changed {max(rest_s, 0):.0f} s ago")


def json_of(look: Look, path: str) -> Any:
    """The content of a JSON file; None: it is not there, cut short or no JSON."""
    try:
        with look(path) as file:
            return json.loads(file.read(LARGEST_JSON))
    except (OSError, ValueError, RecursionError):
        return None


def text_of(look: Look, path: str) -> str:
    """The content of a short text file, without blanks around it; empty where it can't be read."""
    try:
        with look(path) as file:
            return file.read(4096).decode(errors="replace").strip()
    except OSError:
        return ""


def number(value: object) -> float | None:
    """A finite number as it is, None of anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < float("inf") else None  # type: ignore[arg-type]
