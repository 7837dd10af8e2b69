"""Whatever of a job dies at a random moment, checkpoints are whole, or not offered, and none that had time is lost.

A story is a run of real jobs (soak_job.sh: lib/ with its Bash sidecar, coordinator and agents; soak_trainer.py: ranks
that save) with ten kills: three stories here, fifty in `make soak`. Odd seeds have one writer, even ones a sharded
checkpoint. A story that fails names its seed: `OUTLAST_SOAK_SEED=7 OUTLAST_SOAK_STORIES=1` plays it again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import soak_trainer
from sidecar_cluster import ROOT, verify, wait_for

from outlast.checkpoint import manifest

STORIES = int(os.environ.get("OUTLAST_SOAK_STORIES", "3"))
FIRST = int(os.environ.get("OUTLAST_SOAK_SEED", "1"))
KILLS = 10
HOSTS = ["h0", "h1", "h2"]
PYTHONS = 4  # coordinators that may die in one job: after five its Bash takes over, for a while

SETTINGS = {
    "VERSION": "1.0",
    "RUN": "demo",
    "RESTART": 0,
    "STORAGE": "local",
    "RANKS_PER_NODE": 1,
    "CKPT_COPIER": "agents",
    "CKPT_PREFIX": "step-",
    "CKPT_QUIET_S": 0,
    "CKPT_KEEP": 3,
    "CKPT_KEEP_BEST": 1,
    "CKPT_KEEP_EVERY": 0,
    "CKPT_GRACE_S": 0,
    "CKPT_WRITERS": 16,
    "CKPT_MIB_PER_S": 0,
    "CKPT_MEMORY_GIB": 0,
    "SIDECAR_S": 0.2,
    "POLL_S": 60,
    "SHARED_LIMIT_S": 20,
    "STARTUP_S": 60,
    "WALLTIME_S": 3600,
    "PARENT": "",
    "LAUNCHER": "",
}


class Job:
    """One job of the run; `root` has its hosts."""

    def __init__(self, root: Path, run: Path, number: int, sharded: bool) -> None:
        self.root, self.run, self.number, self.pythons = root, run, number, 0
        for folder in (*HOSTS, "meet", "h0/state"):
            (root / folder).mkdir(parents=True)
        if sharded:
            (root / "sharded").touch()
        (run / "lease" / f"{number:06d}").write_text(f"job={number}\n")
        fixed = {
            "STATE": root / "h0/state",
            "LOCAL": root / "h0",
            "CKPT_DIR": root / "h0/checkpoints",
            "RUN_DIR": run,
            "JOB_ID": number,
            "GENERATION": f"{number:06d}",
            "PYTHON": sys.executable,
            "ATTEMPT": 100 * number,
            "DURABLE_AT_START": max(durable(run), default=0),
            "SHARDED": int(sharded),
            "STAGE_IN": "none" if sharded else "all",
            "CKPT_COMPLETE": ".metadata" if sharded else "last.json",
        }
        env = {f"OUTLAST_{name}": str(value) for name, value in (SETTINGS | fixed).items()}
        with (root / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [ROOT / "tests/py/soak_job.sh", root, ",".join(HOSTS)],
                env=env | {"PATH": os.environ["PATH"], "HOME": str(root)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def pids(self, words: str) -> list[int]:
        """Processes with these words in their command line."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if words in line and int(path.name) != os.getpid():
                    found.append(int(path.name))
        return found

    def of_host(self, host: str, kind: str = "") -> list[int]:
        """Its agents (`agent.py`), its ranks (`soak_trainer.py`), or all that runs there."""
        return [pid for pid in self.pids(f"{self.root}/{host}") if kind in _line(pid)]

    def sidecars(self) -> list[int]:
        """The Bash sidecar and its like: children of the job with its command line."""
        return [pid for pid in self.pids(f"{self.root} h0,") if pid != self.process.pid]

    def coordinators(self) -> list[int]:
        """Python's, which has no word of ours in its command line."""
        return [pid for pid in self.pids("outlast sidecar") if f"OUTLAST_STATE={self.root}/" in _environment(pid)]

    def end(self) -> None:
        """All of it, at once."""
        kill([self.process.pid, *self.pids(str(self.root)), *self.coordinators()])
        self.process.wait()
        wait_for(lambda: not kill([*self.pids(str(self.root)), *self.coordinators()]), "the end of the job")


def lines(file: Path) -> list[list[int]]:
    """The numbers in it, by line; one that is being written is left out."""
    try:
        text = file.read_text()
    except FileNotFoundError:
        return []
    return [[int(word) for word in line.split()] for line in text.split("\n")[:-1]]


