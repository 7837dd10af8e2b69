"""The first host's part of a job: the script, its walltime, its sisters, its end."""

from __future__ import annotations

import os
import pwd
import random
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from standin import conf, environment, output, session, times, wire
from standin.conf import kill_scaled, scaled
from standin.part import Part
from standin.session import Spawned

SCRIPTS = conf.HOME / "mom_priv/jobs"

# Seconds. Source: facts §1, 4 and 5; §6.
FIRST_POLL, POLL_GROWS, LAST_POLL = 10.0, 6.0, 120.0
SISTER_LOST = 364.0  # detection, and $max_poll_downtime of 300; the job ends at a later poll
SISTER_LOST_LONG = 430.0
SISTER_LOST_AT_START = 32.0  # with tolerate_node_failures
WALLTIME_KILL = (10.0, 11.2)
DELETE_KILL_LATE = (0.0, 12.0)  # after the queue's kill_delay

# What does not kill a process that knows nothing of it.
HARMLESS = {signal.SIGURG, signal.SIGWINCH, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP}

# Exit_status of jobs that did not end by themselves.
WALLTIME, NODE_LOST, RERUN, NO_OUTPUT = -29, -14, -11, -3


@dataclass
class Lead(Part):
    """`done(status)` is told when the job has ended here and on its sisters."""

    top: Spawned | None = None
    files: dict[str, IO[bytes]] = field(default_factory=dict)
    began: float = 0.0
    status: int | None = None  # of the top process
    fixed: int | None = None  # Exit_status, whatever the top process says
    kill_at: float | None = None  # the job is being ended, KILL comes then
    seen: dict[str, float] = field(default_factory=dict)  # when each sister last answered
    aborted: bool = False
    broken: bool = False  # a sister knows nothing of it: it fails, also with a script that ends with 0
    deaf: bool = False  # what brings the tasks' output here is dead
    changed: threading.Event = field(default_factory=threading.Event)

    # ── start ─────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> int:
        """The session of the script. Raises: output.NoFolder: its log has no place; OSError: the job was taken back."""
        self.files = output.open_all(self.job)
        self._join_sisters()
        if self.aborted:
            raise OSError("taken back")
        self.make()
        self.began = time.time()
        sid = self._spawn()
        threading.Thread(target=self._watch_top, daemon=True).start()
        threading.Thread(target=self._ping_sisters, daemon=True).start()
        return sid

    @property
    def sisters(self) -> list[str]:
        return list(dict.fromkeys(self.job["hosts"][1:]))

    @property
    def tolerates(self) -> bool:
        return str(self.job["attributes"].get("tolerate_node_failures", "none")) in ("all", "job_start")

    def _join_sisters(self) -> None:
        # One that is dead, but not yet known to be, keeps the job from starting until the server takes it back.
        began = time.monotonic()
        missing = self.sisters
        while missing and not self.aborted:
            missing = [host for number, host in enumerate(missing, 1) if not self._join(host, number)]
            if missing and self.tolerates and time.monotonic() - began > scaled(SISTER_LOST_AT_START):
                return
            time.sleep(0.05 if missing else 0)

    def _join(self, host: str, number: int) -> bool:
        try:
            wire.ask(host, conf.MOM_PORT, max(1, scaled(5)), op="join", job={**self.job, "number": number})
        except OSError:
            return False
        self.seen[host] = time.monotonic()
        return True

    def _spawn(self) -> int:
        program, argv, text = self._command()
        try:
            self.top = session.spawn(
                self.job["user"],
                program,
                argv,
                environment.of_script(self.job),
                output.umask(self.job),
                subprocess.PIPE if text else subprocess.DEVNULL,
                self.files["o"],
                self.files["e"],
            )
        except OSError as err:
            self.say("e", f"pbs_mom, exec of {program} failed with error: {err.strerror}\n".encode())
            self.status = 254
            return 0
        if self.top.process.stdin:
            self.top.process.stdin.write(text.encode())
            self.top.process.stdin.close()
        return self.top.sid

    def _command(self) -> tuple[str, list[str], str]:
        # A login shell that is told the script's path on stdin, and stands above it; or the one of `-S`. A program
        # given to qsub behind `--` is the job itself (facts §1, 1 and 2).
        if self.job["argv"]:
            return self.job["argv"][0], self.job["argv"], ""
        who = pwd.getpwnam(self.job["user"])
        shell = str(self.job["attributes"].get("Shell_Path_List", who.pw_shell)).partition("@")[0]
        return shell, [f"-{Path(shell).name}"], f"{self._write_script()}\n"

    def _write_script(self) -> Path:
        who = pwd.getpwnam(self.job["user"])
        path = SCRIPTS / f"{self.id}.SC"
        path.write_bytes(self.job["script"].encode(errors="surrogateescape"))
        os.chown(path, who.pw_uid, who.pw_gid)
        path.chmod(0o700)
        return path

    # ── watch ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _watch_top(self) -> None:
        if self.top:
            status = self.top.wait()
            time.sleep(0.1)  # what the same signal has hit is gone by then
            self.status = status
        self.changed.set()

    def _ping_sisters(self) -> None:
        while not self.aborted:
            for host in self.sisters:
                threading.Thread(target=self._ping, args=(host,), daemon=True).start()
            time.sleep(max(0.3, scaled(5)))

    def _ping(self, host: str) -> None:
        try:
            answer = wire.ask(host, conf.MOM_PORT, max(1, scaled(5)), op="poll", job=self.id)
        except OSError:
            return
        if answer["known"]:
            self.seen[host] = time.monotonic()
        elif host in self.sisters:
            self.seen[host] = -1.0

    def is_lost(self, host: str, after_s: float = SISTER_LOST) -> bool:
        """PBS has given the sister up."""
        seen = self.seen.get(host, 0.0)
        return host in self.sisters and seen >= 0 and time.monotonic() - seen > scaled(after_s)

    def run(self) -> int:
        """Exit_status, as soon as the job is at its end."""
        pause, poll_at = FIRST_POLL, time.monotonic() + scaled(FIRST_POLL)
        while True:
            looks = self.changed.wait(self._pause(poll_at))
            self.changed.clear()
            if time.monotonic() >= poll_at:
                looks = True
                self._poll()
                # While a job is being ended MoM looks more often.
                pause = FIRST_POLL if self.kill_at else min(pause + POLL_GROWS, LAST_POLL)
                poll_at = time.monotonic() + scaled(pause)
            if self._is_over(looks):
                return self._end()

    def _pause(self, poll_at: float) -> float:
        until = poll_at if self.kill_at is None else min(poll_at, self.kill_at)
        return max(0.0, until - time.monotonic())

    def _is_over(self, looks: bool) -> bool:
        if self.aborted or (self.kill_at is not None and time.monotonic() >= self.kill_at):
            return True
        if self.status is None or not looks:
            return False
        # The top process has ended: at once, unless the job is being ended already and traps of others run on. That
        # those have ended too is noticed at a poll (facts §2).
        return self.kill_at is None or not self._left()

    def _left(self) -> list[int]:
        return session.members(self.top.sid) if self.top else []

    def _poll(self) -> None:
        if self.kill_at is not None:
            return
        limit = times.walltime_s(str(self.job["attributes"].get("Resource_List.walltime", "")))
        used = time.time() - self.began
        if limit is not None and used > limit:
            self.say("e", f"=>> PBS: job killed: walltime {int(used)} exceeded limit {limit}\n".encode())
            self.fixed = WALLTIME
            self.terminate(random.uniform(*WALLTIME_KILL))
            return
        for number, host in enumerate(self.sisters, 1):
            if self.seen.get(host) == -1.0:  # it has been rebooted, and knows nothing of us (facts §1, 11)
                text = f"=>> PBS: job killed: node {number} ({self.full(host)}) requested job die, code 15009\n"
                self.say("e", text.encode())
                self.broken = True
                self.terminate(random.uniform(*WALLTIME_KILL))
                return
            if self.is_lost(host, SISTER_LOST_LONG) and not self.tolerates:
                self.fixed = NODE_LOST
                self.kill_at = time.monotonic()
                return

    @staticmethod
    def full(host: str) -> str:
        return conf.load().hosts.get(host, host)

    # ── end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def terminate(self, kill_after_s: float) -> None:
        """SIGTERM on this host only, KILL later (facts §1, 3). A second one sends TERM again and moves nothing."""
        if self.kill_at is None:
            self.kill_at = time.monotonic() + kill_scaled(kill_after_s)
        self.signal(signal.SIGTERM)
        self.changed.set()

    def signal(self, number: int) -> None:
        """To all processes of the script's session, and to tasks on this host; never to a sister."""
        if self.top:
            session.signal_all(self.top.sid, number)
            # On several hosts a process of PBS's own in this session (pbs_demux) collects what tasks print. It dies
            # as well: from now on their output is lost (measured).
            self.deaf = self.deaf or (number not in HARMLESS and len(self.job["hosts"]) > 1)
        super().signal(number)

    def kill(self, fixed: int | None = None) -> None:
        """SIGKILL now, without a TERM."""
        self.fixed = fixed if fixed is not None else self.fixed
        self.kill_at = time.monotonic()
        self.changed.set()

    def _end(self) -> int:
        # The script goes first, so that its death is its exit status; KILL is everywhere within 0.1 s.
        if self.top:
            session.kill_all(self.top.sid)
            self.status = self.top.wait() if self.status is None else self.status
        for host in self.sisters:
            threading.Thread(target=self._tell_end, args=(host,), daemon=True).start()
        self.aborted = True
        self.remove()
        (SCRIPTS / f"{self.id}.SC").unlink(missing_ok=True)
        for file in self.files.values():
            file.close()
        return self.fixed if self.fixed is not None else int(self.status or 0)

    def _tell_end(self, host: str) -> None:
        wire.tell(host, conf.MOM_PORT, max(1, scaled(5)), op="end", job=self.id)

    def shrink(self, gone: list[str], job: dict[str, Any]) -> None:
        """Hosts leave the job: their processes get SIGKILL, the nodefile is rewritten everywhere (facts §6)."""
        self.job.update(hosts=job["hosts"], lines=job["lines"], attributes=job["attributes"])
        self.write_nodefile()
        for host in gone:
            threading.Thread(target=self._tell_end, args=(host,), daemon=True).start()
        for host in self.sisters:
            threading.Thread(target=self._tell_lines, args=(host,), daemon=True).start()

    def _tell_lines(self, host: str) -> None:
        wire.tell(host, conf.MOM_PORT, max(1, scaled(5)), op="lines", job=self.id, lines=self.job["lines"])

    def say(self, stream: str, text: bytes) -> None:
        with suppress(OSError, ValueError, KeyError):  # the output's end may come before that of who writes it
            self.files[stream].write(text)

    def bring(self, stream: str, text: bytes) -> bool:
        """What a task prints, on whatever host."""
        if not self.deaf:
            self.say(stream, text)
        return not self.deaf
