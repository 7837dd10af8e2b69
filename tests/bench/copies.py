"""Making a checkpoint durable, beside cp and rsync on the same files: `copies.py` prints these rows alone.

OUTLAST_BENCH_GB (8; less where the disk is small) is a checkpoint's size, OUTLAST_BENCH_DIR where it is copied,
OUTLAST_BENCH_ROUNDS (3) how often each method does it. A method ends when its files are on their disk: the agent
flushes them itself, the others are followed by `sync -f`. Each is the first of a round in its turn.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import memory
from commands import Row, row

HERE = Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("OUTLAST_BENCH_ROUNDS", "3"))
COUNTS = (1, 100, 10_000)
MANY = 100_000
BUSY_S = 10.0

# A rank that computes: it counts how often, until its time is over.
TRAINER = """
import sys, time, numpy
a, turns, end = numpy.ones((400, 400)), 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    a @ a
    turns += 1
print(turns)
"""


def make(folder: Path, count: int, size: int) -> Path:
    """A checkpoint of so many files, together so many bytes, none of which compresses."""
    folder.mkdir(parents=True)
    piece = os.urandom(1 << 20)
    for number in range(count):
        with (folder / f"part-{number:06d}").open("wb") as file:
            left = size // count
            while left > 0:
                left -= file.write(piece[:left])
    subprocess.run(["sync", "-f", folder], check=True)
    return folder


def agent(source: Path, into: Path) -> tuple[float, float]:
    """Seconds that an agent of the sidecar takes to copy and hash it, and its peak memory in MiB."""
    environ = os.environ | {"PYTHONPATH": str(HERE.parents[1] / "pyhelpers")}
    words = [sys.executable, str(HERE / "agent_copy.py"), str(source), str(into)]
    told = subprocess.run(words, check=True, env=environ, stdout=subprocess.PIPE, text=True).stdout.split()
    return float(told[0]), float(told[1])


def seconds(script: str, source: Path, into: Path) -> float:
    """How long a line of shell takes, with $1 and $2."""
    began = time.perf_counter()
    subprocess.run(
        ["ionice", "-c", "3", "nice", "-n", "19", "sh", "-ec", script, "sh", source, into],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def rivals() -> dict[str, str]:
    """What is measured beside it, by its name. All of them at the agent's priority."""
    found = {"`cp -r`": 'cp -r "$1" "$2"; sync -f "$2"'}
    if shutil.which("rsync"):
        found["`rsync -a`"] = 'rsync -a "$1" "$2"; sync -f "$2"'
        found["`rsync -a`, then `-ac`"] = 'rsync -a "$1" "$2"; sync -f "$2"; rsync -ac "$1" "$2"'
    return found


@contextmanager
def fresh(folder: Path) -> Iterator[Path]:
    """An empty folder, removed at the end."""
    into = folder / "into"
    into.mkdir()
    try:
        yield into
    finally:
        shutil.rmtree(into)


def beside(folder: Path, size: int) -> Iterator[Row]:
    """For each number of files: the agent and each rival, in turns, medians."""
    for count in COUNTS:
        source = make(folder / f"source/step-{count}", count, size)
        scripts = {"": "", **rivals()}
        taken: dict[str, list[float]] = {name: [] for name in scripts}
        for turn in range(ROUNDS):
            for name in [*scripts][turn % len(scripts) :] + [*scripts][: turn % len(scripts)]:
                with fresh(folder) as into:
                    if name:
                        memory.warm(size)
                        taken[name].append(seconds(scripts[name], source, into))
                    else:
                        taken[name].append(agent(source, into)[0])  # warms it itself, once it has looked
        ours_s = statistics.median(taken.pop(""))
        what = f"copy with hashes, {size / 1e9:.1f} GB in {count:,} file{'s' if count > 1 else ''}"
        yield from (row(what, ours_s, statistics.median(times), name) for name, times in taken.items())
        shutil.rmtree(source)


