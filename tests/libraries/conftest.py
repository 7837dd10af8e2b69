"""Checkpoints written by the libraries themselves, in processes of a Python of their own; read here without them."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from outlast.checkpoint import known, listing
from outlast.checkpoint.format import Scene, Verdict

HERE = Path(__file__).parent
LIMIT_S = 400  # a machine may be busy with other tests; alone it is a tenth


@dataclass(frozen=True)
class Hosts:
    """Folders that stand for the node-local storage of hosts, h0, h1, …: each has what its rank writes."""

    root: Path

    def listing(self) -> dict[str, tuple[listing.File, ...]]:
        return {folder.name: listing.scan(folder) for folder in sorted(self.root.iterdir()) if folder.is_dir()}

    def look(self, path: str) -> BinaryIO:
        for folder in sorted(self.root.iterdir()):
            with contextlib.suppress(FileNotFoundError):
                return (folder / path).open("rb")
        raise FileNotFoundError(path)

    def find(self) -> dict[int, known.Found]:
        return {found.step: found for found in known.find(self.listing())}

    def gathered(self, name: str, into: Path) -> Path:
        """A checkpoint with the parts of all hosts in one folder, as it lies on the parallel file system."""
        for folder in sorted(self.root.iterdir()):
            if (folder / name).is_dir():
                shutil.copytree(folder / name, into / name, dirs_exist_ok=True)
        return into / name

    def judge(self, step: int, scene: Scene) -> Verdict:
        found = self.find()
        return known.judge(found[step], self.look, known.in_scene(found.values(), self.look, scene))


def scene(**changes: object) -> Scene:
    """A minute later, nobody known to write."""
    return Scene(**{"now": time.time() + 60, "quiet_s": 30, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def torch_python() -> str:
    return subprocess.run([HERE / "setup"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def free_port() -> int:
    """One that the kernel gives to nobody who asks for any, before the ranks have it."""
    while True:
        port = random.SystemRandom().randrange(10000, 20000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextlib.contextmanager
def running(python: str, writer: str, root: Path, world: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a writer, whose ranks each have a host of their own: root/hR. At the end it is killed."""
    port = free_port()
    root.mkdir(parents=True, exist_ok=True)
    words = [python, str(HERE / "writers" / writer), str(root), str(world), *options]
    env = {**os.environ, "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with (root / "log").open("w") as log:
        process = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(python: str, writer: str, root: Path, world: int, *options: str) -> Hosts:
    """What a writer has written when all its ranks have ended with 0."""
    with running(python, writer, root, world, *options) as process:
        process.wait(LIMIT_S)
        assert process.returncode == 0, words_of(root)
    return Hosts(root)


def words_of(root: Path) -> str:
    """The last words of the ranks."""
    return "\n".join(f"{log}:\n{log.read_text()[-2000:]}" for log in sorted(root.glob("*log")))


def until(there: Callable[[], bool], process: subprocess.Popen[bytes], root: Path) -> None:
    """Wait for it, while the writer lives."""
    end = time.monotonic() + LIMIT_S
    while not there():
        assert process.poll() is None, words_of(root)
        assert time.monotonic() < end, words_of(root)
        time.sleep(0.05)
