"""The block of settings of a rendered script: plain assignments that a person may read, and later change."""

from dataclasses import dataclass

from outlast import __version__, inline, pattern
from outlast.config import Plan
from outlast.notice.message import addresses
from outlast.queue import clock, find

Row = tuple[str, object]


@dataclass(frozen=True)
class Install:
    """Where the outlast that renders is: what the first job copies, and the Python it starts."""

    python: str  # the interpreter itself, which outlives a virtual environment
    python_env: str  # the interpreter of the environment with outlast's packages
    root: str


def block(plan: Plan, install: Install) -> str:
    """All settings, grouped, each OUTLAST_NAME=value."""
    groups = [
        _run(plan),
        _machine(plan),
        _command(plan),
        _checkpoints(plan),
        _times(plan),
        _watchdog(plan),
        _crash(plan),
        _guards(plan),
        _checks(plan),
        _pins(plan),
        _mail(plan),
        _self(install),
    ]
    user = "USER=${USER:-$(id -un)}  # a login shell sets it, a bare environment doesn't\n"
    return user + "\n".join("".join(_line(name, value) for name, value in group) for group in groups)


def _line(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return f"OUTLAST_{name}=({inline.words(value)})\n"
    if isinstance(value, bool):
        return f"OUTLAST_{name}={value:d}\n"
    return f"OUTLAST_{name}={value if isinstance(value, int) else inline.value(str(value))}\n"


def _run(plan: Plan) -> list[Row]:
    job = plan.job
    return [
        ("VERSION", __version__),
        ("SITE", plan.site.name),
        ("SCHEDULER", plan.site.scheduler),
        ("JOB", plan.name),
        ("RUN", job.run),
        ("FROM", job.from_),
        ("RUNS_DIR", inline.folder("runs_dir", inline.for_account(job.runs_dir, job.account))),
        ("BAD_NODES", inline.folder("bad_nodes", inline.for_account(job.bad_nodes, job.account))),
        ("PROJECT_DIR", inline.folder("project_dir", inline.for_account(job.project_dir, job.account))),
        ("NODES", job.nodes),
        ("SPARES", job.spares),
        ("WALLTIME_S", job.walltime_s),
        ("QUEUE", job.queue),
        ("EXCLUDE", ",".join(job.exclude)),
        ("CHAIN", job.chain),
        ("SUCCESSOR", job.successor),
    ]


def _machine(plan: Plan) -> list[Row]:
    job, site = plan.job, plan.site
    return [
        ("LOCAL_BASE", inline.folder("local_dir", site.local_dir)),
        ("RANKS_PER_NODE", job.ranks_per_node),
        ("GPU_ARCH", site.gpu_arch),
        ("THREADS", max(1, site.cores_per_node // job.ranks_per_node) if site.cores_per_node else 0),
        ("NET_INTERFACES", site.net_interfaces),
        ("MASTER_SUFFIX", site.master_suffix),
        ("LAUNCHER", site.launcher),
        ("LAUNCH_ARGS", site.launch + job.launch),
        ("ONLINE", job.online),
        ("PROXY", site.proxy),
        ("NO_PROXY", site.no_proxy),
        ("DETERMINISM", job.determinism),
    ]


def _command(plan: Plan) -> list[Row]:
    target = plan.job.progress.target_step
    return [
        ("COMMAND", tuple(word.replace("{target_step}", str(target)) for word in plan.job.command)),
        ("PRESET", plan.job.preset),
        ("RESUME_ARGS", plan.job.checkpoint.resume),
        ("STEP_REGEX", plan.job.progress.step_regex.replace("{target_step}", str(target or "[0-9]+"))),
        ("STEP_ZERO_COUNTS", plan.preset.step_zero_counts),
        ("TARGET_STEP", target),
        ("FINISH_REGEX", plan.job.progress.finish_regex),
        ("EVAL_REGEX", pattern.grouped(plan.job.progress.eval_regex)),
        ("SAVE_REGEX", pattern.grouped(plan.job.progress.save_regex)),
        ("SAVE_SIGNAL", plan.job.checkpoint.save_signal),
        ("SAVES_ON_STOP", plan.job.checkpoint.saves_on_stop),
    ]


def _checkpoints(plan: Plan) -> list[Row]:
    ckpt = plan.job.checkpoint
    return [
        ("STORAGE", ckpt.storage),
        ("SHARDED", ckpt.sharded),
        ("STAGE_IN", ckpt.brings),
        ("CKPT_PREFIX", ckpt.prefix),
        ("CKPT_COMPLETE", ckpt.complete),
        ("CKPT_QUIET_S", ckpt.quiet_s),
        ("CKPT_KEEP", ckpt.keep),
        ("CKPT_KEEP_BEST", ckpt.keep_best),
        ("CKPT_KEEP_EVERY", ckpt.keep_every),
        ("CKPT_GRACE_S", ckpt.grace_s),
        ("ON_DURABLE", ckpt.on_durable),
        ("ON_DURABLE_EVERY", ckpt.on_durable_every),
        ("ON_DURABLE_LIMIT_S", ckpt.on_durable_limit_s),
        ("SCORE_MIN", ckpt.score_min),
        ("SCORE_MAX", ckpt.score_max),
        ("CKPT_COPIER", ckpt.copier),
        ("CKPT_WRITERS", ckpt.max_writers),
        ("CKPT_MEMORY_GIB", ckpt.memory_gib),
        ("CKPT_MIB_PER_S", ckpt.bandwidth_mib_s),
        ("CKPT_INTERVAL_S", ckpt.interval_s),
    ]


def _times(plan: Plan) -> list[Row]:
    deadline = plan.job.deadline
    return [
        ("MARGIN_S", deadline.margin_s),
        ("STARTUP_S", deadline.startup_s),
        ("STOP_WAIT_S", deadline.stop_wait_s),
        ("TRAIN_AT_MOST_S", deadline.train_at_most_s),
        ("POLL_S", deadline.poll_s),
        ("PREPARE_LIMIT_S", plan.job.prepare_limit_s),
    ]


def _watchdog(plan: Plan) -> list[Row]:
    watchdog = plan.job.watchdog
    return [
        ("WATCHDOG", watchdog.enabled),
        ("IDLE_S", watchdog.idle_s),
        ("START_LIMIT_S", watchdog.startup_s),
        ("EVAL_LIMIT_S", watchdog.eval_s),
        ("SAVE_LIMIT_S", watchdog.save_s),
        ("HEARTBEAT", watchdog.heartbeat),
        ("STACK_SIGNAL", watchdog.stack_signal),
    ]


def _crash(plan: Plan) -> list[Row]:
    return [("CRASH_PATTERNS", plan.job.crash.patterns)]


def _guards(plan: Plan) -> list[Row]:
    guard = plan.job.guard
    return [
        ("ATTEMPTS", guard.attempts),
        ("SWAPS", guard.swaps),
        ("RECOVERY_S", guard.recovery_s),
        ("STUCK_JOBS", guard.stuck_jobs),
        ("SAME_FAILURE", guard.same_failure),
        ("RAPID_S", guard.rapid_s),
        ("RAPID_WAIT_S", guard.rapid_wait_s),
        ("MAX_JOBS", guard.max_jobs),
        ("MAX_NODE_HOURS", guard.max_node_hours),
        ("END_DATE", guard.end_date),
    ]


def _checks(plan: Plan) -> list[Row]:
    job, site = plan.job, plan.site
    node = site.node
    return [
        ("PREFLIGHT", job.preflight.enabled),
        ("CHECK_SKIP", " ".join(sorted({*node.skip, *job.preflight.skip}))),
        ("CHECK_RULES", " ".join(f"{name}={rule}" for name, rule in sorted(node.unknown.items()))),
        ("CHECK_GPUS", node.gpus),
        ("CHECK_GPU_TOOL", node.gpu_tool),
        ("CHECK_GPU_MODEL", node.gpu_model),
        ("CHECK_INTERFACES", " ".join(node.interfaces)),
        ("CHECK_MEMORY_GIB", node.memory_gib),
        ("CHECK_LOCAL_IS_DISK", site.local_is_disk),
        ("CHECK_LOCAL_FS", node.local_fs),
        ("CHECK_LOCAL_GIB", node.local_gib),
    ]


def _mail(plan: Plan) -> list[Row]:
    mail = plan.job.mail
    # Two checkpoints in time are the least that can be late.
    late_s = max(mail.not_durable_s, 2 * plan.job.checkpoint.interval_s) if mail.not_durable_s else 0
    return [
        ("MAIL_TO", mail.to),
        ("MAIL_HOOKS", " ".join(mail.hooks)),
        ("MAIL_ON", " ".join(mail.on)),
        ("MAIL_COMMAND", mail.command or plan.site.mail_command),
        ("NOT_DURABLE_S", late_s),
    ]


def _pins(plan: Plan) -> list[Row]:
    pins = plan.job.pins
    return [("PIN_FILES", pins.files), ("PIN_COMMANDS", pins.commands), ("PIN_GIT", pins.git)]


def _self(install: Install) -> list[Row]:
    return [("PYTHON", install.python), ("PYTHON_PATH", install.python_env), ("ROOT", install.root)]


def functions(plan: Plan) -> str:
    """The job's own functions: its variables, its lines before each launch, and its lines once per run if any."""
    job = plan.job
    exports = tuple(f"export {name}={inline.value(text)}" for name, text in sorted(job.env.items()))
    texts = [
        inline.function("ol_job_env", "Variables of the job file and its preset.", exports),
        inline.function("ol_job_setup", "The job's own lines, before each launch.", job.setup),
    ]
    if job.prepare:
        texts.append(inline.function("ol_job_prepare", "The job's own lines, once per run.", job.prepare))
    return "\n".join(texts)


def directives(plan: Plan) -> list[str]:
    """What the job asks its scheduler for, one option a line, without the mark in front."""
    asked = _pbs_directives(plan) if plan.site.scheduler == "pbs" else _slurm_directives(plan)
    return [*asked, *plan.site.directives, *plan.job.directives]


def _slurm_directives(plan: Plan) -> list[str]:
    job = plan.job
    queue = find(plan.site, job.queue)
    options = {
        "job-name": job.run,
        "account": job.account,
        "partition": queue.partition,
        "qos": queue.qos,
        "nodes": str(job.nodes + job.spares),
        "time": clock(job.walltime_s),
        "exclude": ",".join(job.exclude),
        "reservation": job.reservation,
    }
    if job.mail.scheduler:
        # Slurm knows one user to mail: the first. INVALID_DEPEND: the chain is broken.
        options |= {"mail-user": addresses(job.mail.to)[0], "mail-type": "END,FAIL,INVALID_DEPEND"}
    return [f"--{name}={text}" for name, text in options.items() if text]


def _pbs_directives(plan: Plan) -> list[str]:
    job, site = plan.job, plan.site
    chunk = str(job.nodes + job.spares) + (f":{job.select}" if job.select else "")
    resources = {
        "select": chunk,
        "place": site.place,
        "walltime": clock(job.walltime_s),
        "filesystems": ":".join(job.filesystems),
    }
    # A reservation of PBS is a queue.
    options = {"N": job.run, "A": job.account, "q": job.reservation or find(site, job.queue).partition}
    if job.mail.scheduler:
        options |= {"M": ",".join(addresses(job.mail.to)), "m": "ae"}  # aborted, ended
    lines = [f"-{name} {text}" for name, text in options.items() if text]
    # Of an -l given twice PBS takes the first, so these can't be changed by `directives`.
    return lines + [f"-l {name}={text}" for name, text in resources.items() if text]
