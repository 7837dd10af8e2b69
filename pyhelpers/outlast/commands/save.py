"""outlast save: a checkpoint now."""

from outlast import rundir, runstate
from outlast.commands import _common, _control


def save(run: _common.RunArgument, why: _control.Why = "", dry_run: _common.DryRun = False) -> None:
    """Ask a running job for a checkpoint now."""
    found = _common.find_run(run)
    _check_trainer(found)
    if not _trains(found):
        raise rundir.RunDirError(
            f"{found.name}: no job is running, so there is nothing to save; type outlast status {run}"
        )
    _control.ask("save", found, why, dry_run, f"saves within a minute and goes on; type outlast events {run} --follow")


def _check_trainer(run: rundir.RunDir) -> None:
    """Nothing, if the trainer saves at a signal, as far as the job script tells.

    Raises: RunDirError: it would die of it.
    """
    if not run.setting("SAVE_SIGNAL", default="not told"):
        raise rundir.RunDirError(
            f"{run.name}: this trainer cannot be asked to save (preset {run.setting('PRESET')} has no save_signal), so "
            'nothing was written; if it saves at USR1 and goes on, set checkpoint.save_signal = "USR1" in the job file'
        )


def _trains(run: rundir.RunDir) -> bool:
    """Does a job of the run run, as the scheduler says, or else the ledger?"""
    jobs = _common.events(run).open_jobs()
    answers = runstate.ask(_common.scheduler(run), jobs)
    running = [job for job, state in answers.items() if state and state.state == "running"]
    return bool(running) or any(job.started_t and answers.get(job.id, job) is None for job in jobs)
