"""Processes of a run on this machine. The one home of psutil."""

import psutil


def of_rank(run: str, job: str, rank: int, program: str) -> int | None:
    """The process that is this rank of the run's trainer, None where there is none (yet, or any more).

    It is told by what outlast gives to each rank, and by its program: the shim around it has the same variables.
    """
    wanted = {"OUTLAST_RUN": run, "OUTLAST_JOB_ID": job, "RANK": str(rank)}
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if wanted.items() <= environment.items() and program in process.cmdline()[1:]:
                return int(process.pid)
        except psutil.Error:
            continue
    return None
