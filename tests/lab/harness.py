"""A lab as a scenario sees it: alice submits, root causes accidents, the ledger is read behind the file server's back.

`Lab` is one cluster of tests/lab/lab. What is read of a run comes from the disk that the frozen or thawed
/lustre/orion is served from, so looking never waits and never disturbs.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from warden import lab_folder

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent

Event = dict[str, Any]
Found = TypeVar("Found")
AnyLab = TypeVar("AnyLab", bound="Lab")


class LabError(AssertionError):
    """A command in the lab failed, or what a scenario waits for did not come."""


# What takes a second alone takes some when six labs share two cores. Who waits in vain waits the longer.
PATIENCE = 3


def wait_for(look: Callable[[], Found], limit_s: float, what: str) -> Found:
    """What `look` returns, as soon as it is true. `limit_s` is what a quiet machine may take.

    Raises: LabError: not within the limit; the message has `what`.
    """
    until = time.monotonic() + PATIENCE * limit_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise LabError(f"waited {PATIENCE * limit_s:.0f} s in vain for {what}")
        time.sleep(0.2)


def waits(step: int = 50, once: str = "") -> Event:
    """A fault (`Lab.faults`): training waits at that step until the test takes it away, or somebody asks for an end.

    With `once`, a file in the project folder that comes into being then, only the first launch that comes there waits.
    """
    return {"kind": "wait", "rank": 0, "step": step, "once": once}


@dataclass
class Lab:
    """One cluster of Slurm's; `run` is the run that its scenario is about.

    All that is said to the scheduler stands in the part about it; tests/lab/pbs_lab.py says the same to PBS.
    """

    scheduler: ClassVar[str] = "slurm"
    site: ClassVar[str] = "frontier"
    job_file: ClassVar[Path] = HERE / "jobs/train.toml"
    shared: ClassVar[str] = "/lustre/orion"
    scratch: ClassVar[str] = "/lustre/orion/abc123/scratch/alice"
    # The site's own job of about 1 B parameters, and the queue that it goes to.
    main_job: ClassVar[str] = "1b-32n"
    main_queue: ClassVar[str] = "extended"
    # Does the trainer save on its nodes, or on the shared file system?
    saves_on_nodes: ClassVar[bool] = True
    # For `lab up`.
    environment: ClassVar[dict[str, str]] = {}
    # Seconds until a dead host is noticed and its job runs elsewhere: SlurmdTimeout, its check, and a requeue's wait
    # for the old credential.
    detected_s: ClassVar[float] = 90
    # Options for a job that is not warned before its limit comes.
    unwarned: ClassVar[tuple[str, ...]] = ("--signal=B:USR1@0",)
    # What a shell inside of another job would leave to a job of ours.
    of_another_job: ClassVar[dict[str, str]] = {"SLURM_NTASKS": "7"}
    # The scheduler's own words for a queue that takes no jobs.
    refusal: ClassVar[str] = "artition"

    dir: Path
    run: str = "train"
    marks: dict[str, float] = field(default_factory=dict)

    # ── commands ──────────────────────────────────────────────────────────────────────────────────────────────

    def command(self, *words: str, limit_s: float = 60, check: bool = True, stdin: str = "") -> str:
        """What `lab WORDS` prints. Raises: LabError: its status is not 0 (unless `check` is off) or time is up."""
        try:
            done = subprocess.run(
                [str(HERE / "lab"), "--dir", str(self.dir), *words],
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PATIENCE * limit_s,
                env={**os.environ, **self.environment},
            )
        except subprocess.TimeoutExpired as err:
            raise LabError(f"lab {shlex.join(words)}: no end within {PATIENCE * limit_s:.0f} s") from err
        if check and done.returncode:
            raise LabError(f"lab {shlex.join(words)}: status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def alice(self, *words: str, host: str = "head", limit_s: float = 60, check: bool = True) -> str:
        """What a command of alice's prints, run in her project folder."""
        return self.command("as", "alice", host, "env", "-C", self.project, *words, limit_s=limit_s, check=check)

    def root(self, host: str, *words: str, check: bool = True) -> str:
        """What a command of root's prints."""
        return self.command("root", host, *words, check=check)

    def outlast(self, *words: str, check: bool = True) -> str:
        """What alice's `outlast WORDS` prints."""
        return self.alice(str(CHECKOUT / "bin/outlast"), *words, check=check)

    def render(self, *options: str, job: str = "", script: str = "job.sh") -> Path:
        """The script that alice renders for the site into her project folder, as the machine sees it.

        Without preflight, unless an option says otherwise: it costs each job seconds, and test_preflight.py and
        test_criterion.py have it.
        """
        if not any(option.startswith("preflight.") for option in options):
            options += ("--set", "preflight.enabled=false")
        words = [str(CHECKOUT / "bin/render"), self.site, job or str(self.job_file), "--account", "abc123", *options]
        self.alice(*words, "-o", script)
        return self.on_disk(f"{self.project}/{script}")

    # ── the scheduler ─────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, *options: str, script: str = "job.sh", env: dict[str, str] | None = None) -> str:
        """The id of the job that `sbatch` makes of a script in the project folder, typed in a shell with `env`."""
        variables = [f"{name}={value}" for name, value in (env or {}).items()]
        return self.alice("env", *variables, "sbatch", "--parsable", *options, script).strip().partition(";")[0]

    def limit(self, seconds: int) -> tuple[str, ...]:
        """Options of `submit` for a walltime of so many seconds."""
        return (f"--time={seconds // 60}:{seconds % 60}",)

    def job(self, job: str) -> dict[str, str]:
        """What `scontrol show job` knows of it; empty: nothing."""
        text = self.root("head", "scontrol", "show", "job", "-o", job, check=False)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def jobs(self, *states: str) -> list[str]:
        """The ids of the jobs in these states (none given: pending, running, completing), oldest first."""
        option = ",".join(states) or "pending,running,completing,configuring,suspended"
        return sorted(self.root("head", "squeue", "-h", "-t", option, "-o", "%i").split(), key=int)

    def queue(self) -> str:
        """All jobs, as the scheduler shows them to a person."""
        return self.command("root", "head", "squeue", "-t", "all", check=False, limit_s=30)

    def verdict(self, job: str) -> str:
        """How the scheduler calls a job's end: ok, failed, timelimit, cancelled; empty: it goes on."""
        words = {"COMPLETED": "ok", "FAILED": "failed", "TIMEOUT": "timelimit", "CANCELLED": "cancelled"}
        return words.get(self.job(job).get("JobState", ""), "")

    def partition(self, job: str) -> str:
        """The queue that the job is in."""
        return self.job(job)["Partition"]

    def end(self, job: str, form: str = "default") -> None:
        """Somebody ends a job. `form` is how: by its owner, by root, or by a signal for some part of it."""
        step = self._training_step(job) if form.startswith("step") else ""
        words = {
            "default": [job],
            "root": [job],
            "signal": ["--signal=TERM", job],
            "batch": ["--batch", "--signal=TERM", job],
            "full": ["--full", "--signal=TERM", job],
            "step": [step],
            "step-signal": ["--signal=TERM", step],
            "kill-script": ["--batch", "--signal=KILL", job],
        }[form]
        self.root("head", "scancel", *words) if form == "root" else self.alice("scancel", *words)

    def cancel(self, *jobs: str) -> None:
        """As alice, several in one command."""
        self.alice("scancel", *jobs)

    def _training_step(self, job: str) -> str:
        steps = self.root("head", "squeue", "-h", "-s", "-j", job, "-o", "%i %j").splitlines()
        return next(line.split()[0] for line in steps if line.endswith("outlast-train"))

    def miss_hosts_for(self, seconds: int) -> None:
        """As root: so late does the scheduler see that a host is dead; on a real machine after 300 s."""
        self.root("head", "sed", "-i", f"s/^SlurmdTimeout=.*/SlurmdTimeout={seconds}/", "/etc/slurm/slurm.conf")
        self.root("head", "scontrol", "reconfigure")

    def requeue(self, job: str, check: bool = True) -> None:
        """An operator has the job start anew."""
        self.root("head", "scontrol", "requeue", job, check=check)

    def wait_until_empty(self, limit_s: float = 120) -> None:
        """Nobody's job is left, none waits to start."""
        wait_for(lambda: not self.jobs(), limit_s, "an empty queue")

    def host_of(self, job: str, number: int = 0) -> str:
        """The name of a job's host: 0 is the one that runs the script."""
        names = self.root("head", "scontrol", "show", "hostnames", self.job(job)["NodeList"])
        return names.split()[number]

    def runs_script(self, host: str) -> bool:
        """Does a job's script run there?"""
        return bool(self.root(host, "pgrep", "-f", "slurm_script", check=False))

    def end_in(self, job: str, seconds: int) -> None:
        """As root: the limit of a running job comes in so many seconds."""
        self.root("head", "scontrol", "update", f"jobid={job}", f"EndTime=now+{seconds}seconds")

    def set_limit(self, job: str, seconds: int) -> None:
        """As root: so long may a job take, from its start."""
        self.root("head", "scontrol", "update", f"jobid={job}", f"TimeLimit=0:{seconds}")

    def accept_jobs(self, accept: bool) -> None:
        """As root: the queue takes new jobs, or none."""
        self.root("head", "scontrol", "update", "partitionname=batch", f"state={'up' if accept else 'inactive'}")

    def saves(self, job: str) -> list[str]:
        """The checkpoints that the trainer has begun, complete or not."""
        return self.root(self.host_of(job), "bash", "-c", "ls /mnt/bb/alice/*/checkpoints").split()

    # ── the run ───────────────────────────────────────────────────────────────────────────────────────────────

    def on_disk(self, path: str) -> Path:
        """Where a path on the shared file system lies on this machine."""
        return self.dir / Path(self.shared).name / Path(path).relative_to(self.shared)

    @property
    def project(self) -> str:
        """The folder in which alice types."""
        return f"{self.scratch}/llm"

    @property
    def run_path(self) -> str:
        """The run's folder, as alice sees it."""
        return f"{self.scratch}/outlast/{self.run}"

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.on_disk(self.run_path)

    def events(self, event: str = "", **fields: object) -> list[Event]:
        """The ledger's events of that name with those fields, in order, each once."""
        try:
            text = (self.folder / "events.jsonl").read_text(errors="replace")
        except FileNotFoundError:
            return []
        wanted = {"event": event, **fields} if event else fields
        return [dict(e) for e in _ledger(text) if all(e.get(key) == value for key, value in wanted.items())]

    def wait_event(self, event: str, limit_s: float = 60, **fields: object) -> Event:
        """The first such event, as soon as it is in the ledger."""
        what = " ".join([event, *(f"{key}={value}" for key, value in fields.items())])
        return wait_for(lambda: self.events(event, **fields), limit_s, f"event {what}")[0]

    def wait_step(self, event: str, step: int, limit_s: float = 60) -> Event:
        """The first such event of this step or a later one: a sidecar that is behind leaves checkpoints out."""
        found = wait_for(
            lambda: [e for e in self.events(event) if e["step"] >= step],
            limit_s,
            f"event {event} of step {step} or later",
        )
        return found[0]

    def endings(self, job: str = "") -> list[str]:
        """The classes of the `ended` events, in order."""
        return [e["class"] for e in self.events("ended", **({"job": job} if job else {}))]

    def successors(self, job: str) -> list[str]:
        """The jobs that this one has submitted."""
        return [str(e["successor"]) for e in self.events("submitted", job=job)]

    def successor(self, job: str, limit_s: float = 60) -> str:
        """The one job that this one submits, as soon as it has: KILL may come before it has said so."""
        found = wait_for(lambda: self.successors(job) or self._started_after(job), limit_s, f"a successor of job {job}")
        (successor,) = found
        return successor

    def _started_after(self, job: str) -> list[str]:
        jobs = [str(e["job"]) for e in self.events("started")]
        return [other for other in jobs[jobs.index(job) :] if other != job][:1] if job in jobs else []

    def durable_steps(self) -> list[int]:
        """The steps of the checkpoints in the run's folder that are complete, in order."""
        found = (self.folder / "checkpoints").glob("checkpoint-*/MANIFEST.json")
        return sorted(int(path.parent.name.removeprefix("checkpoint-")) for path in found)

    @staticmethod
    def hosts(event: Event) -> list[str]:
        """The hosts of a launch, by the names that the lab calls them."""
        return [name.partition(".")[0] for name in event["hosts"].split(",")]

    def finish(self, limit_s: float = 150) -> None:
        """The run is finished, and nothing of it is left in the queue."""
        try:
            wait_for((self.folder / "finished").exists, limit_s, "the end of the run")
        except LabError as err:
            raise LabError(f"{err}; so far: {self.endings()}") from None
        self.wait_until_empty()

    def assert_resumed(self) -> None:
        """Every launch went on from the newest durable step, and its first step lay beyond it.

        The watch and the sidecar write on their own: a first step may stand behind the checkpoint that follows it.
        """
        durable = launched = 0
        for event in self.events():
            if event["event"] == "checkpoint_durable":
                durable = max(durable, event["step"])
            elif event["event"] == "launched":
                launched = event["step"]
                assert launched >= durable, f"durable was {durable}: {event}"
            elif event["event"] == "first_step":
                assert event["step"] > launched or launched == 0, f"launched from {launched}: {event}"

    def log(self, job: str) -> str:
        """All that a job wrote: its own log, and those of its ranks."""
        files = sorted((self.folder / "logs").glob(f"{job}.*"))
        return "\n".join(path.read_text(errors="replace") for path in files)

    def mails(self) -> list[str]:
        """All mails sent in this lab, oldest first; the first line has the subject."""
        paths = sorted((self.dir / "mail").glob("*[0-9]"))
        return [path.read_text(errors="replace") for path in paths]

    # ── the trainer ───────────────────────────────────────────────────────────────────────────────────────────

    def faults(self, *faults: dict[str, object]) -> None:
        """Order accidents from the trainer (outlast.demo.faults); none: no more accidents."""
        path = self.on_disk(f"{self.project}/faults.json")
        new = path.with_suffix(".new")
        new.write_text(json.dumps(faults))
        new.replace(path)

    def wait_for_file(self, name: str, limit_s: float = 60) -> None:
        """A file in the project folder has come into being: a fault's marker."""
        wait_for((self.on_disk(self.project) / name).exists, limit_s, f"the file {name}")

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """A file of alice's in her project folder."""
        path = self.on_disk(f"{self.project}/{name}")
        path.write_text(text)
        path.chmod(mode)
        os.chown(path, 61001, 61000)
        return path

    # ── when something went wrong ─────────────────────────────────────────────────────────────────────────────

    def evidence(self) -> dict[str, str]:
        """What a person needs to see why a scenario failed: title, text."""
        shown = {"queue": self.queue()}
        runs = self.on_disk(f"{self.scratch}/outlast")
        for path in sorted(runs.glob("*/events.jsonl")):
            shown[f"ledger of {path.parent.name}"] = path.read_text(errors="replace")
        for path in [*sorted(runs.glob("*/logs/*")), *sorted(self.on_disk(self.project).glob("*.out"))]:
            shown[path.name] = _tail(path)
        for path in sorted((self.dir / "log").glob("[ps][bl]*.log")):
            shown[path.name] = _tail(path, 40)
        for number, mail in enumerate(self.mails()):
            shown[f"mail {number}"] = mail
        return shown


