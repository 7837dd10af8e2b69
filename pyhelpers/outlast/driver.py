"""The bridge to lib/scheduler/NAME.sh: the verbs ask a scheduler through the same functions as a running job."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outlast.refused import Refused, nearest

LIMIT_S = 90  # above the limits that the drivers set to each command themselves
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\[\]-]*")


class SchedulerRefused(Refused):
    """The scheduler said no, for good."""

    status = 1


class NoAnswer(Refused):
    """The scheduler gave no answer: what was asked is neither done nor not done."""

    status = 75


@dataclass(frozen=True)
class State:
    """What a scheduler says about a job, in the words of lib/scheduler/slurm.sh; `gone`: it does not know the id."""

    state: str
    verdict: str = "none"
    restarts: int = 0

    @property
    def is_live(self) -> bool:
        """Is it waiting, running or on its way out?"""
        return self.state in ("pending", "running", "ending")


@dataclass(frozen=True)
class Driver:
    """One scheduler, by the name of its file in lib/scheduler/."""

    name: str
    root: Path

    def submit(self, script: Path, name: str, **options: object) -> str:
        """The id of the new job; options are those of ol_sched_submit: depend, exclude, delay_s, output, dir.

        Raises: SchedulerRefused, NoAnswer.
        """
        extra = [f"{key}={value}" for key, value in options.items() if value not in (None, "")]
        answer = self._ask("submit", str(script), name, *extra)
        lines = answer.stdout.split()
        if answer.returncode == 0 and lines and _JOB_ID.fullmatch(lines[-1]):
            return lines[-1]
        if answer.returncode == 1:
            raise SchedulerRefused(f"{self.name} refused the job: {_reason(answer)}")
        raise NoAnswer(f"no answer from {self.name} ({_reason(answer)})")

    def state(self, job: str) -> State:
        """What the scheduler says about a job; an id that can't be one is gone.

        Raises: NoAnswer.
        """
        if not _JOB_ID.fullmatch(job):
            return State("gone")
        answer = self._ask("state", job)
        if answer.returncode == 1:
            return State("gone")
        words = dict(re.findall(r"(\w+)=(\w+)", answer.stdout))
        if answer.returncode or "state" not in words:
            raise NoAnswer(f"no answer from {self.name} about job {job} ({_reason(answer)})")
        return State(words["state"], words.get("verdict", "none"), int(words.get("restarts", "0")))

    def find(self, name: str) -> str:
        """The id of this user's pending or running job of that name; empty where there is none.

        Raises: NoAnswer.
        """
        answer = self._ask("find", name)
        if answer.returncode > 1:
            raise NoAnswer(f"no answer from {self.name} about jobs named {name} ({_reason(answer)})")
        return answer.stdout.strip() if answer.returncode == 0 else ""

    def cancel(self, jobs: list[str]) -> None:
        """Cancel these jobs in one call, in this order.

        Raises: SchedulerRefused, NoAnswer.
        """
        answer = self._ask("cancel", *jobs)
        if answer.returncode == 1:
            raise SchedulerRefused(f"{self.name} did not cancel {' '.join(jobs)}: {_reason(answer)}")
        if answer.returncode:
            raise NoAnswer(f"no answer from {self.name} ({_reason(answer)}); the jobs may be cancelled or not")

    def value(self, question: str) -> str:
        """The answer to a question about the allocation that we are in: `nodes`, `end_time`, `job_id`.

        Raises: NoAnswer: there is none, or this is no allocation.
        """
        answer = self._ask(question)
        if answer.returncode or not answer.stdout.strip():
            raise NoAnswer(f"{self.name} does not tell {question} ({_reason(answer)})")
        return answer.stdout.strip()

    def excludes(self) -> bool:
        """Can a job be kept off a node?"""
        return self._ask("excludes").returncode == 0

    def is_here(self) -> bool:
        """Has this machine the scheduler's commands?"""
        return self._ask("is_here").returncode == 0

    def known(self, nodes: Sequence[str]) -> list[str]:
        """Those of the nodes that the scheduler has, in their order.

        Raises: NoAnswer.
        """
        answer = self._ask("known_nodes", *nodes)
        if answer.returncode:
            raise NoAnswer(f"{self.name} does not say which nodes it has ({_reason(answer)})")
        there = set(answer.stdout.split())
        return [node for node in nodes if node in there]

    def reasons(self) -> str:
        """What the scheduler says of nodes that are down or out of service, in its own words.

        Raises: NoAnswer.
        """
        answer = self._ask("reasons")
        if answer.returncode:
            raise NoAnswer(f"{self.name} does not say which nodes are out of service ({_reason(answer)})")
        return answer.stdout

    def _ask(self, function: str, *args: str) -> subprocess.CompletedProcess[str]:
        lib = self.root / "lib"
        program = 'for f in "$1"/log.sh "$1"/bounded.sh "$2"; do source "$f"; done; shift 2; "$@"'
        words = [str(lib), str(lib / f"scheduler/{self.name}.sh"), f"ol_sched_{function}", *args]
        try:
            return subprocess.run(
                ["bash", "-c", program, "outlast", *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess([], 2, "", f"not within {LIMIT_S} s")


def named(name: str, root: Path) -> Driver:
    """The driver of a scheduler.

    Raises: Refused: there is none of that name.
    """
    known = sorted(path.stem for path in (root / "lib/scheduler").glob("*.sh"))
    if name not in known:
        raise Refused(f"no scheduler {name!r}{nearest(name, known)}")
    return Driver(name, root)


def of_this_machine(root: Path) -> Driver | None:
    """The driver of the scheduler whose commands are here; None: there is none."""
    there = (Driver(name, root) for name in ("slurm", "pbs") if (root / f"lib/scheduler/{name}.sh").is_file())
    return next((by for by in there if by.is_here()), None)


def _reason(answer: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in answer.stderr.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"status {answer.returncode}"
