"""What all commands of PBS share: asking the server, saying what went wrong."""

from __future__ import annotations

import errno
import getopt
import os
import pwd
import re
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from standin import conf, wire
from standin.book import full_id
from standin.codes import Code
from standin.wire import Message

# Seconds that a command is stuck when the server's host cannot be reached (facts §7).
UNREACHABLE_S = 72.5


def program() -> str:
    return os.path.basename(sys.argv[0])


def fail(text: str, status: int) -> NoReturn:
    """Words to stderr, and the end."""
    print(text, file=sys.stderr)
    sys.exit(status)


def not_here(options_given: set[str]) -> None:
    """Ends the program when it was given an option that PBS has and the stand-in has not."""
    for option in sorted(options_given):
        fail(f"{program()}: the stand-in does not know {option}", 2)


def ask(op: str, connection_status: int = Code.NO_CONNECTION & 255, **fields: Any) -> Message:
    """The server's answer, an error's number among it. No server: the program ends here, as PBS's do."""
    began = time.monotonic()
    server = conf.load().server
    try:
        line = wire.connect(server, conf.SERVER_PORT, conf.scaled(UNREACHABLE_S))
        line.sock.settimeout(None)
        line.send(op=op, user=pwd.getpwuid(os.getuid()).pw_name, **fields)
        answer = line.receive()
        if answer is not None:
            return answer
        why = os.strerror(errno.ECONNRESET)
    except ConnectionRefusedError:
        why = os.strerror(errno.ECONNREFUSED)
    except OSError:
        why = os.strerror(errno.EHOSTUNREACH)
        time.sleep(max(0.0, conf.scaled(UNREACHABLE_S) - (time.monotonic() - began)))
    who = f"{program()}: cannot connect to server {server} (errno=15010)"
    if program() == "qdel":
        who = f"Couldn't connect to cluster: {server}"
    fail(f"{why}\n{who}", connection_status)


def host() -> str:
    """This host's full name."""
    return socket.getfqdn()


def options(words: list[str], letters: str, usage: str) -> tuple[list[tuple[str, str]], list[str]]:
    """As getopt(3); ends the program when they are wrong."""
    try:
        return getopt.gnu_getopt(words, letters)
    except getopt.GetoptError as err:
        fail(f"{program()}: invalid option -- '{err.opt}'\n{usage}", 2)


def job_id(word: str) -> str | None:
    """The whole id, or nothing: that is no id, and the user has been told."""
    if re.fullmatch(r"\d+(\.[\w.-]+)?", word):
        return full_id(word)
    print(f"{program()}: illegally formed job identifier: {word}", file=sys.stderr)
    return None


def each(ids: list[str], act: Callable[[str], Message]) -> int:
    """One request for each job. The status is that of the last one that went wrong."""
    status = 0
    for word in ids:
        job = job_id(word)
        if job is None:
            status = 1
            continue
        answer = act(job)
        if answer.get("code"):
            status = answer["code"] & 255
            # Only qdel names the job that has finished.
            bare = answer["code"] == Code.FINISHED and program() != "qdel"
            print(f"{program()}: {answer['text']}{'' if bare else f' {job}'}", file=sys.stderr)
    return status
