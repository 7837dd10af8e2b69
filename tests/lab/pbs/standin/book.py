"""The jobs that the server knows, and where it keeps them while it is not running."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from standin import conf
from standin.codes import Code, Refused

# Substates that tell endings apart (facts §1, 6; §2, Classify).
QUEUED, WAITING, HELD, HELD_BY_DEPENDENCY = 10, 30, 20, 22
STARTING, RUNNING, EXITING, RERUNNING, RERUN = 41, 42, 53, 60, 63
DELETED, FINISHED, FAILED = 91, 92, 93


@dataclass
class Job:
    """A job; `attributes` are those that `qstat -f` shows, by their names there."""

    id: str
    attributes: dict[str, Any]
    environment: dict[str, str]
    script: str
    argv: list[str]
    # The hosts' short names in the order of the nodefile, its lines, and what each one's chunks are.
    hosts: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    vnodes: list[str] = field(default_factory=list)
    deleted: bool = False
    # The server was restarted before it knew that the script runs: it stays in 41, and whoever deletes it is not noted.
    orphaned: bool = False

    def get(self, name: str, default: Any = "") -> Any:
        return self.attributes.get(name, default)

    def set(self, **values: Any) -> None:
        """Changes attributes; None takes one away. Names with a dot: `set_one`."""
        for name, value in values.items():
            self.set_one(name, value)
        self.attributes["mtime"] = int(time.time())

    def set_one(self, name: str, value: Any) -> None:
        if value is None:
            self.attributes.pop(name, None)
        else:
            self.attributes[name] = value

    @property
    def state(self) -> str:
        return str(self.get("job_state"))

    @property
    def substate(self) -> int:
        return int(self.get("substate"))

    @property
    def owner(self) -> str:
        return str(self.get("Job_Owner")).partition("@")[0]

    @property
    def name(self) -> str:
        return str(self.get("Job_Name"))

    @property
    def alive(self) -> bool:
        """On its hosts: it runs, or is about to end."""
        return self.state in "RE"

    def move(self, state: str, substate: int) -> None:
        self.set(job_state=state, substate=substate)
        if state == "Q":
            self.attributes.setdefault("etime", int(time.time()))


class Book:
    """All jobs by id, oldest first, in a file that is written whole at each change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_old = path.exists()
        self.next = 0
        self.jobs: dict[str, Job] = {}
        if self.is_old:
            kept = json.loads(path.read_text())
            self.next = kept["next"]
            self.jobs = {job["id"]: Job(**job) for job in kept["jobs"]}

    def save(self) -> None:
        kept = {"next": self.next, "jobs": [asdict(job) for job in self.jobs.values()]}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(kept))
        new.replace(self.path)

    def new_id(self) -> str:
        found = f"{self.next}.{conf.load().server}"
        self.next += 1
        return found

    def find(self, word: str) -> Job:
        """By `133` or by the whole id. Raises: Refused: unknown."""
        job = self.jobs.get(full_id(word))
        if job is None:
            raise Refused(Code.UNKNOWN_JOB)
        return job

    def unfinished(self, word: str) -> Job:
        """Raises: Refused: unknown, or finished."""
        job = self.find(word)
        if job.state == "F":
            raise Refused(Code.FINISHED)
        return job


def full_id(word: str) -> str:
    """`133` as PBS writes it: with the server."""
    return word if "." in word else f"{word}.{conf.load().server}"
