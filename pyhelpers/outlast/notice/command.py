"""By a command of this machine: the site's own, sendmail, or mail."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress

from outlast.masked import masked
from outlast.notice.letter import Letter, mail
from outlast.notice.message import one_line
from outlast.notice.unsent import Unsent

ELSEWHERE = ("/usr/sbin", "/usr/lib")  # where sendmail is for those whose PATH has it not


def known(site: str, env: Mapping[str, str]) -> list[str]:
    """The commands there are, best first: `site` (Bash that sends the mail on its stdin), then sendmail or mail."""
    path = os.pathsep.join([env.get("PATH", os.defpath), *ELSEWHERE])
    found = [where for name in ("sendmail", "mail") if (where := shutil.which(name, path=path))]
    return ([site] if site else []) + found[:1]


def send(command: str, letter: Letter, limit_s: float) -> str:
    """By what it went.

    Raises: Unsent.
    """
    name = os.path.basename(command)
    if os.path.isabs(command) and name == "mail":
        # Some take a line that begins with ~ for a command of theirs.
        body = letter.body.replace("\n~", "\n ~")
        _run(name, [command, "-s", letter.subject, "--", *letter.to], body.encode(), limit_s)
    elif os.path.isabs(command) and name == "sendmail":
        _run(name, [command, "-t", "-oi"], _bytes(letter), limit_s)
    else:
        name = "the site's mail command"
        _run(name, ["bash", "-c", command], _bytes(letter), limit_s)
    return name


def _bytes(letter: Letter) -> bytes:
    return mail(letter).as_bytes().replace(b"\r\n", b"\n")


def _run(name: str, words: list[str], given: bytes, limit_s: float) -> None:
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as said:
        stdin.write(given)
        stdin.seek(0)
        try:
            child = subprocess.Popen(
                words, stdin=stdin, stdout=subprocess.DEVNULL, stderr=said, cwd="/", start_new_session=True
            )
        except OSError as err:
            raise Unsent(f"{name}: {err.strerror}") from err
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired as err:
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise Unsent(f"{name}: not done within {limit_s:.0f} s") from err
        if status:
            said.seek(0)
            last = said.read(1 << 16).decode(errors="replace").strip().rpartition("\n")[2]
            raise Unsent(f"{name}: status {status}{': ' if last else ''}{masked(one_line(last))[:200]}")