def _line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _environment(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return ""


def kill(pids: list[int]) -> list[int]:
    """As kill -9 does; those that are still there."""
    there = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            there.append(pid)
    return there


def durable(run: Path) -> list[int]:
    paths = (run / "checkpoints").glob("step-*/MANIFEST.json")
    return sorted(int(path.parent.name.removeprefix("step-")) for path in paths)


class Story:
    """A run of some jobs, and what must hold all the time."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.run = root, root / "lake/demo"
        self.chance = random.Random(seed)
        self.sharded = seed % 2 == 0
        self.known: dict[tuple[int, int], int] = {}  # step, attempt: when it was verified
        self.lost: set[int] = set()  # attempts that lost a host with parts
        self.number = 0
        for name in ("checkpoints", "quarantine", "lease", "logs", "control", "tool"):
            (self.run / name).mkdir(parents=True)
        (self.run / "tool/1.0").symlink_to(ROOT / "pyhelpers")
        self.job = self.start()

    def start(self) -> Job:
        self.number += 1
        return Job(self.root / f"j{self.number}", self.run, self.number, self.sharded)

    # ── what dies ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def kill(self) -> str:
        """Somebody; the answer says who."""
        job = self.job
        time.sleep(self.chance.random() * 2)
        victim = self.chance.choice(["coordinator", "sidecar", "agent", "agent", "rank", "rank", "host", "job"])
        host = self.chance.choice(HOSTS)
        if victim in ("coordinator", "sidecar") and job.pythons >= PYTHONS:
            victim = "job"
        if victim == "host" and host == "h0":
            victim = "job"  # the job's script runs there
        if victim == "coordinator":
            job.pythons += 1
            kill(job.coordinators())
        elif victim == "sidecar":
            kill(job.sidecars())
        elif victim == "agent":
            kill([pid for pid in job.of_host(host, "agent.py") if "python" in _line(pid).split()[0]])
        elif victim == "rank":
            kill(job.of_host(host, "soak_trainer.py"))
        elif victim == "host":
            self.lose(host)
        else:
            job.end()
            self.check()
            self.job = self.start()
        return f"{victim} {host}"

    def lose(self, host: str) -> None:
        """A host with all that lies on it; the scheduler ends the step that had a part there."""
        if self.sharded:
            attempts = [attempt for attempt, _, _ in lines(self.job.root / "resumed")]
            self.lost |= {attempt + more for attempt in attempts[-1:] for more in (0, 1)}
        kill(self.job.of_host(host))
        (self.job.root / host).rename(self.job.root / f"lost.{time.time_ns()}")
        (self.job.root / host).mkdir()
        kill([pid for other in HOSTS[1:] for pid in self.job.of_host(other, "agent.py")])

    # ── what must hold ────────────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        for step in durable(self.run):
            top = self.run / f"checkpoints/step-{step}"
            try:
                self.check_one(step, top)
            except FileNotFoundError:
                assert not top.exists()  # it was removed meanwhile, as an old one
        for job in range(1, self.number + 1):
            self.check_resumed(self.root / f"j{job}")
            self.check_kept(self.root / f"j{job}")

    def check_one(self, step: int, top: Path) -> None:
        told = manifest.read(top)
        if (step, told.attempt) in self.known:
            return
        for path, data in soak_trainer.files(step, told.attempt, len(HOSTS), self.sharded).items():
            assert (top / path).read_bytes() == data, f"step {step}: {path} is not what launch {told.attempt} wrote"
        assert verify(top) == step
        self.known[step, told.attempt] = len(told.list)

    def check_resumed(self, root: Path) -> None:
        """All ranks of a launch went on from one step."""
        steps: dict[int, set[int]] = {}
        for attempt, _, step in lines(root / "resumed"):
            steps.setdefault(attempt, set()).add(step)
        assert all(len(one) == 1 for one in steps.values()), f"{root.name}: ranks resumed apart: {steps}"

    def check_kept(self, root: Path) -> None:
        """What was whole when a launch ended was durable after its drain, and the next one went on from there."""
        told, whole = lines(root / "story"), dict(map(tuple, lines(root / "whole")))  # by attempt the newest
        for (attempt, _, drained, _), (_, _, _, resumed) in itertools.pairwise(told):
            assert drained == 0, f"launch {attempt}: the drain did not end"
            if attempt not in self.lost:
                assert resumed >= whole.get(attempt, 0), f"launch {attempt}: step {whole[attempt]} was lost"

    def finish(self) -> None:
        """The ranks end by themselves; the last checkpoint is durable."""
        (self.job.root / "stop").touch()
        wait_for((self.job.root / "over").exists, "the end of the job", 120)
        self.job.end()
        self.check()
        attempt, code, drained, _ = lines(self.job.root / "story")[-1]
        whole = [step for one, step in lines(self.job.root / "whole") if one == attempt]
        assert (code, drained, durable(self.run)[-1]) == (0, 0, whole[-1])


@pytest.fixture
def story(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Story]:
    told = Story(tmp_path, request.param)
    yield told
    told.job.end()


@pytest.mark.timeout(600)  # a story takes a minute, and several on a busy machine
@pytest.mark.parametrize("story", range(FIRST, FIRST + STORIES), indirect=True, ids=lambda seed: f"seed{seed}")
def test_whatever_dies_nothing_whole_is_lost_and_nothing_torn_is_offered(story: Story) -> None:
    newest = 0
    for number in range(KILLS):
        print(f"kill {number + 1}: {story.kill()}; durable: {durable(story.run)}", flush=True)
        story.check()
        assert max(durable(story.run), default=0) >= newest
        newest = max(durable(story.run), default=0)
    story.finish()
