"""A command that must not be silent: run, its output passed on, ended with all its processes when it hangs.

`outlast watch` is this for one machine, without a scheduler; jobs have lib/hang.sh. It needs Linux.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from outlast import processes
from outlast.refused import Refused

HANGS = 124  # as `timeout` has it
BACKOFF_S = (5.0, 10.0, 20.0, 40.0, 60.0)  # before the first try again, the second, ...
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
MARK = "OUTLAST_WATCH"  # in the environment of all its processes, those with a session of their own too
LAST_WORDS_S = 1.0  # for output that is still in a pipe when the command has ended
LINE = 65536  # of a line without an end no more is kept to look for a step


@dataclass(frozen=True)
class Limits:
    """What a command may do."""

    idle_s: float = 600.0
    retries: int = 0
    grace_s: float = 10.0
    step: re.Pattern[bytes] | None = None  # one group: what must change
    stacks: Path = Path("/tmp")


@dataclass
class Watch:
    """One `outlast watch`: tries the command, and again while it hangs."""

    command: list[str]
    limits: Limits
    say: Callable[[str], None]
    asked: int = 0  # the signal that ends us, once one has come
    child: subprocess.Popen[bytes] | None = None
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self) -> int:
        """Exit status: the command's own (128 and the signal that ended it), or 124 if it hung each time.

        Raises: Refused: the command can't be started.
        """
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)
        for turn in range(self.limits.retries + 1):
            code = self._try(turn)
            if code is not None:
                return code
            if turn < self.limits.retries and not self._pause(BACKOFF_S[min(turn, len(BACKOFF_S) - 1)]):
                return 128 + self.asked
        return HANGS

    def _pass_on(self, number: int, _: object) -> None:
        if number in ENDING:
            self.asked = number
        if self.child and self.child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, number)

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try. False: a signal has come meanwhile."""
        self.say(f"trying again in {seconds:.0f} s")
        until = time.monotonic() + seconds
        while not self.asked and time.monotonic() < until:
            time.sleep(0.1)
        return not self.asked

    def _try(self, turn: int) -> int | None:
        """The command's exit status; None: it hung, and none of its processes is left."""
        environment = {**os.environ, MARK: self.mark}
        try:
            self.child = subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True
            )
        except OSError as err:
            refused = Refused(f"{self.command[0]}: {err.strerror}")
            refused.status = 126 if isinstance(err, PermissionError) else 127
            raise refused from err
        moved = Moved(self.limits.step)
        with Pipes(self.child, moved) as pipes:
            while True:
                silent_s = time.monotonic() - moved.at
                pipes.pass_on(min(1.0, max(0.05, self.limits.idle_s - silent_s)))
                if self.child.poll() is not None:
                    pipes.drain()
                    code = self.child.returncode
                    return 128 - code if code < 0 else code
                silent_s = time.monotonic() - moved.at
                if silent_s > self.limits.idle_s and not self.asked:
                    self._end(turn, f"no {moved.what} for {silent_s:.0f} s", pipes)
                    return None

    def _end(self, turn: int, why: str, pipes: Pipes) -> None:
        path = self.limits.stacks / f"outlast-watch.{os.getpid()}.{turn + 1}.txt"
        found = self._processes()
        try:
            path.write_text("".join(processes.stack(pid) for pid in found))
            where = f"what its {len(found)} processes were doing is in {path}"
        except OSError as err:
            where = f"no stacks: {path}: {err.strerror}"
        self.say(f"hangs, try {turn + 1} of {self.limits.retries + 1}: {why}; {where}")
        self._signal(signal.SIGTERM)
        until = time.monotonic() + self.limits.grace_s
        while self._processes() and time.monotonic() < until:
            pipes.pass_on(0.1)
        # What is started while others are killed is seen by the next look.
        until = time.monotonic() + 10
        while self._processes() and time.monotonic() < until:
            self._signal(signal.SIGKILL)
            pipes.pass_on(0.1)
        if left := self._processes():
            self.say(f"processes that KILL did not end: {' '.join(map(str, left))}")
        if self.child:
            self.child.poll()

    def _processes(self) -> list[int]:
        return processes.marked(MARK, self.mark)

    def _signal(self, number: int) -> None:
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


class Moved:
    """When there was progress last: any output, or once a step has been seen only another one."""

    def __init__(self, step: re.Pattern[bytes] | None) -> None:
        self.at = time.monotonic()
        self.what = "output"
        self._step = step
        self._last = b""
        self._rest: dict[int, bytes] = {}

    def wrote(self, stream: int, text: bytes) -> None:
        """This came out of one of the command's pipes."""
        if self._step is None:
            self.at = time.monotonic()
            return
        *lines, rest = re.split(rb"[\r\n]", self._rest.get(stream, b"") + text)
        self._rest[stream] = rest[-LINE:]
        found = [match[1] for line in lines if (match := self._step.search(line))]
        if self.what == "output" or (found and found[-1] != self._last):
            self.at = time.monotonic()
        if found:
            self.what, self._last = "new step", found[-1]


class Pipes:
    """The command's stdout and stderr on their way to ours. Who reads ours no more ends nothing."""

    def __init__(self, child: subprocess.Popen[bytes], moved: Moved) -> None:
        self._moved = moved
        self._selector = selectors.DefaultSelector()
        for pipe, out in ((child.stdout, sys.stdout), (child.stderr, sys.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, out.fileno())

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            self._close(key)
        self._selector.close()

    def _close(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]  # a pipe

    def pass_on(self, seconds: float) -> bool:
        """Pass on what comes within so long. False: nothing came."""
        if not self._selector.get_map():
            time.sleep(min(seconds, 0.1))
            return False
        came = False
        for key, _ in self._selector.select(seconds):
            text = os.read(key.fd, 65536)
            if not text:
                self._close(key)
                continue
            came = True
            self._moved.wrote(key.fd, text)
            _write(key.data, text)
        return came

    def drain(self) -> None:
        """Pass on what the command has left; processes that it left behind may hold the pipes for ever."""
        until = time.monotonic() + LAST_WORDS_S
        while self._selector.get_map() and self.pass_on(0.05) and time.monotonic() < until:
            pass


def _write(descriptor: int, text: bytes) -> None:
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(descriptor, text) :]
