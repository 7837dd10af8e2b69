"""A lab whose scheduler is PBS, for scenarios: the stand-in, or with LAB=pbs the real one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, ClassVar

from harness import HERE, Lab, wait_for

IS_REAL = os.environ.get("LAB") == "pbs"
# What takes PBS minutes, a dead host above all, takes the stand-in this part of it; what it gives a job to end, 10 s,
# is twice as long: six labs share a machine.
SCALE = 1.0 if IS_REAL else 0.1

QUEUED, DELAYED, HELD, RUNNING, ENDING, ENDED = "QW", "W", "H", "R", "E", "F"


class PbsLab(Lab):
    """One cluster of PBS's, in the shape of Aurora."""

    scheduler: ClassVar[str] = "pbs"
    site: ClassVar[str] = "aurora"
    job_file: ClassVar[Path] = HERE / "jobs/pbs.toml"
    shared: ClassVar[str] = "/lus/flare"
    scratch: ClassVar[str] = "/lus/flare/projects/abc123/alice"
    main_job: ClassVar[str] = "1b-16n"
    main_queue: ClassVar[str] = "capacity"
    saves_on_nodes: ClassVar[bool] = False
    environment: ClassVar[dict[str, str]] = {"OUTLAST_LAB_SCALE": str(SCALE), "OUTLAST_LAB_KILL_SCALE": "2"}
    # A lost sister costs its job 436 s.
    detected_s: ClassVar[float] = 30 + 600 * SCALE
    unwarned: ClassVar[tuple[str, ...]] = ()
    of_another_job: ClassVar[dict[str, str]] = {"PBS_NODENUM": "7"}
    refusal: ClassVar[str] = "Queue is not enabled"

    def submit(self, *options: str, script: str = "job.sh", env: dict[str, str] | None = None) -> str:
        variables = [f"{name}={value}" for name, value in (env or {}).items()]
        return self.alice("env", *variables, "qsub", *options, script).strip()

    def limit(self, seconds: int) -> tuple[str, ...]:
        return ("-l", f"walltime={seconds}")

    def attributes(self, job: str) -> dict[str, Any]:
        """What `qstat -xf` knows of a job; empty: nothing."""
        text = self.manager("qstat", "-xf", "-F", "json", job, check=False)
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
        found = self.manager("qselect", "-s", wanted, check=False)
        return sorted(found.split(), key=lambda job: int(job.partition(".")[0]))

    def queue(self) -> str:
        return self.manager("qstat", "-x", check=False)

    def verdict(self, job: str) -> str:
        known = self.job(job)
        if known.get("job_state") != "F":
            return ""
        if known["substate"] == "91":
            return "cancelled"
        return {"0": "ok", "-29": "timelimit"}.get(known.get("Exit_status", ""), "failed")

    def partition(self, job: str) -> str:
        return self.job(job)["queue"]

    def end(self, job: str, form: str = "default") -> None:
        words = {
            "default": ["qdel", job],
            "root": ["qdel", job],
            "signal": ["qsig", "-s", "TERM", job],
            "kill-script": ["qsig", "-s", "KILL", job],
        }[form]
        self.manager(*words) if form == "root" else self.alice(*words)

    def cancel(self, *jobs: str) -> None:
        self.alice("qdel", *jobs)

    def manager(self, command: str, *words: str, check: bool = True) -> str:
        """What a command of PBS's prints when root types it."""
        return self.root("head", f"/opt/pbs/bin/{command}", *words, check=check)

    def miss_hosts_for(self, seconds: int) -> None:
        """Not to be set; the stand-in takes a tenth of the real time for all of it."""

    def requeue(self, job: str, check: bool = True) -> None:
        self.manager("qrerun", job, check=check)

    def hosts_of(self, job: str) -> list[str]:
        """The names of a job's hosts, the first one first; empty: it has none."""
        words = self.job(job).get("exec_host", "")
        return list(dict.fromkeys(word.partition("/")[0] for word in words.split("+") if word))

    def host_of(self, job: str, number: int = 0) -> str:
        return self.hosts_of(job)[number]

    def runs_script(self, host: str) -> bool:
        return bool(self.root(host, "pgrep", "-f", "mom_priv/jobs/.*SC", check=False))

    def end_in(self, job: str, seconds: int) -> None:
        began = time.mktime(time.strptime(self.job(job)["stime"]))
        self.set_limit(job, int(time.time() - began) + seconds)

    def set_limit(self, job: str, seconds: int) -> None:
        self.manager("qalter", "-l", f"walltime={seconds}", job)

    def accept_jobs(self, accept: bool) -> None:
        self.manager("qmgr", "-c", f"set queue capacity enabled = {accept}")

    def saves(self, job: str) -> list[str]:
        return [path.name for path in (self.folder / "checkpoints").glob("*")]

    def wait_state(self, job: str, letters: str, limit_s: float = 60) -> dict[str, str]:
        """A job's attributes, as soon as its state is one of these."""
        wait_for(lambda: self.state(job) and self.state(job) in letters, limit_s, f"state {letters} of {job}")
        return self.job(job)
