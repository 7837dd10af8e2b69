"""A job: one shape of a training run on a site, sites/SITE/JOB.toml."""

import re
from dataclasses import dataclass, field
from datetime import datetime

from outlast import inline, pattern, schema
from outlast.notice.message import ADDRESS, HOOK
from outlast.preset import Preset
from outlast.refused import Refused, nearest
from outlast.site import Site, check_names


@dataclass(frozen=True)
class Checkpoint:
    """Where checkpoints go, and how to tell that one is complete."""

    storage: str = schema.choice("shared", "local")
    keep: int = 3
    keep_best: int = 1
    keep_every: int = 0
    grace_s: int = 3600  # what is not kept can be had back for so long
    on_durable: tuple[str, ...] = schema.words()
    on_durable_every: int = 1
    on_durable_limit_s: int = 600
    score_min: str = ""
    score_max: str = ""
    copier: str = schema.choice("agents", "plain")  # plain: Bash alone, what the first node has
    max_writers: int = 16
    memory_gib: int = 0  # of a node, where local_dir is its memory
    bandwidth_mib_s: int = 0
    interval_s: int = 0
    quiet_s: int = 60
    prefix: str = ""
    complete: str = ""
    resume: tuple[str, ...] = ()
    save_signal: str = schema.choice("", "USR1")
    saves_on_stop: bool = False
    sharded: bool = False
    stage_in: str = schema.choice("", "all", "node0", "own-shards", "none")  # empty: none if sharded, else all

    @property
    def brings(self) -> str:
        """What is brought to the nodes' disks before a launch.

        Parts of a sharded one are read once, by the ranks that need them, so a copy would be one more time to read it.
        """
        return self.stage_in or ("none" if self.sharded else "all")


@dataclass(frozen=True)
class Deadline:
    """When training must stop."""

    margin_s: int = 300
    startup_s: int = 300
    stop_wait_s: int = 120
    train_at_most_s: int = 0
    poll_s: int = 60


@dataclass(frozen=True)
class Progress:
    """How the trainer's log tells its step and its end."""

    step_regex: str = ""
    target_step: int = 0
    finish_regex: str = ""
    eval_regex: str = ""
    save_regex: str = ""


@dataclass(frozen=True)
class Watchdog:
    """When a training that stands still is a hang; 0: learned from the run."""

    enabled: bool = True
    idle_s: int = 0
    startup_s: int = 0
    eval_s: int = 0
    save_s: int = 0
    heartbeat: str = ""
    stack_signal: str = schema.choice("", "QUIT", "USR1")


@dataclass(frozen=True)
class Crash:
    """How the log of a failure is read."""

    patterns: str = ""


@dataclass(frozen=True)
class Guard:
    """When to stop trying."""

    attempts: int = 3
    swaps: int = 4
    recovery_s: int = 3600
    stuck_jobs: int = 3
    same_failure: int = 3
    rapid_s: int = 600
    rapid_wait_s: int = 60
    max_jobs: int = 0
    max_node_hours: int = 0
    end_date: str = ""


# What a person is told of; docs/mail.md. lib/ calls ol_mail_send with these words.
NEWS = (
    *("rapid_crash", "held", "early_exit", "finished", "no_spares", "refused", "no_successor", "ended_unknown"),
    *("not_durable", "damaged"),
)


@dataclass(frozen=True)
class Pins:
    """What must be the same at each launch as it was at the first."""

    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    git: bool = False


@dataclass(frozen=True)
class Preflight:
    """What is asked of the nodes before the first launch."""

    enabled: bool = True
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mail:
    """Who is told, and of what."""

    to: str = ""
    hooks: tuple[str, ...] = ()
    on: tuple[str, ...] = NEWS
    scheduler: bool = False
    not_durable_s: int = 7200
    command: str = ""


@dataclass(frozen=True)
class Job:
    """A job file, key by key; docs/job-file.md explains them."""

    summary: str
    walltime_s: int
    command: tuple[str, ...] = schema.words()
    run: str = ""
    from_: str = ""
    nodes: int = 1
    spares: int = 0
    queue: str = ""
    account: str = ""
    exclude: tuple[str, ...] = ()
    reservation: str = ""
    directives: tuple[str, ...] = ()
    select: str = ""
    filesystems: tuple[str, ...] = ()
    preset: str = "script"
    setup: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    prepare_limit_s: int = 3600
    project_dir: str = ""
    runs_dir: str = ""
    bad_nodes: str = ""
    ranks_per_node: int = 1
    launch: tuple[str, ...] = schema.words()
    chain: bool = True
    successor: str = schema.choice("end", "launch")
    online: bool = False
    determinism: bool = False
    env: dict[str, str] = field(default_factory=dict)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    deadline: Deadline = field(default_factory=Deadline)
    progress: Progress = field(default_factory=Progress)
    watchdog: Watchdog = field(default_factory=Watchdog)
    crash: Crash = field(default_factory=Crash)
    guard: Guard = field(default_factory=Guard)
    preflight: Preflight = field(default_factory=Preflight)
    pins: Pins = field(default_factory=Pins)
    mail: Mail = field(default_factory=Mail)


