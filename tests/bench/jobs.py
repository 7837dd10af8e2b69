"""What a job of site `local` loses to outlast: time at its two ends, CPU and memory beside its ranks."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from commands import Row, row

RANKS = 2
BARE_JOBS = 3
WATCH_S = 60
SAMPLE_S = 0.5
LIMIT_S = 180

# A rank that tells when it began and ended, around the demo's trainer.
TRAIN = """
import json, os, sys, time
began = time.time()
sys.path.insert(0, {package!r})
from outlast.demo.train import main
try:
    main()
finally:
    tale = dict(job=os.environ.get("OUTLAST_LOCAL_JOB"), began=began, ended=time.time())
    with open("tales.jsonl", "a") as tales:
        tales.write(json.dumps(tale) + "\\n")
"""

JOB = """
summary = "bench"
run = "bench"
nodes = 1
ranks_per_node = {ranks}
walltime_s = {walltime_s}
preset = "hf"
runs_dir = "{runs}"
command = "{python} -u train.py --output_dir {{ckpt_dir}} --max_steps 1000000 {pace} {{resume}}"

[checkpoint]
quiet_s = 1
interval_s = 2

[deadline]
margin_s = 5
startup_s = 2
"""

# The same ranks under the same driver, with nothing of ours around them.
BARE = """#!/bin/bash
OUTLAST_WALLTIME_S=60
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29871 WORLD_SIZE={ranks}
for ((rank = 0; rank < {ranks}; rank++)); do
  RANK=$rank LOCAL_RANK=$rank {python} -u train.py --output_dir bare --max_steps 2 &
done
wait
"""


@dataclass(frozen=True)
class Yard:
    """A folder with a project, a queue and a runs folder of its own."""

    root: Path
    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def queue(self) -> Path:
        return self.folder / "queue"

    def furnish(self, walltime_s: int, pace: str) -> None:
        """Put a trainer and a job file there; `pace` is words for the trainer."""
        self.project.mkdir(parents=True)
        (self.project / "train.py").write_text(TRAIN.format(package=str(self.root / "pyhelpers")))
        words = {
            "ranks": RANKS,
            "walltime_s": walltime_s,
            "pace": pace,
            "runs": self.folder / "runs",
            "python": sys.executable,
        }
        (self.project / "bench.toml").write_text(JOB.format(**words))
        (self.project / "bare.sh").write_text(BARE.format(**words))

    def call(self, *command: str) -> None:
        """Run a command in the project, with this queue."""
        environ = os.environ | {"OUTLAST_LOCAL_QUEUE": str(self.queue)}
        subprocess.run(command, check=True, cwd=self.project, env=environ, stdout=subprocess.DEVNULL)

    def outlast(self, *words: str) -> None:
        """Run a verb."""
        self.call(str(self.root / "bin/outlast"), *words)

    @contextmanager
    def run(self) -> Iterator[None]:
        """Submit the run; cancel it at the end and wait until nothing of it is there."""
        self.outlast("submit", "local", "bench.toml")
        try:
            yield
        finally:
            self.outlast("cancel", str(self.folder / "runs/bench"))
            wait_for("end after cancel", lambda: not any(_found(self)))

    def submit_bare(self) -> float:
        """How long the driver takes to submit the bare script, in seconds."""
        program = 'source "$1"; ol_sched_submit bare.sh bare dir="$PWD"'
        began = time.perf_counter()
        self.call("bash", "-c", program, "bench", str(self.root / "lib/scheduler/local.sh"))
        return time.perf_counter() - began

    def tales(self) -> dict[str, list[dict[str, float]]]:
        """What the ranks have told, by job."""
        path = self.project / "tales.jsonl"
        by_job: dict[str, list[dict[str, float]]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            tale = json.loads(line)
            by_job.setdefault(tale["job"], []).append(tale)
        return {job: tales for job, tales in by_job.items() if len(tales) == RANKS}

    def has_ended(self, jobs: int) -> bool:
        """Have the ranks of so many jobs ended?"""
        return len(self.tales()) >= jobs

    def started(self, job: str) -> float:
        """When the driver started a job's script: it writes the end time just before."""
        return (self.queue / job / "end_time").stat().st_mtime

    def submitted(self, job: str) -> float:
        """When a job was submitted."""
        return (self.queue / job / "script").stat().st_mtime


