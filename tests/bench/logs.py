"""What it costs to judge a log: beside wc and one grep of the same words, on the same file in the same minute.

The file is as a job leaves it: step lines, NCCL's talk, warnings that mean nothing, and at its end a GPU that fails and
the echo of 512 ranks. `python tests/bench/logs.py 2 10` measures more sizes, in GB. With OUTLAST_BENCH_EZPZ, a
checkout of github.com/saforem2/ezpz, its scraper of bad nodes reads the same file.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from commands import Row, row

ROOT = Path(__file__).resolve().parents[2]
GB = 10**9
HOSTS = 64
RANKS = 8 * HOSTS


def block() -> bytes:
    """Some megabytes of a healthy job."""
    lines = []
    for step in range(8000):
        lines.append(
            f"[titan] 2026-04-08 11:{step // 60 % 60:02d}:{step % 60:02d},000 - root - INFO - step: {step:>6}"
            f"  loss:  2.772  grad_norm:  0.3894  memory: 48.21GiB(75.33%)  tps: 2,932  tflops: 119.54  mfu: 38.13%"
        )
        host = f"gpu-{step % HOSTS:03d}"
        lines += [
            f"{host}:41001:41401 [{step % 8}] NCCL INFO Channel {step % 32:02d}/0 : {step % RANKS}[1] ->"
            f" {step * 7 % RANKS}[1] [send] via NET/IB/{step % 4}/GDRDMA"
        ] * (step % 4 == 0)
        lines += [
            f"{step % RANKS:>3}: [2026-04-08 11:20:51.059298] iteration {step:>8}/  250000 | consumed samples: 631910 |"
            f" elapsed time per iteration (ms): 4253.7 | lm loss: 2.337362E+00 | loss scale: 1.0 | grad norm: 0.166 |"
            f" number of skipped iterations:   0 | number of nan iterations:   0 |"
        ] * (step % 3 == 0)
        lines += [
            f"[rank{step % RANKS}]: /opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:460:"
            f" FutureWarning: an Error will be raised"
        ] * (step % 1000 == 0)
    return "\n".join(lines).encode() + b"\n"


def crash() -> bytes:
    """The end: rank 17's GPU, and what everybody else says of it."""
    lines = ["[rank17]: RuntimeError: CUDA error: uncorrectable ECC error encountered"]
    for rank in range(RANKS):
        lines += [
            f"[rank{rank}]:[E408 12:10:33.404111714 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught"
            f" collective operation timeout: WorkNCCL(SeqNum=40011, OpType=ALLREDUCE, NumelIn=4, NumelOut=4,"
            f" Timeout(ms)=600000) ran for 600037"
            f" milliseconds before timing out.",
            f"[rank{rank}]: ncclRemoteError: A call failed possibly due to a network error or a remote"
            f" process exiting prematurely.",
        ] * (rank != 17)
    lines += [f"srun: error: gpu-{host:03d}: tasks {8 * host}-{8 * host + 7}: Aborted" for host in range(HOSTS)]
    return "\n".join(lines).encode() + b"\n"


def write(path: Path, size: int) -> None:
    """A log of so many bytes, with the crash at its end."""
    healthy = block()
    with path.open("wb") as file:
        for _ in range(size // len(healthy)):
            file.write(healthy)
        file.write(crash())
    with path.open("rb") as file:  # into the page cache: neither side shall wait for the disk
        while file.read(1 << 24):
            pass


def seconds(command: list[str], want: str, modules: Path = ROOT / "pyhelpers") -> tuple[float, float]:
    """CPU seconds of a command, and its children's peak memory so far in MiB; its output must have a word."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "LC_ALL": "C", "PYTHONPATH": str(modules)}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=env, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if want not in done.stdout:
        sys.exit(f"bench: {command[0]} did not say {want}: {done.stdout[:200]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


def words() -> str:
    """The expression that the log is searched for."""
    sys.path.insert(0, str(ROOT / "pyhelpers"))
    from outlast.crash import names, patterns, scan, source

    return "|".join(map(source.posix, scan.Scanner(patterns.load(), names.Layout()).words))


def rows(folder: Path, sizes: list[float]) -> list[Row]:
    """Lines of the table, for logs of so many GB."""
    found = []
    for size in sizes:
        log = folder / "job.log"
        write(log, int(size * GB))
        verb = [sys.executable, "-m", "outlast", "crash", str(log), "--exit-code", "134", "--json"]
        seconds(verb, "gpu_ecc")  # fill the caches
        ours = min(seconds(verb, "gpu_ecc")[0] for _ in range(3))
        grep = min(seconds(["grep", "-cE", "-e", words(), str(log)], "")[0] for _ in range(3))
        count = min(seconds(["wc", "-l", str(log)], "job.log")[0] for _ in range(3))
        found.append(row(f"`outlast crash`, {size:g} GB", ours, grep, "one `grep -cE` of the same words"))
        found.append(row(f"`outlast crash`, {size:g} GB", ours, max(count, 0.001), "`wc -l`"))
        if peer := os.environ.get("OUTLAST_BENCH_EZPZ"):
            found.append(row(f"`outlast crash`, {size:g} GB", ours, *scraped(Path(peer), log)))
        log.unlink()
    return found


def scraped(peer: Path, log: Path) -> tuple[float, str]:
    """CPU seconds of ezpz's scraper, the better of two, and its row's name, with the hosts that it finds."""
    command = [sys.executable, "-m", "ezpz.failover", "--machine", "aurora", str(log)]
    modules = peer.resolve() / "src"
    took = min(seconds(command, "", modules)[0] for _ in range(2))
    env = {**os.environ, "PYTHONPATH": str(modules)}
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=env, text=True).stdout.split()
    return took, f"ezpz's scraper, which names {', '.join(said) or 'nobody'}"


def memory(folder: Path) -> Row:
    """Peak memory of the verb on the largest process that it is."""
    log = folder / "job.log"
    write(log, GB // 5)
    command = [sys.executable, str(Path(__file__)), "--peak", str(log)]
    ours, bare = (float(part) for part in subprocess.check_output(command, text=True).split())
    log.unlink()
    return (
        "memory of `outlast crash`, peak",
        f"{ours:.0f} MiB",
        f"{bare:.0f} MiB, `python -c pass`",
        f"{ours / bare:.2f}",
    )


def _peak(log: str) -> None:
    _, bare = seconds([sys.executable, "-c", "print('x')"], "x")
    _, ours = seconds([sys.executable, "-m", "outlast", "crash", log, "--exit-code", "134", "--json"], "gpu_ecc")
    print(ours, bare)


def main(argv: list[str]) -> None:
    """Print the rows for sizes in GB."""
    if argv[:1] == ["--peak"]:
        _peak(argv[1])
        return
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        for line in [*rows(Path(folder), [float(size) for size in argv]), memory(Path(folder))]:
            print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
