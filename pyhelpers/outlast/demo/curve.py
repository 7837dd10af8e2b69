"""The loss of a demo run as its newest checkpoint remembers it."""

from __future__ import annotations

import json
from pathlib import Path

from outlast.demo.checkpoint import FOLDER, STATE

Point = tuple[int, float]  # step, loss


def read(checkpoints: Path) -> tuple[list[Point], list[Point]]:
    """Losses and evaluation losses by step, from the newest complete checkpoint; empty where there is none."""
    states = [folder / STATE for folder in checkpoints.glob("checkpoint-*") if FOLDER.fullmatch(folder.name)]
    states = sorted((s for s in states if s.is_file()), key=lambda state: int(state.parent.name.split("-")[1]))
    if not states:
        return [], []
    history = json.loads(states[-1].read_text())["log_history"]
    return _points(history, "loss"), _points(history, "eval_loss")


def _points(history: list[dict[str, float]], key: str) -> list[Point]:
    return [(int(entry["step"]), entry[key]) for entry in history if key in entry]
