"""outlast stop: save, end, and no further job."""

from outlast import rundir, runstate
from outlast.commands import _common, _control
from outlast.refused import Refused


def stop(run: _common.RunArgument, why: _control.Why = "", dry_run: _common.DryRun = False) -> None:
    """Ask a run to save and to end; its chain stops."""
    found = _common.find_run(run)
    _common.check_unfinished(found, "stop")
    # The scheduler, which may be slow, is asked only where the file is there and nobody waits for it.
    if found.asked("stop") and not _may_be_live(found):
        raise rundir.RunDirError(f"{found.name} is stopped already; to go on, type outlast resume {run}")
    effect = "saves and ends, within a minute" if _is_open(found) else "no job of it is there, and none will start"
    _control.ask("stop", found, why, dry_run, f"{effect}; to go on later, type outlast resume {run}")


def _is_open(run: rundir.RunDir) -> bool:
    """May a job of the run wait or run, as far as its ledger tells?"""
    try:
        return bool(_common.events(run).open_jobs())
    except rundir.RunDirError:
        return True


def _may_be_live(run: rundir.RunDir) -> bool:
    """Is a job of the run there, or can nobody say?"""
    try:
        answers = runstate.ask(by := _common.scheduler(run), _common.events(run).open_jobs())
        return bool(runstate.live(answers) or None in answers.values() or by.find(run.name))
    except Refused:
        return True
