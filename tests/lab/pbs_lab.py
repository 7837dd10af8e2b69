"""A lab whose scheduler is PBS, for scenarios: the stand-in, or with LAB=pbs the real one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from harness import CHECKOUT, HERE, Lab, running, wait_for

IS_REAL = os.environ.get("LAB") == "pbs"
# What takes PBS minutes, a dead host above all, takes the stand-in this part of it; what it gives a job to end, 10 s,
# is the same.
SCALE = 1.0 if IS_REAL else 0.1

QUEUED, HELD, RUNNING, ENDING, ENDED = "QW", "H", "R", "E", "F"


class PbsLab(Lab):
    """One cluster of PBS's, in the shape of Aurora."""

    scheduler: ClassVar[str] = "pbs"
    shared: ClassVar[str] = "/lus/flare"
    scratch: ClassVar[str] = "/lus/flare/projects/abc123/alice"

    def render(self, *options: str, job: str = str(HERE / "jobs/pbs.toml"), script: str = "job.sh") -> Path:
        words = [str(CHECKOUT / "bin/render"), "aurora", job, "--account", "abc123", *options, "-o", script]
        self.alice(*words)
        return self.on_disk(f"{self.project}/{script}")

    def submit(self, *options: str, script: str = "job.sh") -> str:
        return self.alice("qsub", *options, script).strip()

    def attributes(self, job: str) -> dict[str, Any]:
        """What `qstat -xf` knows of a job; empty: nothing."""
        text = self.root("head", "/opt/pbs/bin/qstat", "-xf", "-F", "json", job, check=False)
        found: dict[str, dict[str, Any]] = json.loads(text or "{}").get("Jobs", {})
        return next(iter(found.values()), {})

    def job(self, job: str) -> dict[str, str]:
        return {name: str(value) for name, value in self.attributes(job).items()}

    def state(self, job: str) -> str:
        """One letter; empty: unknown."""
        return self.job(job).get("job_state", "")

    def jobs(self, *states: str) -> list[str]:
        letters = {"pending": "QHWT", "running": "R", "completing": "E"}
        wanted = "".join(letters[state] for state in states) or "QHWTRE"
        found = self.root("head", "/opt/pbs/bin/qselect", "-s", wanted, check=False)
        return sorted(found.split(), key=lambda job: int(job.partition(".")[0]))

    def queue(self) -> str:
        return self.root("head", "/opt/pbs/bin/qstat", "-x", check=False)

    def cancel(self, *jobs: str) -> None:
        self.alice("qdel", *jobs)

    def hosts_of(self, job: str) -> list[str]:
        """The names of a job's hosts, the first one first; empty: it has none."""
        words = self.job(job).get("exec_host", "")
        return list(dict.fromkeys(word.partition("/")[0] for word in words.split("+") if word))

    def host_of(self, job: str, number: int = 0) -> str:
        return self.hosts_of(job)[number]

    def set_job(self, job: str, *settings: str) -> None:
        """As root: qalter's options."""
        self.root("head", "/opt/pbs/bin/qalter", *settings, job)

    def wait_state(self, job: str, letters: str, limit_s: float = 60) -> dict[str, str]:
        """A job's attributes, as soon as its state is one of these."""
        wait_for(lambda: self.state(job) and self.state(job) in letters, limit_s, f"state {letters} of {job}")
        return self.job(job)


@contextmanager
def running_pbs(hosts: int = 4) -> Iterator[PbsLab]:
    """A lab, up; gone afterwards, whatever happens."""
    os.environ.update(OUTLAST_LAB_SCALE=str(SCALE), OUTLAST_LAB_KILL_SCALE="1")
    with running(hosts, kind=PbsLab) as lab:
        assert isinstance(lab, PbsLab)
        yield lab