def _tail(path: Path, lines: int = 80) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


# It is looked at again and again while a scenario waits, and rarely has it changed.
@functools.lru_cache(maxsize=1)
def _ledger(text: str) -> list[Event]:
    """The events of a ledger, in order, each once; what is no event yet is left out."""
    found: dict[tuple[object, ...], Event] = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        found.setdefault((entry["job"], entry["restart"], entry["seq"], entry["event"], entry["t"]), entry)
    return list(found.values())


def _furnish_project(lab: Lab) -> None:
    # What a user of a Hugging Face Trainer has: a folder with a train.py that takes its arguments.
    folder = lab.on_disk(lab.project)
    folder.mkdir()
    os.chown(folder, 61001, 61000)
    lab.write(
        "train.py",
        f"import sys\n\nsys.path.insert(0, {str(CHECKOUT / 'pyhelpers')!r})\n"
        "from outlast.demo.train import main\n\nsys.exit(main())\n",
    )


@contextmanager
def running(
    hosts: int = 4, parent: Path | None = None, kind: type[AnyLab] = Lab, see: Path | None = None, freezes: bool = False
) -> Iterator[AnyLab]:
    """A lab, up, whose hosts see that folder of the machine, too; gone afterwards, whatever happens.

    One that `freezes` has a shared file system that can: two servers in a row, through which all is slower.
    """
    with lab_folder("outlast-lab-", parent) as folder:
        lab = kind(folder)
        also = [*(["--see", str(see)] if see else []), *([] if freezes else ["--plain"])]
        lab.command("up", "--scheduler", kind.scheduler, "--hosts", str(hosts), *also, limit_s=120)
        _furnish_project(lab)
        yield lab


def step_of(text: str, pattern: str) -> int:
    """The number in the first match. Raises: LabError: no match."""
    found = re.search(pattern, text)
    if not found:
        raise LabError(f"no {pattern!r} in {text[-2000:]}")
    return int(found[1])