def wait_for(what: str, is_there: Callable[[], bool]) -> None:
    """Return when it is there, at most after LIMIT_S."""
    deadline = time.monotonic() + LIMIT_S
    while not is_there():
        if time.monotonic() > deadline:
            sys.exit(f"bench: no {what} within {LIMIT_S} s")
        time.sleep(0.1)


def turns(root: Path, folder: Path) -> list[Row]:
    """Script start to first rank, and last rank's exit to successor, over a chain of short jobs."""
    yard = Yard(root, folder)
    yard.furnish(walltime_s=12, pace="--step_time 0.1 --save_steps 20")
    submits = []
    for number in range(1, BARE_JOBS + 1):
        submits.append(yard.submit_bare())
        wait_for("end of a bare job", partial(yard.has_ended, number))
    bare = [min(tale["began"] for tale in tales) - yard.started(job) for job, tales in yard.tales().items()]
    with yard.run():
        wait_for("third job of the chain", partial(yard.has_ended, BARE_JOBS + 3))
    ours = {job: tales for job, tales in yard.tales().items() if int(job) > BARE_JOBS}
    starts = [min(tale["began"] for tale in tales) - yard.started(job) for job, tales in ours.items()]
    gaps = [
        yard.submitted(str(int(job) + 1)) - max(tale["ended"] for tale in tales)
        for job, tales in ours.items()
        if (yard.queue / str(int(job) + 1)).exists()
    ]
    return [
        row("script's start to the first rank's", statistics.median(starts), statistics.median(bare), "a bare script"),
        row("last rank's exit to successor submitted", statistics.median(gaps), statistics.median(submits), "a submit"),
    ]


def beside(root: Path, folder: Path) -> list[Row]:
    """CPU and memory of everything of ours while the ranks of one job train."""
    yard = Yard(root, folder)
    yard.furnish(walltime_s=WATCH_S + 60, pace="--logging_steps 100 --save_steps 2000")
    with yard.run():
        wait_for("ranks", lambda: len(_found(yard)[1]) == RANKS)
        time.sleep(5)  # past the start
        passed_s, ours_s, ranks_s, peak, rank_peak = _watched(yard)
    percent, rank_percent = 100 * ours_s / passed_s, 100 * ranks_s / passed_s
    return [
        (
            f"CPU beside a running job, over {passed_s:.0f} s",
            f"{percent:.2f} % of a core",
            f"{rank_percent:.0f} %, its {RANKS} NumPy ranks",
            f"{percent / rank_percent:.3f}",
        ),
        ("memory beside it, peak", f"{peak:.0f} MiB", f"{rank_peak:.0f} MiB, one rank", f"{peak / rank_peak:.2f}"),
    ]


def _watched(yard: Yard) -> tuple[float, float, float, float, float]:
    """Seconds watched; CPU seconds of ours and of the ranks; peak memory of ours and of one rank, in MiB."""
    began, before = time.monotonic(), [_cpu_s(found) for found in _found(yard)]
    peak = rank_peak = 0.0
    while (passed_s := time.monotonic() - began) < WATCH_S:
        ours, ranks = _found(yard)
        peak, rank_peak = max(peak, _mib(ours)), max(rank_peak, _mib(ranks) / RANKS)
        time.sleep(SAMPLE_S)
    ours_s, ranks_s = (_cpu_s(found) - then for found, then in zip(_found(yard), before, strict=True))
    return passed_s, ours_s, ranks_s, peak, rank_peak


def _found(yard: Yard) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Processes of this yard's jobs, told by their environment: ours and the ranks.

    The driver's runner is left out: it stands for a scheduler, and runs on no machine that has one.
    """
    ours: list[psutil.Process] = []
    ranks: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OUTLAST_LOCAL_QUEUE") == str(yard.queue):
                words = process.cmdline()
                if words[:1] == [sys.executable] and "train.py" in words:
                    ranks.append(process)
                elif "outlast-runner" not in words:
                    ours.append(process)
        except (psutil.Error, OSError):
            continue
    return ours, ranks


def _cpu_s(processes: list[psutil.Process]) -> float:
    """CPU seconds of these and of their children that have ended."""
    total = 0.0
    for process in processes:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue
    return total


def _mib(processes: list[psutil.Process]) -> float:
    """Memory of these, what they share counted once."""
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total / 2**20
