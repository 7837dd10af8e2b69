"""outlast demo: a whole run on this machine, told as it happens."""

import argparse
import importlib.util
import os
import signal
import sys
import time
from pathlib import Path

import typer

from outlast import config, ledger, processes, rundir, story, tree
from outlast.commands import _common, render
from outlast.commands import events as telling
from outlast.commands import submit as submitting
from outlast.refused import Refused

TRAINER = "outlast.demo.train"
VICTIM = 1  # the rank that is killed, and later stopped
EARLY_S = 20  # of a job's 40 s: later, its own deadline would be the end that is told
LIMIT_S = 300.0  # it takes a minute and a half
STOP_LIMIT_S = 60.0


class DemoError(Refused):
    """The run did not finish."""

    status = 1


def demo() -> None:
    """Show a whole run on this machine: lose a rank, run out of time, resume, hang, finish."""
    new = _prepared(tree.root())
    typer.echo(
        f"A small language model learns Python here, in jobs of {_walltime_s(new)} s on a scheduler of one machine."
    )
    typer.echo(
        "It needs more time than one job has; after its first checkpoint rank 1 is killed, and in a later job stopped"
    )
    typer.echo("in silence, as in a collective that hangs.\n")
    run, _ = submitting.start(new)
    show = Show(run)
    try:
        show.until_over()
    except KeyboardInterrupt:
        _stop(show)
        raise typer.Exit(130) from None
    _picture(show)
    _where(run)
    if not show.state.finished:
        raise DemoError(f"the run did not finish; type outlast status {run.path}, or read {run.path}/logs")


def _prepared(root: Path) -> submitting.New:
    missing = [name for name in ("numpy", "safetensors") if importlib.util.find_spec(name) is None]
    if missing:
        raise DemoError(
            f"its trainer needs {' and '.join(missing)}; type {sys.executable} -m pip install {' '.join(missing)}"
        )
    runs = _runs(root)
    number = next(n for n in range(1, 10_000) if not (runs / f"demo-{n}").exists())
    words = [f"runs_dir={runs}", f"run=demo-{number}", f"project_dir={runs}/demo-{number}"]
    typed = render.typed(argparse.Namespace(nodes=None, walltime=None, account=None, queue=None, set=words))
    # The reader's own settings are for their own runs.
    return submitting.prepared(config.plan(root, "local", "demo", Path(os.devnull), typed), root)


def _runs(root: Path) -> Path:
    """demo-runs in the checkout, where git ignores it; among the user's state for an installed outlast."""
    if (root / "Makefile").exists() and os.access(root, os.W_OK):
        return root / "demo-runs"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "outlast/demo-runs"


def _walltime_s(new: submitting.New) -> str:
    return next(line.split("=")[1] for line in new.script.splitlines() if line.startswith("OUTLAST_WALLTIME_S="))


class Show:
    """The run as it goes on: tells each event, kills one rank, once, and in a later job stops it, once."""

    def __init__(self, run: rundir.RunDir) -> None:
        self.run = run
        self.told: list[ledger.Event] = []
        self.struck: list[int] = []  # the steps at which a rank was killed or stopped
        self._struck_in = ""
        self._reader = ledger.Reader(run.events)
        self._teller = telling.Teller(as_json=False)

    @property
    def state(self) -> ledger.Run:
        """What the events told make of the run."""
        return ledger.fold(sorted(self.told, key=lambda event: event.t))

    def until_over(self) -> None:
        """Tell until the run has ended. Raises: DemoError: it takes too long."""
        end = time.monotonic() + LIMIT_S
        while not telling.is_over(self.told):
            self.tell()
            if len(self.struck) < 2:
                self._strike()
            if time.monotonic() > end:
                raise DemoError(f"not over after {LIMIT_S:.0f} s; type outlast status {self.run.path}")
            time.sleep(0.2)

    def tell(self) -> None:
        """Tell what is new."""
        new = self._reader.new()
        self._teller.tell(new)
        self.told += new

    def is_alive(self) -> bool:
        """Does a job of the run wait or run? It lives on for a moment when it has written its end."""
        by = _common.scheduler(self.run)
        return any(by.state(job).is_live for job in self.state.jobs)

    def _strike(self) -> None:
        """Kill the victim once there is a checkpoint to go on from, or stop it in a job after that one.

        Only in a job that trains, and still has time to launch again.
        """
        job = [event for event in self.told if event.name == "started"][-1:]
        if not job or not self.state.durable_step or time.time() - job[0].t > EARLY_S:
            return
        if job[0].job == self._struck_in or not self._trains(job[0].job):
            return
        pid = processes.of_rank(self.run.name, job[0].job, VICTIM, TRAINER)
        if pid is None:
            return
        what, name = ("stops", signal.SIGSTOP) if self.struck else ("kills", signal.SIGKILL)
        os.kill(pid, name)
        self.struck.append(self.state.step or 0)
        self._struck_in = job[0].job
        typer.echo(f"{story.clock(time.time())}  demo: {what} rank {VICTIM}, process {pid}, with {name.name}")

    def _trains(self, job: str) -> bool:
        return any(event.name == "first_step" and event.job == job for event in self.told)


def _stop(show: Show) -> None:
    """Stop the run as `outlast stop` does, wait for its end, and say how to go on."""
    run = show.run
    typer.echo(
        f"\n{story.clock(time.time())}  demo: interrupted; asks the run to save and to end (again: leave it alone)"
    )
    rundir.ask(run, "stop", f"interrupted by {_common.user()}")
    end = time.monotonic() + STOP_LIMIT_S
    try:
        while show.is_alive() and time.monotonic() < end:
            time.sleep(0.5)
            show.tell()
    except KeyboardInterrupt:
        typer.echo("left alone; it ends by itself")
    typer.echo(f"to go on, type: outlast resume {run.path}; outlast events {run.path} --follow")


def _picture(show: Show) -> None:
    from outlast.demo import chart, curve

    losses, evaluations = curve.read(show.run.path / "checkpoints")
    begins = [event.number("durable_step") or 0 for event in show.told if event.name == "started"]
    typer.echo(f"\n{chart.draw(losses, evaluations, begins, show.struck)}\n")


def _where(run: rundir.RunDir) -> None:
    rows = [
        (run.path, "the run; delete it when you like"),
        (run.script, "the job script that every job ran"),
        (run.events, "what happened, for programs"),
        (run.path / "logs", "what the trainer and outlast said"),
        (run.path / "checkpoints", "what the next job would go on from"),
    ]
    width = max(len(_common.shown(path)) for path, _ in rows)
    for path, what in rows:
        typer.echo(f"{_common.shown(path):<{width}}  {what}")
