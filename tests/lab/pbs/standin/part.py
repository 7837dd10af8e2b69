"""One host's part of a job: its folders, and the tasks that run here."""

from __future__ import annotations

import base64
import os
import pwd
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from standin import conf, environment, output, session, wire
from standin.session import Spawned

Record = dict[str, Any]


@dataclass
class Part:
    """`job` is what the server sent: id, user, attributes, environment, script, argv, hosts, lines, number, cookie."""

    job: Record
    tasks: list[Spawned] = field(default_factory=list)
    started: int = 0

    @property
    def id(self) -> str:
        return str(self.job["id"])

    def make(self) -> None:
        """TMPDIR and the nodefile, on every host of the job (facts §4)."""
        who = pwd.getpwnam(self.job["user"])
        folder = environment.tmpdir(self.id)
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, who.pw_uid, who.pw_gid)
        self.write_nodefile()

    def write_nodefile(self) -> None:
        """In place, as PBS does it when a host is released: who has it open sees the new text."""
        path = environment.nodefile(self.id)
        path.write_text("".join(f"{line}\n" for line in self.job["lines"]))
        path.chmod(0o644)

    def remove(self) -> None:
        """All processes of the tasks, TMPDIR and the nodefile."""
        for task in self.tasks:
            session.kill_all(task.sid)
        shutil.rmtree(environment.tmpdir(self.id), ignore_errors=True)
        environment.nodefile(self.id).unlink(missing_ok=True)

    def signal(self, number: int) -> None:
        """To the tasks on this host. TERM arrives twice (facts §3)."""
        for task in self.tasks:
            for _ in range(2 if number == signal.SIGTERM else 1):
                session.signal_all(task.sid, number)

    def run_task(self, argv: list[str]) -> int:
        """What pbs_tmrsh and pbsdsh start here; its exit status when it has ended, 256+N after a signal.

        One word of argv is one program's name: quotes and blanks stay in it (facts §5, arguments).
        """
        self.started += 1
        env = environment.of_task(self.job, self.started)
        try:
            task, pipes = self._spawn_task(argv, env)
        except OSError as err:
            self.bring("e", f"pbs_mom, exec of {argv[0]} failed with error: {err.strerror}\n".encode())
            return 254
        self.tasks.append(task)
        readers = [threading.Thread(target=self._pass_on, args=pipe, daemon=True) for pipe in pipes.items()]
        for reader in readers:
            reader.start()
        status = task.wait()
        for reader in readers:
            reader.join(timeout=5)  # a child that went on in a session of its own still has the pipe
        return status

    def _spawn_task(self, argv: list[str], env: dict[str, str]) -> tuple[Spawned, dict[str, IO[bytes]]]:
        program = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=env["PATH"]) or argv[0]
        pipes: dict[str, IO[bytes]] = {}
        ends = []
        for stream in "oe":
            reading, writing = os.pipe()
            pipes[stream] = os.fdopen(reading, "rb", buffering=0)
            ends.append(os.fdopen(writing, "wb", buffering=0))
        try:
            user, umask = self.job["user"], output.umask(self.job)
            return session.spawn(user, program, argv, env, umask, subprocess.DEVNULL, *ends), pipes
        finally:
            for end in ends:
                end.close()

    def _pass_on(self, stream: str, pipe: IO[bytes]) -> None:
        while (chunk := pipe.read(65536)) and self.bring(stream, chunk):
            pass
        pipe.close()

    def bring(self, stream: str, text: bytes) -> bool:
        """What a task prints, into the job's output, which is the first host's: never to the client (facts §1, 15).

        False: nobody takes it any more; a task that prints on gets SIGPIPE (measured).
        """
        encoded = base64.b64encode(text).decode()
        with suppress(OSError):
            host = self.job["hosts"][0]
            answer = wire.ask(host, conf.MOM_PORT, 5, op="output", job=self.id, stream=stream, text=encoded)
            return bool(answer["taken"])
        return True
