"""Checkpoints in the layout of a Hugging Face Trainer, written by rank 0: OUTPUT_DIR/checkpoint-STEP/.

trainer_state.json is written last: a folder without it is not a checkpoint.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from outlast.demo.model import Adam, Weights

STATE = "trainer_state.json"
FOLDER = re.compile(r"checkpoint-([0-9]+)")

Log = dict[str, float]


class CheckpointError(ValueError):
    """There is no complete checkpoint where one was promised; the message names the folder."""


@dataclass
class Progress:
    """Where the run stands, and what it has logged: one entry a logged step, one an evaluation."""

    step: int = 0
    epoch: float = 0.0
    best_metric: float | None = None
    log_history: list[Log] = field(default_factory=list)


@dataclass
class Run:
    """All that a checkpoint holds."""

    weights: Weights
    moments: Adam
    progress: Progress


def save(
    output_dir: Path, run: Run, arguments: dict[str, Any], rate: float, in_between: Callable[[], None] = lambda: None
) -> Path:
    """The new checkpoint of that step; `in_between` is called when only trainer_state.json is missing."""
    progress = run.progress
    folder = output_dir / f"checkpoint-{progress.step}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STATE).unlink(missing_ok=True)  # what is being overwritten is not complete
    save_file(run.weights, folder / "model.safetensors", metadata={"format": "np"})
    save_file(_named(run.moments), folder / "optimizer.safetensors")
    _write(folder / "config.json", {"model_type": "outlast-demo", **_shapes(run.weights)})
    _write(folder / "training_args.json", arguments)
    _write(folder / "scheduler.json", {"last_epoch": progress.step, "last_lr": rate})
    # Every draw is a function of seed, step and rank (data.py): these are the whole state.
    _write(folder / "rng_state.json", {"seed": arguments["seed"], "step": progress.step})
    in_between()
    state = {
        "best_metric": progress.best_metric,
        "epoch": progress.epoch,
        "global_step": progress.step,
        "max_steps": arguments["max_steps"],
        "save_steps": arguments["save_steps"],
        "log_history": progress.log_history,
    }
    _write(folder / STATE, state)
    return folder


def load(folder: Path) -> Run:
    """What a checkpoint holds. Raises: CheckpointError."""
    if not (folder / STATE).is_file():
        raise CheckpointError(f"Can't find a valid checkpoint at {folder}")
    state = json.loads((folder / STATE).read_text())
    moments = load_file(folder / "optimizer.safetensors")
    return Run(
        load_file(folder / "model.safetensors"),
        Adam(_unnamed(moments, "first."), _unnamed(moments, "second.")),
        Progress(state["global_step"], state["epoch"], state["best_metric"], state["log_history"]),
    )


def newest(output_dir: Path) -> Path:
    """The folder with the highest step, complete or not, as a Trainer takes it. Raises: CheckpointError."""
    folders = found(output_dir)
    if not folders:
        raise CheckpointError(f"No valid checkpoint found in output directory ({output_dir})")
    return folders[-1]


def found(output_dir: Path) -> list[Path]:
    """All checkpoint folders, by step."""
    folders = [path for path in output_dir.glob("checkpoint-*") if FOLDER.fullmatch(path.name)]
    return sorted(folders, key=lambda path: int(path.name.removeprefix("checkpoint-")))


def prune(output_dir: Path, limit: int) -> None:
    """Remove all but the newest `limit` folders; 0 keeps all."""
    for folder in found(output_dir)[:-limit] if limit else []:
        shutil.rmtree(folder, ignore_errors=True)


def _named(moments: Adam) -> Weights:
    first = {f"first.{name}": value for name, value in moments.first.items()}
    return first | {f"second.{name}": value for name, value in moments.second.items()}


def _unnamed(arrays: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _shapes(weights: Weights) -> dict[str, list[int]]:
    return {name: list(value.shape) for name, value in weights.items()}


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write the file whole."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(part, path)
