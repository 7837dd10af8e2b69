"""A PBS cluster as its tests see it: the stand-in, or with LAB=pbs the real one, asked the same questions."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from warden import lab_folder

HERE = Path(__file__).resolve().parent
FOLDER = "/lus/flare/projects/abc123/alice"
IS_REAL = os.environ.get("LAB") == "pbs"
SCALE = 1.0 if IS_REAL else 0.05
# From TERM to KILL: a trap that asks qstat has to come to its end in it, on a machine that has much to do.
KILL_SCALE = 1.0 if IS_REAL else 0.5
# What is waited for comes in a second or two, where no test says otherwise.
LIMIT_S = 180

SERVER = "aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov"
TWO = ("-l", "select=2", "-l", "place=scatter")
SECOND = '"$(sed -n 2p $PBS_NODEFILE)"'  # in a script

slow_on_real = pytest.mark.skipif(IS_REAL and not os.environ.get("SLOW"), reason="takes minutes there; SLOW=1")

# A shell for `-S` that becomes the script.
WRAPPER = '#!/bin/bash\nIFS= read -r s\nexec /bin/bash -l "$s"\n'

Found = TypeVar("Found")
Attributes = dict[str, Any]


def wrapped() -> tuple[str, str]:
    """Options for a shell that becomes the script (facts §1, 2)."""
    return ("-S", f"{FOLDER}/wrapper")


@dataclass(frozen=True)
class Said:
    """What a command printed, and its status."""

    code: int
    out: str
    err: str


@dataclass
class Cluster:
    dir: Path
    away: set[str] = field(default_factory=set)  # hosts that a test has switched off

    def lab(self, *words: str, check: bool = True, limit_s: float = 120) -> Said:
        """`lab WORDS`."""
        done = subprocess.run(
            [str(HERE / "lab"), "--dir", str(self.dir), *words], capture_output=True, text=True, timeout=limit_s
        )
        said = Said(done.returncode, done.stdout, done.stderr)
        assert said.code == 0 or not check, said
        return said

    def alice(self, text: str, host: str = "head", limit_s: float = 120) -> Said:
        """A line of shell, typed by alice in her project folder."""
        return self.lab("as", "alice", host, "bash", "-c", text, check=False, limit_s=limit_s)

    def root(self, text: str, host: str = "head") -> Said:
        return self.lab("root", host, "bash", "-c", f"PATH=$PATH:/opt/pbs/bin; {text}", check=False)

    def write(self, name: str, text: str) -> Path:
        """A file in alice's folder, as the machine sees it."""
        path = self.dir / "flare/projects/abc123/alice" / name
        path.write_text(text)
        path.chmod(0o755)
        os.chown(path, 61001, 61000)
        return path

    def read(self, name: str) -> str:
        """A file in alice's folder; empty: there is none."""
        path = self.dir / "flare/projects/abc123/alice" / name
        return path.read_text(errors="replace") if path.exists() else ""

    def submit(self, script: str, *options: str) -> str:
        """The id of a new job with both outputs in one live file, `ID.OU`, unless the options say otherwise."""
        self.write("job.sh", script)
        words = ["-k", "doe", "-j", "oe", "-o", f"{FOLDER}/", *options]
        said = self.alice(f"qsub {shlex.join(words)} job.sh")
        assert said.code == 0, said
        return said.out.strip()

    def run(self, script: str, *options: str, limit_s: float = LIMIT_S) -> Attributes:
        """The attributes of a job, after its end."""
        return self.ended(self.submit(script, *options), limit_s)

    def job(self, job: str) -> Attributes:
        """Its attributes, also when it has ended; empty: unknown, or the server doesn't answer (yet)."""
        said = self.alice(f"qstat -xf -F json {job}")
        found: dict[str, Attributes] = json.loads(said.out or "{}").get("Jobs", {})
        return found.get(job, {})

    def ended(self, job: str, limit_s: float = LIMIT_S) -> Attributes:
        return self.until(job, lambda now: now["job_state"] == "F", limit_s)

    def until(self, job: str, is_so: Callable[[Attributes], bool], limit_s: float = LIMIT_S) -> Attributes:
        """Its attributes, as soon as they are so."""
        found: Attributes = {}

        def look() -> bool:
            nonlocal found
            found = self.job(job)
            return bool(found) and is_so(found)

        wait_for(look, lambda: str(found), limit_s)
        return found

    def running(self, script: str, *options: str) -> str:
        """The id of a job whose script has printed `ready`."""
        job = self.submit(script, *options)
        self.said(job, lambda log: "ready\n" in log)
        return job

    def said(self, job: str, is_so: Callable[[str], bool], limit_s: float = LIMIT_S) -> str:
        """What the job has printed, as soon as it is so."""
        wait_for(lambda: is_so(self.log(job)), lambda: f"{self.log(job)}\n{self.job(job)}", limit_s)
        return self.log(job)

    def log(self, job: str) -> str:
        """What the job has printed so far."""
        return self.read(f"{job}.OU")

    def clear(self) -> None:
        """No job is left, no file of one, all hosts are there."""
        self.root("qdel -W force $(qselect) 2>/dev/null")
        while self.away:
            self.lab("on", self.away.pop())
        wait_for(lambda: not self.root("qselect; pbsnodes -l").out, lambda: self.root("qstat; pbsnodes -l").out, 90)
        self.root(f"find {FOLDER} -mindepth 1 ! -name wrapper -delete")

    def off(self, host: str) -> None:
        """It loses its power, until the test is over."""
        self.away.add(host)
        self.lab("off", host)

    def reboot(self, host: str) -> None:
        """It loses its power, and is back before anybody has seen it."""
        self.off(host)
        self.lab("on", host)
        self.away.discard(host)

    @contextmanager
    def holding_up(self, what: str) -> Iterator[None]:
        """Meanwhile the stand-in does not do that (standin/conf.py). The real one is as slow as it is."""
        path = self.dir / "conf" / f"held-up-{what}"
        path.touch()
        try:
            yield
        finally:
            path.unlink()

    @property
    def hosts(self) -> list[str]:
        return [f"x4407c0s{number}b0n0" for number in range(4)]

    def mails(self) -> str:
        return "\n".join(path.read_text() for path in sorted((self.dir / "mail").glob("*[0-9]")))


def wait_for(look: Callable[[], Found], what: Callable[[], str], limit_s: float = LIMIT_S) -> Found:
    """What `look` returns, as soon as it is true."""
    until = time.monotonic() + limit_s
    while not (found := look()):
        assert time.monotonic() < until, f"waited {limit_s:.0f} s in vain: {what()}"
        time.sleep(0.15 if SCALE < 1 else 0.3)  # a question costs as much: it starts a Python
    return found


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Up; gone afterwards, whatever happens."""
    os.environ.update(OUTLAST_LAB_SCALE=str(SCALE), OUTLAST_LAB_KILL_SCALE=str(KILL_SCALE))
    with lab_folder("outlast-pbs-") as folder:
        found = Cluster(folder)
        found.lab("up", "--scheduler", "pbs", "--plain")
        found.write("wrapper", WRAPPER)
        yield found
