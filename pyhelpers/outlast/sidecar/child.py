"""Work that may hang: in a child of the coordinator, which looks for its end now and then and never waits for it."""

import contextlib
import ctypes
import errno
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """KILL for this process when its parent is gone."""
    _LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)


class Child:
    """One call in a forked process. The coordinator has one thread only, so a fork is safe."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.begun_s = time.monotonic()
        self.answer: Any = None
        self.error = ""  # "" none; the name of an errno; lost; torn; internal
        self.text = ""
        parent = os.getpid()
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            self._work(call, writer, parent)
        os.close(writer)
        os.set_blocking(reader, False)
        self._reader = reader
        self._said = b""

    @staticmethod
    def _work(call: Callable[[], Any], writer: int, parent: int) -> None:
        said: dict[str, Any] = {}
        try:
            die_with_parent()
            if os.getppid() != parent:
                os._exit(1)
            said["answer"] = call()
        except OSError as err:
            said = {"error": errno.errorcode.get(err.errno or 0, "EIO"), "text": str(err)}
        except Exception as err:
            kinds = {"LeaseLostError": "lost", "TornError": "torn"}
            said = {"error": kinds.get(type(err).__name__, "internal"), "text": f"{type(err).__name__}: {err}"}
        with contextlib.suppress(OSError):
            os.write(writer, json.dumps(said).encode()[:60000])
        os._exit(0)

    def is_over(self) -> bool:
        """Has it ended? Then `answer`, or `error` and `text`, say how."""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._reader, 65536):
                self._said += piece
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._reader, 65536):
                self._said += piece
        os.close(self._reader)
        try:
            said = json.loads(self._said)
            self.answer, self.error, self.text = said.get("answer"), said.get("error", ""), said.get("text", "")
        except ValueError:
            self.error, self.text = "internal", f"a child ended with status {status}"
        return True


class Errand:
    """One call at a time in a child, and who hears how it ended. `lost` hears of a run that is another job's now."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self._child: Child | None = None
        self._end: Callable[[Child], None] = lambda child: None

    @property
    def is_out(self) -> bool:
        """Is there a child whose end was not heard of yet?"""
        return self._child is not None

    def start(self, call: Callable[[], Any], end: Callable[[Child], None]) -> None:
        """Begin a call; `end` gets the child, by the `look` that finds it over."""
        self._child, self._end = Child(call), end

    def look(self) -> None:
        """Hear of its end, if that has come."""
        if self._child is not None and self._child.is_over():
            child, self._child = self._child, None
            if child.error == "lost":
                self._lost(child.text)
            self._end(child)
