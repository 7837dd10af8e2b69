"""Processes of a run on this machine. The one home of psutil."""

from pathlib import Path

import psutil


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
