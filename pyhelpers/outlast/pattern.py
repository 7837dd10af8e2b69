"""Patterns of the trainer's log, as a running job gives them to grep and sed."""

import os
import re
import subprocess

from outlast.refused import Refused


def check(key: str, regex: str) -> None:
    """Nothing, if `grep -E` takes the pattern.

    Raises: Refused: it doesn't, or has a character that no line of a log has.
    """
    if not regex:
        return
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", regex):
        raise Refused(f"{key} {regex!r} has a line end or a control character")
    if re.search(r"\\[dD]", regex):
        raise Refused(f"{key} {regex!r} has a \\d, which a POSIX extended pattern does not know; write [0-9]")
    _run(key, regex, "grep", "-E", "-e", regex)


def check_group(key: str, regex: str) -> None:
    """Nothing, if the pattern has one group, which takes the number.

    Raises: Refused: it has none or several, or `grep -E` does not take it.
    """
    check(key, regex)
    if not regex:
        return
    # A group that is missing is an error to sed, which so counts them as the job will.
    if not _has_group(regex, 1) or _has_group(regex, 2):
        raise Refused(f"{key} {regex!r} takes one group, around what counts: 'step ([0-9]+)'")


def grouped(regex: str) -> str:
    """The pattern with one group around all of it, if it has none."""
    return f"({regex})" if regex and not _has_group(regex, 1) else regex


def _has_group(regex: str, number: int) -> bool:
    return _status("sed", "-nE", f"s\x01{regex}\x01\\{number}\x01").returncode == 0


def _run(key: str, regex: str, *command: str) -> None:
    answer = _status(*command)
    if answer.returncode > 1:
        said = answer.stderr.strip().splitlines() or [f"status {answer.returncode}"]
        raise Refused(f"{key} {regex!r} is no extended regular expression ({said[-1].removeprefix('grep: ')})")


def _status(*command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, timeout=30, check=False
    )
