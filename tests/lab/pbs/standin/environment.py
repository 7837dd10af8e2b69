"""The environment of a job's script and of its tasks (facts §4)."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import Any

from standin import chunks, conf

TASK_PATH = "/bin:/usr/bin"


def tmpdir(job_id: str) -> Path:
    """Exists on every host of the job."""
    return Path(f"/var/tmp/pbs.{job_id}")


def nodefile(job_id: str) -> Path:
    """On every host of the job; rewritten in place when hosts are released."""
    return conf.HOME / "aux" / job_id


def of_job(job: dict[str, Any]) -> dict[str, str]:
    """What every process that PBS starts sees. Nothing comes from the submitting shell but Variable_List."""
    who = pwd.getpwnam(job["user"])
    first = chunks.parse(job["attributes"]["Resource_List.select"])[0]
    threads = first.wants.get("ompthreads", str(first.ncpus))
    return {
        **job["environment"],
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "ENVIRONMENT": "BATCH",
        "PBS_JOBID": job["id"],
        "PBS_JOBNAME": job["attributes"]["Job_Name"],
        "PBS_QUEUE": job["attributes"]["queue"],
        "PBS_NODEFILE": str(nodefile(job["id"])),
        "PBS_JOBDIR": who.pw_dir,
        "PBS_JOBCOOKIE": job["cookie"],
        "PBS_MOMPORT": "15003",
        "PBS_NODENUM": str(job["number"]),
        "TMPDIR": str(tmpdir(job["id"])),
        "NCPUS": threads,
        "OMP_NUM_THREADS": threads,
        "HOME": who.pw_dir,
    }


def of_script(job: dict[str, Any]) -> dict[str, str]:
    """The first process on the first host. A login shell gives it its PATH; a bare program has this one."""
    who = pwd.getpwnam(job["user"])
    shell = {"USER": who.pw_name, "LOGNAME": who.pw_name, "SHELL": who.pw_shell}
    return {**of_job(job), **shell, "PATH": TASK_PATH, "PBS_TASKNUM": "1"}


def of_task(job: dict[str, Any], number: int) -> dict[str, str]:
    """What pbs_tmrsh or pbsdsh starts: nothing that the script has exported, no profile."""
    return {**of_job(job), "PATH": TASK_PATH, "PBS_TASKNUM": f"{0x40000000 + number:X}"}
