"""Send what waits in a run's outbox without anybody waiting for it."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
    return _started([sys.executable, "-m", "outlast", "mail", "flush", str(run.path)], env)


# Each PLACE is a glob pattern. A run whose server was away a minute ago is left for later.
_BESIDE = r"""
python=$1 named=$2 IFS=
for place in "${@:3}"; do
  for box in $place/*/outbox; do
    run=${box%/outbox}
    [[ -O $box && $'\n'$named$'\n' != *$'\n'"$run"$'\n'* ]] && compgen -G "$box/*.mail*" || continue
    [[ -z $(find "$box/last-error" -mmin -1) ]] || continue
    "$python" -m outlast mail flush "$run" --limit 20
  done
done
"""


def start_beside(named: Sequence[RunDir], places: Sequence[str], env: Mapping[str, str]) -> bool:
    """Was a look begun for what waits in other runs of these places (glob patterns)?

    Nothing of them is touched here: the file system that they are on may hang.
    """
    if any(name in env for name in IN_A_JOB) or not places:
        return False
    words = ["bash", "-c", _BESIDE, "beside", sys.executable, "\n".join(str(run.path) for run in named), *places]
    return _started(words, env)


def _started(words: Sequence[str], env: Mapping[str, str]) -> bool:
    with suppress(OSError):
        # A shared file system that hangs must not gather these processes.
        subprocess.Popen(
            ["timeout", "-k", "5", str(_MOST_S), *words],
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
