"""Processes of a job on one host: each task has a session of its own, and signals go to whole sessions."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass
class Spawned:
    """The first process of a session."""

    process: subprocess.Popen[bytes]

    @property
    def sid(self) -> int:
        return self.process.pid

    def wait(self) -> int:
        """Its exit code; 256+N: signal N killed it (facts §2)."""
        code = self.process.wait()
        return 256 - code if code < 0 else code


def spawn(
    user: str,
    program: str,
    argv: list[str],
    env: dict[str, str],
    umask: int,
    stdin: int,
    out: IO[bytes],
    err: IO[bytes],
) -> Spawned:
    """Starts a program as the user, in the home folder (facts §4, cwd). Raises: OSError: cannot be executed."""
    who = pwd.getpwnam(user)
    return Spawned(
        subprocess.Popen(
            argv,
            executable=program,
            env=env,
            cwd=who.pw_dir,
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
            user=who.pw_uid,
            group=who.pw_gid,
            extra_groups=os.getgrouplist(user, who.pw_gid),
            umask=umask,
        )
    )


def members(sid: int) -> list[int]:
    """The processes of a session. Who has called setsid is not among them, and survives (facts §3)."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        # pid (comm) state ppid pgrp session
        fields = stat.rpartition(")")[2].split()
        if int(fields[3]) == sid and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def signal_all(sid: int, number: int) -> int:
    """Sends a signal to each process of a session; how many there were."""
    found = members(sid)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return len(found)


def kill_all(sid: int) -> None:
    """SIGKILL until nobody is left: one may fork while we look."""
    for _ in range(20):
        if not signal_all(sid, signal.SIGKILL):
            return
