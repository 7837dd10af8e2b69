"""Processes of a run on this machine. The one home of psutil."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import psutil

from outlast.masked import masked


def of_rank(run: str, job: str, rank: int, program: str) -> int | None:
    """The process that is this rank of the run's trainer, None where there is none (yet, or any more).

    It is told by what outlast gives to each rank; the shim around it, a Bash, has the same words and variables.
    """
    wanted = {"OUTLAST_RUN": run, "OUTLAST_JOB_ID": job, "RANK": str(rank)}
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            words = process.cmdline()
            if wanted.items() <= environment.items() and program in words and "python" in Path(words[0]).name:
                return int(process.pid)
        except psutil.Error:
            continue
    return None


def marked(name: str, value: str) -> list[int]:
    """The live processes of ours with that variable in their environment, by number; zombies have none."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(name) == value and process.pid != os.getpid():
                found.append(int(process.pid))
        except psutil.Error:
            continue
    return sorted(found)


def stack(pid: int) -> str:
    """What a process is doing, for a person: words, state, what its threads wait for, Python's stack by py-spy."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            lines = [f"== process {pid}, {process.status()}: {masked(' '.join(process.cmdline()))[:300]}"]
        lines += [f"thread {task.name} waits in {_word(task / 'wchan')}" for task in _tasks(pid)]
        lines += _word(Path(f"/proc/{pid}/stack")).splitlines()
    except (psutil.Error, OSError) as err:
        return f"== process {pid}: {err}\n"
    return "\n".join([*lines, *_python(process), ""])


def _tasks(pid: int) -> list[Path]:
    return sorted(Path(f"/proc/{pid}/task").iterdir())[:40]


def _word(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip() or "?"
    except OSError:
        return ""


def _python(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error, OSError, subprocess.TimeoutExpired):
        if program := shutil.which("py-spy", path=process.environ().get("PATH")):
            words = [program, "dump", "--nonblocking", "--pid", str(process.pid)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
            return [masked(line) for line in done.stdout.splitlines()]
    return []
