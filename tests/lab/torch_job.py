"""A job of the lab that trains with torch: torch_train.py, one rank a host, for scenarios marked `torch`."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

from harness import CHECKOUT, HERE, Lab

TRAINER = HERE / "torch_train.py"


@cache
def python() -> Path:
    """A Python with torch, made if it is not there yet; all that the trainer imports is compiled.

    A lab sees it read-only, so each rank would compile it anew: 10 s instead of 3.
    """
    setup = CHECKOUT / "tests/libraries/setup"
    found = Path(subprocess.run([setup], check=True, text=True, stdout=subprocess.PIPE).stdout.strip())
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "pyhelpers"), "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([found, TRAINER, "--help"], check=True, env=environment, stdout=subprocess.DEVNULL)
    return found


def environment() -> Path:
    """The folder that a lab's hosts must see for it."""
    return python().parent.parent


def render(lab: Lab, *options: str, words: str = "", steps: int = 100, nodes: int = 4) -> None:
    """A job of so many hosts and steps; `words` are the trainer's own (torch_train.py --help)."""
    command = f"{python()} -u {TRAINER} {{ckpt_dir}} --steps {steps} {words}"
    # Where nodes have no disk they write to memory.
    where = ["checkpoint.storage=local", *([] if lab.saves_on_nodes else ["checkpoint.memory_gib=1"])]
    told = [*where, "preset=torchtitan", f"command={command}", f"nodes={nodes}", "ranks_per_node=1"]
    told += [f"env.PYTHONPATH={CHECKOUT / 'pyhelpers'}", f"progress.target_step={steps}", *options]
    lab.render(*(word for text in told for word in ("--set", text)))


def losses(lab: Lab) -> dict[int, set[str]]:
    """The losses that the run has printed for each step: one, if each launch went on exactly where it should."""
    found: dict[int, set[str]] = {}
    for path in sorted((lab.folder / "logs").iterdir()):
        for step, loss in re.findall(r"step: *(\d+) +loss: +([-+.\de]+)", path.read_text(errors="replace")):
            found.setdefault(int(step), set()).add(loss)
    return found