def peak(folder: Path) -> Row:
    """An agent's peak with very many files beside that with one."""
    peaks = []
    for count in (1, MANY):
        source = make(folder / f"source/step-{count}", count, 100 * MANY)
        with fresh(folder) as into:
            peaks.append(agent(source, into)[1])
        shutil.rmtree(source)
    return (
        f"memory of an agent, peak, {MANY:,} files",
        f"{peaks[1]:.0f} MiB",
        f"{peaks[0]:.0f} MiB, 1 file",
        f"{peaks[1] / peaks[0]:.2f}",
    )


def whole_way(folder: Path, count: int) -> Row:
    """From the last file of a checkpoint until it is durable, through coordinator and agent, beside `cp -r`."""
    root = HERE.parents[1]
    environ = os.environ | {"PYTHONPATH": f"{root / 'pyhelpers'}:{root / 'tests/py'}"}
    source = make(folder / "source/step-1", count, 100 * count)
    with fresh(folder) as into:
        plain = seconds(rivals()["`cp -r`"], source, into / "copy")
    shutil.rmtree(source)
    with fresh(folder) as into:
        words = [sys.executable, str(HERE / "whole_way.py"), str(count), str(into)]
        told = subprocess.run(words, check=True, env=environ, stdout=subprocess.PIPE, text=True).stdout.split()
    took, cpu, peak = map(float, told)
    return (
        f"durable, {count:,} small files (coordinator: {cpu:.1f} s of a core, {peak:.0f} MiB)",
        f"{took:.1f} s",
        f"{plain:.1f} s, `cp -r`",
        f"{took / plain:.2f}",
    )


def turns(seconds: float) -> int:
    """How often ranks on all cores compute their product in that time."""
    words = [sys.executable, "-c", TRAINER, str(seconds)]
    environ = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ranks = [subprocess.Popen(words, stdout=subprocess.PIPE, env=environ) for _ in range(os.cpu_count() or 1)]
    return sum(int(rank.communicate()[0]) for rank in ranks)


def slowdown(folder: Path, size: int) -> list[Row]:
    """A trainer on all cores while an agent copies, and while cp does at the usual priority, beside one alone."""
    source = make(folder / "source/step-100", 100, min(size, 1 << 30))
    environ = os.environ | {"PYTHONPATH": str(HERE.parents[1] / "pyhelpers")}
    # Each copies again and again until it is ended.
    again = 'while :; do rm -rf "$2"; mkdir "$2"; {}; done >/dev/null'
    ours = again.format(f'{sys.executable} {HERE}/agent_copy.py "$1" "$2"')
    plain = again.format('cp -r "$1" "$2"; sync -f "$2"')
    alone, with_ours, with_plain = [], [], []
    for _ in range(ROUNDS):
        alone.append(turns(BUSY_S))
        for script, found in ((ours, with_ours), (plain, with_plain)):
            words = ["sh", "-c", script, "sh", str(source), str(folder / "into")]
            copier = subprocess.Popen(words, env=environ, start_new_session=True)
            try:
                found.append(turns(BUSY_S))
            finally:
                os.killpg(copier.pid, 9)
                copier.wait()
    shutil.rmtree(source)
    shutil.rmtree(folder / "into", ignore_errors=True)
    rate = statistics.median(alone) / BUSY_S
    rows = []
    for name, found in (("an agent copying", with_ours), ("`cp -r` instead", with_plain)):
        slow = statistics.median(found) / BUSY_S
        rows.append(
            (f"a trainer on all cores, {name}", f"{slow:.0f} products/s", f"{rate:.0f} alone", f"{slow / rate:.2f}")
        )
    return rows


def rows(folder: Path) -> Iterator[Row]:
    """All of them; `folder` is made, and empty at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = float(os.environ.get("OUTLAST_BENCH_GB", "8")) * 1e9
    size = int(min(wanted, shutil.disk_usage(folder).free / 2.5))  # itself, and one copy at a time
    yield from beside(folder, size)
    yield peak(folder)
    yield from (whole_way(folder, count) for count in (1000, 10_000, MANY))
    yield from slowdown(folder, size)


if __name__ == "__main__":
    from run import table

    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir=os.environ.get("OUTLAST_BENCH_DIR")) as made:
        table(rows(Path(made)))
