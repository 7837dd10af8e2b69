"""outlast hold: the current job goes on, no further one starts."""

from outlast.commands import _common, _control


def hold(run: _common.RunArgument, why: _control.Why = "", dry_run: _common.DryRun = False) -> None:
    """Let the current job go on, but start no further one."""
    found = _common.find_run(run)
    _common.check_unfinished(found, "hold")
    effect = f"the current job goes on, no further one starts; to go on later, type outlast resume {run}"
    _control.ask("hold", found, why, dry_run, effect)