KEYS = schema.keys(Job)


def check(job: Job, site: Site, preset: Preset) -> None:
    """Nothing, if the job's values go together and go with the site.

    What is a subject of its own has its own file: words, directives, secrets, queue.

    Raises: Refused: what is wrong, and what to type instead.
    """
    _check_shape(job)
    _check_account(job, site)
    _check_scheduler(job, site)
    _check_on_durable(job)
    _check_progress(job)
    _check_watchdog(job)
    _check_times(job)
    _check_storage(job, site)
    _check_mail(job.mail, site)
    _check_online(job, site)
    check_names("preflight.skip", job.preflight.skip)


def _check_shape(job: Job) -> None:
    for key in ("nodes", "walltime_s", "ranks_per_node"):
        if getattr(job, key) < 1:
            raise Refused(f"{key} is 0; it takes at least 1")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", job.run):
        raise Refused(f"run {job.run!r} names a folder and a job: up to 64 letters, digits, and . _ - inside")
    _check_from(job)
    for name in job.env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise Refused(f"env.{name} is no name of a variable")
    texts = {"project_dir": job.project_dir, "runs_dir": job.runs_dir, "bad_nodes": job.bad_nodes}
    texts |= {f"pins.files: {name!r}": name for name in job.pins.files}
    for key, text in texts.items():
        if inline.CONTROL.search(text):
            raise Refused(f"{key} {text!r} has a line end or a control character")
    _check_end_date(job.guard.end_date)
    _check_checkpoint_names(job.checkpoint)


def _check_checkpoint_names(checkpoint: Checkpoint) -> None:
    # Both are put behind a folder's path, and the first into patterns too.
    name = r"[A-Za-z0-9_.][A-Za-z0-9_.=+-]*"
    if not re.fullmatch(rf"({name})?", checkpoint.prefix) or checkpoint.prefix.startswith("."):
        raise Refused(
            f"checkpoint.prefix {checkpoint.prefix!r} is no beginning of a folder's name: "
            "letters, digits, _ and, behind the first, . = + -"
        )
    if not re.fullmatch(rf"({name}(/{name})*)?", checkpoint.complete) or ".." in checkpoint.complete.split("/"):
        raise Refused(
            f"checkpoint.complete {checkpoint.complete!r} is no name of a file in a checkpoint: "
            "letters, digits, . _ = + - and, for a folder in it, /"
        )


def _check_from(job: Job) -> None:
    if not job.from_:
        return
    source = re.fullmatch(r"(/[^\x00-\x1f\x7f]*?|[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})(@[0-9]{1,18})?", job.from_)
    if source is None:
        raise Refused(f"from {job.from_!r} is a run, by its name or its absolute path, and may end in @STEP")
    if source[1] == job.run:
        raise Refused(f"from = {job.from_!r} is the run itself; give the new one a name of its own: run = ...")


def _check_end_date(text: str) -> None:
    # Both Python and `date -d` read this form, and neither reads all of the other's.
    form = r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?)?"
    try:
        if text and re.fullmatch(form, text, re.A):
            datetime.fromisoformat(text)
        elif text:
            raise ValueError(text)
    except ValueError as err:
        raise Refused(f"guard.end_date is a day such as 2027-01-31, not {text!r}") from err


def end_date_has_come(text: str, now: datetime) -> bool:
    """Has the day begun, on this machine's clock? An empty text is no day."""
    try:
        return bool(text) and datetime.fromisoformat(text).astimezone() <= now.astimezone()
    except ValueError:
        return False


def _check_account(job: Job, site: Site) -> None:
    if site.account_required and not job.account:
        raise Refused(
            f'{site.name} needs an account; type --account NAME, or put account = "NAME" '
            f"under [site.{site.name}] in ~/.config/outlast/config.toml"
        )


def _check_scheduler(job: Job, site: Site) -> None:
    if site.scheduler == "pbs":
        lacks, advice = ["exclude"], "leave it out, PBS cannot keep a job off a node"
    else:
        lacks, advice = ["select", "filesystems"], "only PBS takes it; leave it out"
    for key in lacks:
        if getattr(job, key):
            raise Refused(f"{site.name} has scheduler {site.scheduler}, which takes no {key}; {advice}")


def _check_on_durable(job: Job) -> None:
    if job.checkpoint.on_durable_every < 1 or job.checkpoint.on_durable_limit_s < 1:
        raise Refused("checkpoint.on_durable_every and checkpoint.on_durable_limit_s take at least 1")
    for key in ("score_min", "score_max"):
        bound = getattr(job.checkpoint, key)
        if bound and not re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", bound):
            raise Refused(f'checkpoint.{key} {bound!r} is no number; write it as a text: {key} = "0.35"')


