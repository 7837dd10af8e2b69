"""Give up after some seconds, wherever Python waits for the network."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """A block that lasts no longer: a socket's own timeout starts anew with each byte of a slow server.

    For the main thread only. Raises: TimeoutError.
    """

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    began = time.monotonic()
    left, again = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # somebody else's alarm
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.01), again)
