"""shepherd: starts the ranks of one application on one host, and stays until they have ended.

Its ranks die with its mpiexec: when that is gone, they get SIGKILL.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from typing import IO, Any

from standin import session
from standin.wire import Line


class Flock:
    """The ranks of this host."""

    def __init__(self, line: Line, launch: dict[str, Any]) -> None:
        self.line = line
        self.in_lines = launch["line_buffer"]
        self.ranks: dict[int, subprocess.Popen[bytes]] = {}
        self.waiting: list[threading.Thread] = []
        for number, rank in enumerate(launch["ranks"]):
            local = {"PALS_LOCAL_RANKID": number, "PMI_LOCAL_RANK": number, "PALS_RANKID": rank, "PMI_RANK": rank}
            if launch["pmix"]:
                local["PMIX_RANK"] = rank
            self._start(rank, launch["argv"], {**launch["env"], **{k: str(v) for k, v in local.items()}}, launch["cwd"])

    def _start(self, rank: int, argv: list[str], env: dict[str, str], cwd: str) -> None:
        try:
            process = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as err:
            self.line.send(rank=rank, stream="err", text=f"{argv[0]}: {err.strerror}\n")
            self.line.send(rank=rank, ended=127)
            return
        self.ranks[rank] = process
        readers = {}
        for stream, pipe in (("out", process.stdout), ("err", process.stderr)):
            assert pipe
            reader = threading.Thread(target=self._pass_on, args=(rank, stream, pipe), daemon=True)
            reader.start()
            readers[reader] = pipe.fileno()
        self.waiting += readers
        waiter = threading.Thread(target=self._wait, args=(rank, process, readers), daemon=True)
        waiter.start()
        self.waiting.append(waiter)

    def _pass_on(self, rank: int, stream: str, pipe: IO[bytes]) -> None:
        chunks = pipe if self.in_lines else iter(lambda: os.read(pipe.fileno(), 65536), b"")
        for chunk in chunks:
            with suppress(OSError):
                self.line.send(rank=rank, stream=stream, text=chunk.decode(errors="replace"))

    def _wait(self, rank: int, process: subprocess.Popen[bytes], readers: dict[threading.Thread, int]) -> None:
        code = process.wait()
        # What it printed goes before its end; a child of its own may keep the pipe open, and is not waited for.
        for reader, pipe in readers.items():
            reader.join(0.5)
            while reader.is_alive() and waiting_bytes(pipe):
                reader.join(0.1)
        with suppress(OSError):
            self.line.send(rank=rank, ended=code)

    def signal(self, number: int) -> None:
        """To the process that is the rank; KILL also to what it has started."""
        for process in self.ranks.values():
            if number == signal.SIGKILL:
                session.kill_all(process.pid)
            elif process.poll() is None:
                with suppress(ProcessLookupError):
                    process.send_signal(number)


def waiting_bytes(pipe: int) -> int:
    """How many bytes of a pipe nobody has read yet."""
    answer = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, answer)
    return answer[0]


def main(words: list[str]) -> None:
    launch = json.load(sys.stdin)
    line = Line(socket.socket(fileno=int(words[0])))
    flock = Flock(line, launch)
    with suppress(OSError):
        for message in line:
            if "signal" in message:
                flock.signal(message["signal"])
            elif "ping" in message:
                line.send(pong=message["ping"])
            elif "bye" in message:
                break
    flock.signal(signal.SIGKILL)
    os._exit(0)