def _check_progress(job: Job) -> None:
    target = str(job.progress.target_step or "[0-9]+")
    pattern.check_group("progress.step_regex", job.progress.step_regex.replace("{target_step}", target))
    pattern.check("progress.finish_regex", job.progress.finish_regex)
    for key in ("eval_regex", "save_regex"):
        if text := getattr(job.progress, key):
            pattern.check_group(f"progress.{key}", pattern.grouped(text))


def _check_watchdog(job: Job) -> None:
    watchdog = job.watchdog
    if inline.CONTROL.search(watchdog.heartbeat):
        raise Refused(f"watchdog.heartbeat {watchdog.heartbeat!r} has a line end or a control character")
    if watchdog.heartbeat and not watchdog.heartbeat.startswith(("/", "{ckpt_dir}/")):
        raise Refused(
            f"watchdog.heartbeat = {watchdog.heartbeat!r} is no absolute path; start it with / or {{ckpt_dir}}/"
        )
    if watchdog.stack_signal and watchdog.stack_signal == job.checkpoint.save_signal:
        raise Refused(
            f"watchdog.stack_signal = {watchdog.stack_signal} is what the trainer saves at; "
            "type --set watchdog.stack_signal=QUIT, and let the trainer register that with faulthandler"
        )


def _check_times(job: Job) -> None:
    times = job.deadline.startup_s + job.checkpoint.interval_s + job.deadline.margin_s
    if times > job.walltime_s:
        raise Refused(
            f"walltime_s = {job.walltime_s} leaves no time to train: start-up {job.deadline.startup_s} s, one "
            f"checkpoint interval {job.checkpoint.interval_s} s and margin {job.deadline.margin_s} s are {times} s; "
            "type a longer --walltime, or shorten deadline.startup_s, checkpoint.interval_s or deadline.margin_s"
        )


def _check_storage(job: Job, site: Site) -> None:
    if job.checkpoint.keep < 1:
        raise Refused(f"checkpoint.keep = {job.checkpoint.keep} would keep none; type 1 or more (3 is usual)")
    if job.checkpoint.max_writers < 1:
        raise Refused("checkpoint.max_writers = 0 would let no node write; type 1 or more (16 is usual)")
    if job.checkpoint.storage == "shared":
        return
    if not site.local_is_disk and not job.checkpoint.memory_gib:
        raise Refused(
            f"{site.name} has no node-local disk that is known ({site.local_dir} may be memory); "
            "type --set checkpoint.storage=shared, or give it some: --set checkpoint.memory_gib=N"
        )
    if job.checkpoint.memory_gib and (site.local_is_disk or job.checkpoint.copier == "plain"):
        why = (
            f"{site.name}'s nodes have a disk" if site.local_is_disk else "copier = plain does not count what it takes"
        )
        raise Refused(f"checkpoint.memory_gib = {job.checkpoint.memory_gib}: {why}; leave one of them out")
    if job.checkpoint.stage_in in ("node0", "own-shards") and job.checkpoint.copier == "plain":
        raise Refused(f"stage_in = {job.checkpoint.stage_in} needs --set checkpoint.copier=agents; or all, or none")
    if job.checkpoint.sharded and job.nodes > 1 and job.checkpoint.copier == "plain":
        raise Refused(
            f"preset {job.preset} writes parts of a checkpoint on many nodes, and copier = plain copies those of the "
            'first node only; leave checkpoint.copier = "agents", or type --set checkpoint.storage=shared'
        )


def _check_mail(mail: Mail, site: Site) -> None:
    for part in filter(None, mail.to.split(",")):
        if not ADDRESS.fullmatch(part.strip(" ")):
            raise Refused(f"mail.to {part!r} is no address such as ada@example.org; several have commas between them")
    for name in mail.hooks:
        if not HOOK.fullmatch(name):
            raise Refused(f"mail.hooks {name!r} is no name of a webhook in mail.toml: small letters, digits and -")
    for news in mail.on:
        if news not in NEWS:
            raise Refused(f"mail.on has {news!r}{nearest(news, list(NEWS))}")
    if mail.scheduler and site.scheduler == "local":
        raise Refused(f"{site.name} has no scheduler that sends mail; leave mail.scheduler out")
    if mail.scheduler and not mail.to:
        raise Refused("mail.scheduler = true, and nobody to send it to; type --set mail.to=ADDRESS too")


def _check_online(job: Job, site: Site) -> None:
    if job.online and not site.internet and not site.proxy:
        raise Refused(f"{site.name} has no proxy, so compute nodes stay offline; type --set online=false")
