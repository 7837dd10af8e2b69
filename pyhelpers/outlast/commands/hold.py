"""outlast hold: the current job goes on, no further one starts."""

from outlast.commands import _common, _control


def hold(run: _common.RunArgument, why: _control.Why = "", dry_run: _common.DryRun = False) -> None:
    """Let the current job go on, but start no further one."""
    effect = f"the current job goes on, no further one starts; to go on later, type outlast resume {run}"
    _control.ask("hold", run, why, dry_run, effect)
