"""Accidents on order: what a test tells a rank of the demo trainer to suffer, and when.

The file is `faults.json` in the working folder, or what OUTLAST_DEMO_FAULTS names (set but empty: no faults).
Every rank reads it at its start and every 5 steps, so it can be dropped beside a running job; no file, no faults.
It holds one object or a list of them:

    [{"kind": "segv", "rank": 1, "step": 30, "once": "segv.done"}, {"kind": "slow_save", "seconds": 20}]

Fields, all but `kind` optional:

    kind     see below
    rank     who suffers it; absent: every rank
    step     not before this many steps of the whole run are done (0: before the first step of a launch).
             A run that resumes beyond it suffers at once, unless `once`
    after    and not before this many steps of this launch are done
    once     path of a marker file, made just before it happens; where it exists the fault is over, so it happens
             once in a chain. For a fault without `rank` each rank has its own marker, PATH.RANK
    seconds  a duration, where the kind takes one (default 3600)
    code     exit code, for `exit` (default 1)
    text     printed on stderr when it happens, such as the message of an error

Kinds:

    exit            leave with `code`, nothing cleaned up; the other ranks lose their peer and exit 1
    exit0           leave with 0 before the target step; without `rank` the whole launch ends so, at one step
    segv, kill      a real SIGSEGV, SIGKILL
    hang            stop for `seconds` between two steps; no signal but KILL ends that, the other ranks wait for it
    wait            stop between two steps as long as the file has this fault, `seconds` at most; whoever asks for a
                    checkpoint or an end gets it, and without `once` it stops again behind the next step
    stop            a real SIGSTOP
    stay            instead of exiting when a peer is lost, stop for `seconds`, deaf likewise
    ignore_signals  TERM, INT, USR1, USR2, HUP and the stop file have no effect from here on
    slow_start      sleep `seconds` before the ranks meet (`step`, `after` don't count); TERM still ends that
    fresh_start     start at step 0 in spite of --resume_from_checkpoint (`step` and `after` don't count)
    slow_eval       an evaluation takes `seconds` longer, and draws its bar meanwhile; rank 0 evaluates
    slow_save       stop for `seconds` in a save, model written and trainer_state.json not; rank 0 saves
    enospc          OSError ENOSPC in that place instead
    nan             gradients, so weights and losses from the next step on, become NaN
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

READ_EVERY_STEPS = 5
WAIT_LOOK_S = 0.1
KINDS = frozenset(
    "exit exit0 segv kill hang wait stop stay ignore_signals".split()
    + "slow_start fresh_start slow_eval slow_save enospc nan".split()
)
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


class FaultError(ValueError):
    """A fault that nobody can suffer: unknown kind or field; the message has it."""


@dataclass(frozen=True)
class Fault:
    """One accident; the fields are those of the file."""

    kind: str
    rank: int | None = None
    step: int = 0
    after: int = 0
    once: str = ""
    seconds: float = 3600.0
    code: int = 1
    text: str = ""


def parse(text: str) -> list[Fault]:
    """The faults of a file, in its order.

    Raises: FaultError: unknown kind or field; json.JSONDecodeError: not JSON (half written, say).
    """
    entries = json.loads(text)
    return [_fault(entry) for entry in (entries if isinstance(entries, list) else [entries])]


def _fault(entry: dict[str, object]) -> Fault:
    unknown = set(entry) - {field.name for field in fields(Fault)}
    if unknown:
        raise FaultError(f"faults: no field is called {', '.join(sorted(unknown))}")
    if entry.get("kind") not in KINDS:
        raise FaultError(f"faults: no kind is called {entry.get('kind')}; there are {', '.join(sorted(KINDS))}")
    return Fault(**entry)  # type: ignore[arg-type]  # values are the test author's business


def path_from(environ: Mapping[str, str]) -> Path | None:
    """The file to read, or None where the environment says that there are no faults."""
    name = environ.get("OUTLAST_DEMO_FAULTS", "faults.json")
    return Path(name) if name else None


class Faults:
    """What one rank has to suffer: reads the file again now and then, and remembers nothing else."""

    def __init__(self, path: Path | None, rank: int) -> None:
        self.path = path
        self.rank = rank
        self.list: list[Fault] = []
        self.read()

    def read(self) -> None:
        """Take the file as it is now; a torn one counts at the next reading."""
        try:
            self.list = parse(self.path.read_text()) if self.path else []
        except FileNotFoundError:
            self.list = []
        except json.JSONDecodeError as err:
            print(f"faults: {self.path}: {err}; left for the next reading", file=sys.stderr)

    def due(self, kind: str, step: int = sys.maxsize, made: int = sys.maxsize) -> Fault | None:
        """The first fault of that kind that happens here, after `step` steps of the run and `made` of this launch.

        It has happened with that: its marker is made, its text printed.
        """
        for fault in self.list:
            if (
                fault.kind == kind
                and fault.rank in (None, self.rank)
                and step >= fault.step
                and made >= fault.after
                and self._claim(fault)
            ):
                if fault.text:
                    print(fault.text, file=sys.stderr, flush=True)
                return fault
        return None

    def _claim(self, fault: Fault) -> bool:
        if not fault.once:
            return True
        marker = fault.once if fault.rank is not None else f"{fault.once}.{self.rank}"
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def between_steps(self, step: int, made: int, is_asked: Callable[[], bool] = lambda: False) -> None:
        """Suffer what happens between two steps; most of it does not return. `is_asked` ends a `wait`."""
        if made % READ_EVERY_STEPS == 0 and made:
            self.read()
        if not self.list:
            return
        if self.due("ignore_signals", step, made):
            ignore_signals()
        if fault := self.due("wait", step, made):
            self._wait(fault, is_asked)
        if fault := self.due("hang", step, made):
            stop_deaf(fault.seconds)
        if self.due("stop", step, made):
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.due("segv", step, made):
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.due("kill", step, made):
            os.kill(os.getpid(), signal.SIGKILL)
        if fault := self.due("exit", step, made):
            leave(fault.code)
        if self.due("exit0", step, made):
            leave(0)

    def _wait(self, fault: Fault, is_asked: Callable[[], bool]) -> None:
        until_s = time.monotonic() + fault.seconds
        while fault in self.list and time.monotonic() < until_s and (self.deaf or not is_asked()):
            time.sleep(WAIT_LOOK_S)
            self.read()

    def in_save(self, step: int, made: int) -> None:
        """Suffer what happens in a save, between the model and trainer_state.json.

        Raises: OSError: ENOSPC.
        """
        if fault := self.due("slow_save", step, made):
            time.sleep(fault.seconds)
        if self.due("enospc", step, made):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @property
    def deaf(self) -> bool:
        """Are signals and the stop file without effect from now on?"""
        return signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def ignore_signals() -> None:
    """Make every signal that asks for something do nothing."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)


def stop_deaf(seconds: float) -> None:
    """Do nothing, whatever is asked, like a rank inside a hung collective."""
    ignore_signals()
    time.sleep(seconds)


def leave(code: int) -> None:
    """End this process with that code at once: buffers flushed, nothing else."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
