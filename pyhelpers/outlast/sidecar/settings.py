"""What the job's script tells the coordinator: its variables and the node-local files that both use."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outlast.checkpoint.retention import Policy

# They come out of somebody else's files, so only what looks like a version is one.
_VERSION = re.compile(r"([a-z][a-z-]*)=([0-9A-Za-z][0-9A-Za-z.+_-]*)")


def short(host: str) -> str:
    """A host's name without its domain: schedulers, launchers and hosts differ in that."""
    return host.partition(".")[0]


@dataclass(frozen=True)
class Settings:
    """The OUTLAST_ variables of the same names."""

    state: Path
    local: Path
    run_dir: Path
    ckpt_dir: Path
    run: str
    job: str
    restart: int
    generation: str
    prefix: str
    complete: str
    quiet_s: float
    keep: Policy
    grace_s: float  # what is not kept can be had back for so long
    sharded: bool
    hosts: tuple[str, ...]  # all of the allocation, the first is ours
    ranks_per_node: int
    writers: int  # nodes that write to the shared file system at once
    bytes_per_s: float  # all of them together; 0: no limit
    memory: int  # bytes of a node that its checkpoints may take, where they lie in memory; 0: they lie on a disk
    look_s: float
    silent_s: float  # after so long without an agent a node is said to be silent; the crew takes up to 20 s to miss it
    version: str
    parent_pid: int  # the process that it ends with

    @property
    def durable(self) -> Path:
        """Where durable checkpoints lie."""
        return self.run_dir / "checkpoints"

    @property
    def lease(self) -> Path:
        """Where the leases lie."""
        return self.run_dir / "lease"


def from_env(env: Mapping[str, str]) -> Settings:
    """The settings. Raises: KeyError, ValueError: one is missing or no number; OSError: no list of hosts."""
    return Settings(
        state=Path(env["OUTLAST_STATE"]),
        local=Path(env["OUTLAST_LOCAL"]),
        run_dir=Path(env["OUTLAST_RUN_DIR"]),
        ckpt_dir=Path(env["OUTLAST_CKPT_DIR"]),
        run=env["OUTLAST_RUN"],
        job=env["OUTLAST_JOB_ID"],
        restart=int(env["OUTLAST_RESTART"]),
        generation=env["OUTLAST_GENERATION"],
        prefix=env["OUTLAST_CKPT_PREFIX"],
        complete=env["OUTLAST_CKPT_COMPLETE"],
        quiet_s=float(env["OUTLAST_CKPT_QUIET_S"]),
        keep=Policy(
            max(1, int(env["OUTLAST_CKPT_KEEP"])),
            int(env["OUTLAST_CKPT_KEEP_BEST"]),
            int(env["OUTLAST_CKPT_KEEP_EVERY"]),
        ),
        grace_s=float(env["OUTLAST_CKPT_GRACE_S"]),
        sharded=env["OUTLAST_SHARDED"] == "1",
        hosts=tuple(map(short, (Path(env["OUTLAST_STATE"]) / "sidecar_hosts").read_text().split())),
        ranks_per_node=int(env["OUTLAST_RANKS_PER_NODE"]),
        writers=max(1, int(env["OUTLAST_CKPT_WRITERS"])),
        bytes_per_s=float(env["OUTLAST_CKPT_MIB_PER_S"]) * (1 << 20),
        memory=int(float(env["OUTLAST_CKPT_MEMORY_GIB"]) * (1 << 30)),
        look_s=float(env.get("OUTLAST_SIDECAR_S", "5")),
        silent_s=0.75 * float(env["OUTLAST_POLL_S"]),
        version=env["OUTLAST_VERSION"],
        parent_pid=int(env["OUTLAST_SIDECAR_PID"]),
    )


@dataclass(frozen=True)
class Ranks:
    """What the ranks do: STATE/ranks, written by lib/attempt.sh and lib/watch.sh."""

    known: bool = False
    running: bool = False
    ended_s: float = 0.0
    code: int = 0


class State:
    """The job's node-local folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def words(self, name: str) -> list[str]:
        """The first line of a file, in words; none: there is no such file, or it is empty."""
        try:
            return (self.folder / name).read_text().partition("\n")[0].split()
        except OSError:
            return []

    def write(self, name: str, text: str, mode: int = 0o600) -> None:
        """Write a file whole."""
        new = self.folder / f".{name}.new.{os.getpid()}"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
        new.replace(self.folder / name)

    def ranks(self) -> Ranks:
        """What the ranks do."""
        words = self.words("ranks")
        if words[:1] == ["ended"] and len(words) == 3:
            return Ranks(known=True, ended_s=float(words[1]), code=int(words[2]))
        return Ranks(known=bool(words), running=words[:1] == ["running"])

    def attempt(self) -> tuple[int, tuple[str, ...]]:
        """The number of the last launch and its hosts, in the order of ranks; 0 and none before the first."""
        words = self.words("attempt")
        if len(words) != 2:
            return 0, ()
        return int(words[0]), tuple(short(host) for host in words[1].split(","))

    def gone(self) -> frozenset[str]:
        """The hosts that were given up (lib/nodes.sh)."""
        try:
            return frozenset(short(host) for host in (self.folder / "gone").read_text().split())
        except OSError:
            return frozenset()

    def parent(self) -> str:
        """The checkpoint that the last launch resumed from: a name, of another run a path; empty: none."""
        try:
            return (self.folder / "attempt").read_text(errors="surrogateescape").split("\n")[1]
        except (OSError, IndexError):
            return ""

    def sources(self) -> tuple[str, bool | None]:
        """The commit of the trainer's folder, and whether files differ from it; empty and None: not known."""
        words = self.words("sources")
        return (words[0], words[1] != "0") if len(words) == 2 else ("", None)

    def versions(self) -> dict[str, str]:
        """What the trainer runs with, by name: lib/versions.sh; empty: not known."""
        found = (_VERSION.fullmatch(word) for word in self.words("versions"))
        return {one[1]: one[2] for one in found if one}

    def reading(self) -> tuple[int, ...]:
        """The step that the on_durable command is reading now (lib/hook.sh), if it runs."""
        return tuple(int(word) for word in self.words("hook")[:1] if word.isdecimal())

    def durable_step(self) -> int:
        """The newest step that is durable; -1: none."""
        words = self.words("durable_step")
        # 0 stands for none there (lib/main.sh), and a checkpoint of step 0 holds nothing that is worth a copy.
        return int(words[0]) if words and words[0].isdecimal() else -1

    def left_s(self, now: float) -> float:
        """Seconds until the allocation ends, as far as is known."""
        words = self.words("end_time")
        left = float(words[0]) - now if words else 1e9
        return min(left, 20.0) if (self.folder / "term").exists() else left
