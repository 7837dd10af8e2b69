"""outlast watch: run a command that must not be silent.

It parses its options with argparse, which tells what stands behind `--` from what stands before it.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from outlast import watch
from outlast.commands import _usage
from outlast.commands.launch import split
from outlast.refused import Refused


def main(argv: list[str]) -> int:
    """Exit status of the command, or 124 if it hung at each try.

    Raises: Refused: there is no command, or an option makes no sense.
    """
    own, command = split(argv)
    options = _parser().parse_args(own)
    if not command:
        raise Refused("no command; type outlast watch --idle 600 -- COMMAND")
    limits = watch.Limits(options.idle, options.retries, options.grace, _step(options.step_regex), options.stacks)
    return watch.Watch(command, limits, _say).run()


def _say(text: str) -> None:
    print(f"outlast watch: {text}", file=sys.stderr, flush=True)


def _step(text: str) -> re.Pattern[bytes] | None:
    if not text:
        return None
    try:
        pattern = re.compile(text.encode())
    except re.error as err:
        raise Refused(f"--step-regex {text!r} is no regular expression ({err})") from err
    if pattern.groups != 1:
        raise Refused(f"--step-regex {text!r} takes one group, around what must change: 'step ([0-9]+)'")
    return pattern


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{0,9}\.?[0-9]{1,9}", text) or not 0 < float(text) < 1e9:
        raise argparse.ArgumentTypeError(f"takes seconds, such as 600, not {text!r}")
    return float(text)


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"takes a number, such as 3, not {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = _usage.Parser(
        prog="outlast watch",
        description="Run a command; end it, with all its processes, and try again when it makes no progress.",
        usage="outlast watch [--idle SEC] [--retries N] [--grace SEC] [--step-regex REGEX] [--stacks DIR] -- CMD...",
    )
    parser.add_argument(
        "--idle", type=_seconds, default=600.0, metavar="SEC", help="so long without progress is a hang (600)"
    )
    parser.add_argument(
        "--retries", type=_count, default=0, metavar="N", help="so often it is tried again after a hang (0)"
    )
    parser.add_argument("--grace", type=_seconds, default=10.0, metavar="SEC", help="from TERM to KILL (10)")
    parser.add_argument("--step-regex", default="", metavar="REGEX", help="progress is what its group shows")
    parser.add_argument(
        "--stacks", type=Path, default=Path(tempfile.gettempdir()), metavar="DIR", help="where stacks are written"
    )
    return parser
