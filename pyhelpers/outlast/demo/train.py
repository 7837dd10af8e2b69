"""Train a small language model: `python3 -m outlast.demo.train`, or `from outlast.demo.train import main`.

Arguments are those of a Hugging Face Trainer (options.py). Ranks, ports and the master come from RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR and MASTER_PORT. The same steps have the same losses, to the bit, however often the run was
resumed, for one number of ranks.

    OUTLAST_STOP_FILE  when this file exists, as rank 0 sees it: save after the step in progress and exit 0
    TERM to any rank   the same
    USR1 to any rank   save after the step in progress and go on
    faults.json        accidents that a test orders (faults.py)

Before the ranks have met TERM has its usual effect. `train_runtime` is printed at each orderly end, a stop too.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

# A rank is one thread: the library would start one a core, and the ranks would fight for them.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from outlast.demo import checkpoint, collective, data, faults, model, options
from outlast.demo.checkpoint import Log, Progress, Run
from outlast.demo.collective import CollectiveError, Group, Place
from outlast.demo.faults import Faults
from outlast.demo.progress import Reporter

STOP = 1
SAVE = 2


class Asked:
    """What signals and the stop file have asked of this rank; all ranks learn of it with the next average."""

    def __init__(self, stop_file: str) -> None:
        self.stop_file = stop_file
        self.flags = 0
        signal.signal(signal.SIGUSR1, lambda *_: self._ask(SAVE))

    def listen(self) -> None:
        """From here on TERM asks for a checkpoint and an end, instead of killing."""
        signal.signal(signal.SIGTERM, lambda *_: self._ask(STOP))

    def rest(self) -> None:
        """From here on TERM does nothing: a Python that is ending has no handlers, and one more would make it 143."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _ask(self, flag: int) -> None:
        self.flags |= flag

    def is_pending(self) -> bool:
        """Has anything been asked since the last `take`?"""
        return bool(self.flags) or (bool(self.stop_file) and os.path.exists(self.stop_file))

    def take(self) -> int:
        """What has been asked since the last call; the stop file asks for as long as it is there."""
        flags, self.flags = self.flags, 0
        if self.stop_file and os.path.exists(self.stop_file):
            flags |= STOP
        return flags


@dataclass
class Trainer:
    """One rank of a run, ready to train."""

    args: argparse.Namespace
    place: Place
    run: Run
    text: data.Text
    group: Group
    faults: Faults
    asked: Asked
    reporter: Reporter
    first_step: int  # steps done before this launch
    saved_step: int = -1

    @property
    def made(self) -> int:
        """Steps made in this launch."""
        return self.run.progress.step - self.first_step

    def train(self) -> None:
        """Train up to max_steps, or until asked to stop."""
        began = time.monotonic()
        flags = 0
        while self.run.progress.step < self.args.max_steps and not flags & STOP:
            self.faults.between_steps(self.run.progress.step, self.made, self.asked.is_pending)
            flags = self.step()
            self.evaluate()
            if self.is_due(self.args.save_steps) or flags:
                self.save()
        if self.run.progress.step != self.saved_step and self.made:
            self.save()
        self.group.barrier()  # a save that fails fails the launch, not rank 0 alone
        self.asked.rest()
        self.reporter.end()
        self.reporter.logged({"train_runtime": round(time.monotonic() - began, 2)}, self.run.progress.step)

    def is_due(self, every: int) -> bool:
        """Does something done every so many steps happen now?"""
        return every > 0 and self.run.progress.step % every == 0

    def step(self) -> int:
        """One step of all ranks; what has been asked of any of them."""
        args, run, began = self.args, self.run, time.monotonic()
        number = run.progress.step + 1
        size = args.per_device_train_batch_size
        batch = data.batch(self.text.train, size, model.CONTEXT, args.seed, number, self.place.rank)
        row = model.pack(*model.loss_and_gradients(run.weights, *batch))
        if self.faults.due("nan", number - 1, self.made):
            row[:] = np.nan
        time.sleep(max(0.0, args.step_time - (time.monotonic() - began)))
        row, flags = self.group.average(row, 0 if self.faults.deaf else self.asked.take())
        loss, gradients = model.unpack(row, run.weights)
        rate = self.rate(number)
        norm = model.update(run.weights, gradients, run.moments, number, rate)
        run.progress.step = number
        run.progress.epoch = round(number * size * self.place.world / len(self.text.train), 4)
        self.reporter.stepped(number, self.made)
        if self.is_due(args.logging_steps):
            self.log({"loss": loss, "grad_norm": norm, "learning_rate": rate})
        return flags

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return model.learning_rate(step, self.args.max_steps, self.args.learning_rate)

    def evaluate(self) -> None:
        """Rank 0 evaluates when it is time to; the others wait for it at their next average."""
        if self.place.rank or not self.is_due(self.args.eval_steps):
            return
        progress = self.run.progress
        if fault := self.faults.due("slow_eval", progress.step, self.made):
            self.reporter.evaluate(fault.seconds)
        loss = model.loss(self.run.weights, *data.evaluation_batch(self.text.evaluation, model.CONTEXT))
        progress.best_metric = min(loss, progress.best_metric or loss)
        self.log({"eval_loss": loss})

    def log(self, entry: Log) -> None:
        """Print an entry and keep it for the next checkpoint."""
        progress = self.run.progress
        progress.log_history.append({**entry, "epoch": progress.epoch, "step": progress.step})
        shown = {name: round(value, 6) for name, value in entry.items()}
        self.reporter.logged({**shown, "epoch": progress.epoch}, progress.step)

    def save(self) -> None:
        """Rank 0 saves and removes old checkpoints; the others wait for it at their next average."""
        step = self.saved_step = self.run.progress.step
        if self.place.rank:
            return
        output_dir = Path(self.args.output_dir)
        made = self.made
        checkpoint.save(output_dir, self.run, vars(self.args), self.rate(step), lambda: self.faults.in_save(step, made))
        checkpoint.prune(output_dir, self.args.save_total_limit)


