"""The drivers in lib/scheduler/: each is asked the questions of tests/driver, in a world of its own."""

from __future__ import annotations

import os
import subprocess

import pytest
from harness import CHECKOUT
from warden import lab_folder

DRIVER = CHECKOUT / "tests/driver"
WORLDS = sorted(path.stem for path in (DRIVER / "worlds").glob("*.bash"))
# Side by side, since most of what takes long is waiting.
TAGS = ["nodes", "accident", "silence"]
PARTS = {"jobs": ",".join(f"!{tag}" for tag in TAGS), **{tag: tag for tag in TAGS}}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_driver_answers_as_all_do(world: str, part: str) -> None:
    with lab_folder("outlast-driver-") as folder:
        done = subprocess.run(
            [str(DRIVER / "run"), world, "--filter-tags", PARTS[part]],
            env={**os.environ, "WORLD_DIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    assert done.returncode == 0, done.stdout
