"""Send what waits in a run's outbox without anybody waiting for it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import outlast
from outlast import rundir
from outlast.notice.outbox import waiting
from outlast.rundir import RunDir

# In a job, its supervisor sends; and a compute node can seldom do so.
IN_A_JOB = ("OUTLAST_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID")
_MOST_S = 60


def start(run: RunDir, env: Mapping[str, str]) -> bool:
    """Was `outlast mail flush` started? Only for messages of one's own, and outside of jobs.

    What goes wrong is in outbox/last-error, never on the terminal.
    """
    if any(name in env for name in IN_A_JOB) or not _is_ours(run) or not waiting(run):
        return False
    # A shared file system that hangs must not gather these processes.
    words = ["timeout", "-k", "5", str(_MOST_S), sys.executable, "-m", "outlast", "mail", "flush", str(run.path)]
    with suppress(OSError):
        subprocess.Popen(
            words,
            env={**env, "PYTHONPATH": str(Path(outlast.__file__).resolve().parents[1]), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return True
    return False


def _is_ours(run: RunDir) -> bool:
    """Could nobody else have written what the run's script says, or its messages?"""
    try:
        rundir.check_owner(run, os.geteuid())
    except rundir.RunDirError:
        return False
    return True