def start(args: argparse.Namespace, ignored: list[str], place: Place, troubles: Faults) -> Trainer:
    """This rank of a run, resumed if asked, and met with the others.

    Raises: CheckpointError, CollectiveError, OSError.
    """
    asked = Asked(os.environ.get("OUTLAST_STOP_FILE", ""))
    if fault := troubles.due("slow_start"):
        time.sleep(fault.seconds)
    run = fresh(args) if troubles.due("fresh_start") else resumed(args)
    group = collective.meet(place, run.progress.step, args.ddp_timeout)
    asked.listen()
    reporter = Reporter(args.max_steps, args.plain, speaks=place.rank == 0)
    if ignored:
        reporter.note(f"arguments without meaning here: {' '.join(ignored)}")
    reporter.begin(run.progress.step, place.world)
    text = data.standard_library()
    return Trainer(args, place, run, text, group, troubles, asked, reporter, run.progress.step)


def fresh(args: argparse.Namespace) -> Run:
    """A run before its first step."""
    weights = model.initial(args.seed)
    return Run(weights, model.adam(weights), Progress())


def resumed(args: argparse.Namespace) -> Run:
    """The run as its checkpoint left it, or a fresh one if none is asked for. Raises: CheckpointError."""
    name = args.resume_from_checkpoint
    if name.lower() in ("", "false", "none"):
        return fresh(args)
    folder = checkpoint.newest(Path(args.output_dir)) if name.lower() == "true" else Path(name)
    return checkpoint.load(folder)


def main(words: list[str] | None = None) -> None:
    """Train as the arguments say. Exits 1 with a traceback, each line marked with the rank, if that fails."""
    args, ignored = options.parse(words)
    place = collective.place_from(os.environ)
    troubles = Faults(faults.path_from(os.environ), place.rank)
    try:
        start(args, ignored, place, troubles).train()
    except Exception as err:
        lines = traceback.format_exc().splitlines()
        print("".join(f"[rank{place.rank}]: {line}\n" for line in lines), end="", file=sys.stderr, flush=True)
        if isinstance(err, CollectiveError) and (fault := troubles.due("stay")):
            faults.stop_deaf(fault.seconds)
        sys.exit(1)


if __name__ == "__main__":
    main()
