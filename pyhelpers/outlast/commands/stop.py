"""outlast stop: save, end, and no further job."""

from outlast.commands import _common, _control


def stop(run: _common.RunArgument, why: _control.Why = "", dry_run: _common.DryRun = False) -> None:
    """Ask a run to save and to end; its chain stops."""
    effect = f"saves and ends, within a minute; to go on later, type outlast resume {run}"
    _control.ask("stop", run, why, dry_run, effect)
