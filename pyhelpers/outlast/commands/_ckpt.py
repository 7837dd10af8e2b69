"""What the verbs of `outlast ckpt` share: which folder or checkpoint was typed, and the run around it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from outlast import driver, ledger, rundir
from outlast.checkpoint import shelf as shelves
from outlast.checkpoint import used
from outlast.checkpoint.shelf import Entry, Shelf
from outlast.commands import _common
from outlast.refused import Refused

Where = Annotated[
    str, typer.Argument(metavar="WHERE", help="A run, a folder of checkpoints, or one checkpoint; a path has a slash.")
]
Step = Annotated[int, typer.Argument(metavar="STEP", min=0, help="The step of a checkpoint.")]
MaybeStep = Annotated[int | None, typer.Argument(metavar="[STEP]", min=0, help="The step; without it, the newest one.")]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Why; it is kept with the checkpoint.")]


class CheckpointRefused(Refused):
    """There is no such checkpoint, or it can't be done with this one."""


@dataclass(frozen=True)
class Place:
    """The folder that was typed; the run that it belongs to, and the checkpoint, if one was typed itself."""

    shelf: Shelf
    run: rundir.RunDir | None = None
    only: Path | None = None

    def entries(self) -> list[Entry]:
        """Its checkpoints, by step.

        Raises: OSError: the folder can't be read.
        """
        if self.only is not None and self.run is None:
            alone = shelves.one(self.only, time.time())
            return [alone] if alone else []
        found = shelves.entries(self.shelf, time.time())
        return [entry for entry in found if self.only in (None, entry.path)]


def place(typed: str) -> Place:
    """What was typed: a run by its name, or a path.

    Raises: Refused: there is none.
    """
    if "/" not in typed and typed not in (".", ".."):
        return of_run(_common.find_run(typed))
    path = Path(typed).resolve()
    if rundir.is_run(path):
        return of_run(rundir.RunDir(path))
    if rundir.is_run(path.parent) and path.name == "checkpoints":
        return of_run(rundir.RunDir(path.parent))
    if not path.exists():
        raise CheckpointRefused(f"{path}: there is no such file or folder")
    if rundir.is_run(path.parent.parent) and path.parent.name == "checkpoints":
        run = of_run(rundir.RunDir(path.parent.parent))
        return Place(run.shelf, run.run, path)
    # A folder that holds checkpoints is none itself.
    inside = shelves.entries(Shelf(path), time.time()) if path.is_dir() else []
    return Place(Shelf(path)) if inside else Place(Shelf(path.parent), only=path)


def of_run(run: rundir.RunDir) -> Place:
    """The durable checkpoints of a run, which its job script knows the names of."""
    if not run.script.is_file():
        return Place(Shelf(run.path / "checkpoints", events=run.events), run)
    quiet_s = run.setting("CKPT_QUIET_S", "60")
    prefix, marker = run.setting("CKPT_PREFIX"), run.setting("CKPT_COMPLETE")
    rest_s = float(quiet_s) if quiet_s.isdecimal() else 60.0
    return Place(Shelf(run.path / "checkpoints", prefix, marker, rest_s, run.events), run)


def its_run(found: Place) -> rundir.RunDir:
    """The run that was typed.

    Raises: CheckpointRefused: it is none.
    """
    if found.run is None:
        raise CheckpointRefused(f"{found.shelf.folder} belongs to no run; this verb needs one")
    return found.run


def pick(found: Place, step: int | None) -> Entry:
    """The checkpoint of a step (of several the durable one); None: the newest.

    Raises: CheckpointRefused: there is none.
    """
    there = found.entries()
    of_step = [entry for entry in there if step is None or entry.step == step]
    if of_step:
        return max(of_step, key=lambda entry: (entry.step, entry.state == "durable"))
    if not there:
        raise CheckpointRefused(f"{found.only or found.shelf.folder}: no checkpoint is there")
    steps = ", ".join(str(entry.step) for entry in there[-8:])
    raise CheckpointRefused(f"{found.shelf.folder}: no checkpoint of step {step}; there are {steps}")


def running(run: rundir.RunDir) -> str:
    """The job of the run that runs or ends; empty: none does.

    Raises: NoAnswer: the scheduler doesn't say; Refused: no script, no scheduler.
    """
    by, told = _common.scheduler(run), _common.events(run)
    return next((job for job in _common.live_jobs(run, told, by) if by.state(job).state != "pending"), "")


def in_use(run: rundir.RunDir) -> set[int]:
    """Steps that a job of the run may be reading: it has them put on its nodes, and has made no step since.

    Where nobody can say whether that job lives, it does.
    """
    return {step for job, step in used.staged(_common.ledger_of(run)).items() if _may_live(run, job)}


def _may_live(run: rundir.RunDir, job: str) -> bool:
    try:
        return _common.scheduler(run).state(job).is_live
    except driver.NoAnswer:
        return True


def note(run: rundir.RunDir | None, event: str, /, **fields: ledger.Value) -> None:
    """Write it into the run's ledger, if there is a run.

    Raises: RunDirError.
    """
    if run is not None:
        _common.note(run, event, **fields)


def reason(why: str, what: str) -> str:
    """Who did what when, and why, in one line."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return f"{what} by {_common.user()}, {when}" + (f": {' '.join(why.split())}" if why else "")


def size(count: int) -> str:
    """Bytes as a person reads them."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
