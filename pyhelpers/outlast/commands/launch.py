"""outlast launch: the supervisor of a job script, inside an allocation that is open at this terminal.

It parses its options with argparse, which tells what stands behind `--` from what stands before it.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from outlast import config, driver, inline, rundir, schema, site, tree
from outlast.commands import _usage, render, submit
from outlast.refused import Refused

# Below everything else: what an allocation of one's own needs no other word for.
NOBODY = "interactive"  # the allocation pays; whoever typed an account has typed another
BASIS = f"""\
summary = "a command in an interactive allocation"
walltime_s = 1
account = "{NOBODY}"
spares = 0
"""


class LaunchError(Refused):
    """There is nothing to launch in."""

    status = 1


def main(argv: list[str]) -> int:
    """Exit status of the job script that is run here.

    Raises: Refused: there is no command, no allocation, or the site doesn't take it.
    """
    own, command = split(argv)
    options = _parser().parse_args(own)
    if not command:
        raise Refused("no command; type outlast launch [SITE] -- COMMAND")
    new = _prepared(options, command)
    if options.dry_run:
        print(f"would make {new.path} and run its job.sh here")
        return 0
    return watch(rundir.create(new.path, new.script, new.project))


def watch(run: rundir.RunDir) -> int:
    """Exit status of the job script. It has a session of its own, so that Ctrl-C here does not cut it off."""
    # A login shell, as a batch job has: `module` is there. Its stdout would say the log's last lines once more.
    job = subprocess.Popen(["bash", "-l", str(run.script)], stdout=subprocess.DEVNULL, start_new_session=True)
    shown: dict[Path, int] = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: job.terminate())
    try:
        hint = f"in another terminal: outlast events {run.path} --follow"
        print(f"outlast: run {run.name}; Ctrl-C stops it; {hint}", file=sys.stderr, flush=True)
        return _follow(job, run, shown)
    except KeyboardInterrupt:
        rundir.ask(run, "stop", "Ctrl-C at the terminal that launched it")
    print("outlast: it saves and ends, within a minute; Ctrl-C again ends it at once", file=sys.stderr, flush=True)
    try:
        return _follow(job, run, shown)
    except KeyboardInterrupt:
        job.terminate()
        return _follow(job, run, shown)


def _follow(job: subprocess.Popen[bytes], run: rundir.RunDir, shown: dict[Path, int]) -> int:
    """Exit status of the job, when it has ended; its logs come to stdout as they grow, every few seconds."""
    while True:
        code = job.poll()
        _show(run, shown)
        if code is not None:
            return code
        time.sleep(1)


def _show(run: rundir.RunDir, shown: dict[Path, int]) -> None:
    for log in sorted((run.path / "logs").glob("*.log")):
        with log.open("rb") as file:
            file.seek(shown.get(log, 0))
            sys.stdout.buffer.write(file.read())
            shown[log] = file.tell()
    sys.stdout.flush()


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """The words before the first `--`, and those behind it."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = _usage.Parser(
        "outlast launch",
        usage="outlast launch [SITE] [OPTION…] -- COMMAND",
        description="Run a command under the supervisor in this interactive allocation.",
        epilog="COMMAND may hold {ckpt_dir} and {resume}, as in a job file.",
        allow_abbrev=False,
    )
    parser.add_argument("site", metavar="SITE", nargs="?", help="left out: the site that this host belongs to")
    parser.add_argument("--nodes", metavar="N", help="left out: all nodes of the allocation")
    parser.add_argument("--walltime", metavar="TIME", help="left out: until the allocation ends")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="any key of a job file")
    render.add_site_dir(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.set_defaults(account=None, queue=None)
    return parser


def _prepared(options: argparse.Namespace, command: list[str]) -> submit.New:
    root, outside = tree.root(), site.outside(options.site_dir, os.environ)
    name = options.site or guessed(root, outside)
    by = driver.named(site.load(root, name, outside).scheduler, root)
    typed = {"run": f"launch-{time.strftime('%Y%m%d-%H%M%S')}", **_shape(by, options), **render.typed(options)}
    typed |= {"command": tuple(command), "chain": False}
    with tempfile.NamedTemporaryFile("w", suffix=".toml", prefix="launch-") as basis:
        basis.write(BASIS)
        basis.flush()
        plan = config.plan(root, name, basis.name, render.user_file(), typed, outside)
        if plan.job.account == NOBODY and any(name in plan.job.runs_dir for name in inline.ACCOUNT):
            raise Refused(
                f"{name}'s runs lie in a folder of the project that pays; type --set account=NAME, or put "
                f'account = "NAME" under [site.{name}] in {render.user_file()}'
            )
        # Some queue has given the nodes already, whichever it was.
        return submit.prepared(replace(plan, allocated=True), root)


def _shape(by: driver.Driver, options: argparse.Namespace) -> schema.Flat:
    """Nodes and time of the allocation, as far as they were not typed.

    Raises: LaunchError: this is no allocation.
    """
    try:
        nodes = len(by.value("nodes").split())
    except driver.NoAnswer as err:
        raise LaunchError(f"{err}; is this inside an allocation?") from err
    if options.walltime is not None:
        return {"nodes": nodes}
    try:
        return {"nodes": nodes, "walltime_s": int(by.value("end_time")) - int(time.time())}
    except (driver.NoAnswer, ValueError) as err:
        raise LaunchError(f"{err}; type --walltime TIME") from err


def guessed(root: Path, outside: Sequence[Path]) -> str:
    """The site that this host belongs to.

    Raises: Refused: none, or more than one.
    """
    program = 'source "$1/lib/environment.sh" && shift && ol_environment_site "$@"'
    words = [str(root), ":".join(map(str, site.folders(root, outside))), platform.node()]
    answer = subprocess.run(["bash", "-c", program, "outlast", *words], capture_output=True, text=True, timeout=30)
    if answer.returncode or not answer.stdout.strip():
        known = ", ".join(site.names(root, outside))
        raise Refused(f"this host ({platform.node()}) belongs to no known site; name one of {known}")
    return answer.stdout.strip()
