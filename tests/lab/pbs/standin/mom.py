"""pbs_mom: runs on each execution host, starts what the server and the job's own tools ask for."""

from __future__ import annotations

import base64
import os
import random
import signal
import socket
import threading
import time
from typing import Any

from standin import conf, output, wire
from standin.conf import scaled
from standin.lead import DELETE_KILL_LATE, NO_OUTPUT, RERUN, Lead
from standin.part import Part
from standin.wire import Line, Message

# Seconds for which PBS tries to bring a job's output to where it belongs (measured).
UNDELIVERED_S = 33.0


class Mom:
    """The parts of jobs on this host."""

    def __init__(self) -> None:
        self.name = socket.gethostname()
        self.parts: dict[str, Part] = {}

    def handle(self, line: Line, message: Message) -> Message | None:
        act = getattr(self, f"do_{message.pop('op')}")
        answer: Message | None = act(line, **message)
        return answer

    def lead(self, job: str) -> Lead | None:
        part = self.parts.get(job)
        return part if isinstance(part, Lead) else None

    # ── the server ────────────────────────────────────────────────────────────────────────────────────────────

    def do_hello(self, line: Line) -> Message:
        return {}

    def do_start(self, line: Line, job: dict[str, Any]) -> Message:
        """Answers when the script runs: `session`; or `refused`, the Exit_status."""
        lead = Lead(job)
        self.parts[lead.id] = lead
        try:
            sid = lead.start()
        except output.NoFolder:
            del self.parts[lead.id]
            return {"refused": NO_OUTPUT}
        except OSError:
            self.parts.pop(lead.id, None)
            return {"refused": None}
        threading.Thread(target=self._run, args=(lead,), daemon=True).start()
        return {"session": sid}

    def _run(self, lead: Lead) -> None:
        status = lead.run()
        used = time.time() - lead.began
        delivered = status != RERUN and output.deliver(lead.job)
        if not delivered and status != RERUN:
            time.sleep(scaled(UNDELIVERED_S))
        # The server may be away for long; the job is known here until its end is delivered (facts §7).
        while True:
            try:
                server = conf.load().server
                fields = {"job": lead.id, "status": status, "used_s": used, "delivered": delivered, "host": self.name}
                wire.ask(server, conf.SERVER_PORT, 5, op="obit", broken=lead.broken, **fields)
                break
            except OSError:
                time.sleep(0.2)
        if self.parts.get(lead.id) is lead:  # and not the next run already
            del self.parts[lead.id]

    def do_signal(self, line: Line, job: str, number: int) -> Message:
        if lead := self.lead(job):
            lead.signal(number)
        return {}

    def do_terminate(self, line: Line, job: str, delay_s: float, rerun: bool) -> Message:
        """qdel or qrerun. `delay_s` is the queue's."""
        if lead := self.lead(job):
            lead.fixed = RERUN if rerun else lead.fixed
            lead.terminate(delay_s + random.uniform(*DELETE_KILL_LATE))
        return {"known": lead is not None}

    def do_kill(self, line: Line, job: str) -> Message:
        if lead := self.lead(job):
            lead.kill()
        return {"known": lead is not None}

    def do_drop(self, line: Line, job: str) -> Message:
        """The server has taken the job back: end what is here, say nothing."""
        part = self.parts.pop(job, None)
        if isinstance(part, Lead):
            part.aborted = True
            part.changed.set()
        if part:
            part.remove()
        return {}

    def do_shrink(self, line: Line, job: str, gone: list[str], record: dict[str, Any]) -> Message:
        if lead := self.lead(job):
            lead.shrink(gone, record)
        return {}

    def do_change(self, line: Line, job: str, attributes: dict[str, Any]) -> Message:
        if lead := self.lead(job):
            lead.job["attributes"].update(attributes)
        return {}

    # ── other moms ────────────────────────────────────────────────────────────────────────────────────────────

    def do_join(self, line: Line, job: dict[str, Any]) -> Message:
        if job["id"] not in self.parts:
            self.parts[job["id"]] = Part(job)
            self.parts[job["id"]].make()
        return {}

    def do_poll(self, line: Line, job: str) -> Message:
        return {"known": job in self.parts}

    def do_end(self, line: Line, job: str) -> Message:
        if part := self.parts.pop(job, None):
            part.remove()
        return {}

    def do_lines(self, line: Line, job: str, lines: list[str]) -> Message:
        if part := self.parts.get(job):
            part.job["lines"] = lines
            part.write_nodefile()
        return {}

    def do_output(self, line: Line, job: str, stream: str, text: str) -> Message:
        lead = self.lead(job)
        return {"taken": lead is None or lead.bring(stream, base64.b64decode(text))}

    def do_task(self, line: Line, job: str, argv: list[str]) -> Message:
        part = self.parts.get(job)
        return {"status": part.run_task(argv) if part else 254}

    # ── the job's own tools, on this host ─────────────────────────────────────────────────────────────────────

    def do_lines_of(self, line: Line, job: str) -> Message:
        part = self.parts.get(job)
        return {"lines": part.job["lines"] if part else []}

    def do_spawn(self, line: Line, job: str, host: str, argv: list[str]) -> Message:
        """pbs_tmrsh: status of a task on a host of the job; `known` is false for any other name (facts §5)."""
        part = self.parts.get(job)
        lines = part.job["lines"] if part else []
        if host not in lines and host not in [_address(name) for name in lines]:
            return {"known": False}
        if conf.short(host) == self.name and part:
            return {"known": True, "status": part.run_task(argv)}
        return {"known": True, "status": self._spawn_elsewhere(job, host, argv)}

    def _spawn_elsewhere(self, job: str, host: str, argv: list[str]) -> int:
        # A dead sister does not say so. The client hangs until PBS gives the sister up, and returns 0 then; when PBS
        # does not, because it tolerates the loss or because the host was released, for ever (facts §5, dead sister).
        found: list[int] = []
        threading.Thread(target=lambda: found.append(self._ask_task(job, host, argv)), daemon=True).start()
        while not found or self._has_released(job, host):
            time.sleep(0.02)
            lead = self.lead(job)
            if lead and lead.is_lost(conf.short(host)) and not lead.tolerates:
                return 0
        return found[0]

    def _has_released(self, job: str, host: str) -> bool:
        # Also of a living host that was released nothing is heard any more (measured).
        lead = self.lead(job)
        return lead is not None and host not in lead.job["lines"]

    def _ask_task(self, job: str, host: str, argv: list[str]) -> int:
        while True:
            try:
                answer = wire.connect(host, conf.MOM_PORT, None)
            except OSError:
                time.sleep(max(0.1, scaled(1)))
                continue
            answer.send(op="task", job=job, argv=argv)
            try:
                reply = answer.receive()
            except OSError:
                reply = None
            return int(reply["status"]) if reply else 254


def _address(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""


def main(_words: list[str]) -> None:
    """Starts with nothing: a host that was switched off has forgotten its jobs."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # ignored in what a shell starts behind itself; jobs would inherit that
    os.umask(0o022)
    for folder in ("aux", "spool", "undelivered", "mom_priv/jobs"):
        (conf.HOME / folder).mkdir(parents=True, exist_ok=True)
    (conf.HOME / "spool").chmod(0o1777)
    (conf.HOME / "mom_priv").chmod(0o751)
    (conf.HOME / "mom_priv/jobs").chmod(0o751)
    wire.serve(conf.MOM_PORT, Mom().handle)
