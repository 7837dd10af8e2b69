"""outlast save: a checkpoint now."""

from outlast import rundir
from outlast.commands import _common, _control


def save(run: _common.RunArgument, why: _control.Why = "", dry_run: _common.DryRun = False) -> None:
    """Ask a running job for a checkpoint now."""
    found = _common.find_run(run)
    if not any(job.started_t for job in _common.events(found).open_jobs()):
        raise rundir.RunDirError(
            f"{found.name}: no job is running, so there is nothing to save; type outlast status {run}"
        )
    _control.ask("save", run, why, dry_run, f"saves within a minute and goes on; type outlast events {run} --follow")
