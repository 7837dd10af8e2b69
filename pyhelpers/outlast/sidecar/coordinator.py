"""The coordinator: it decides what becomes durable next. It never waits for the shared file system, nor for an agent.

What it says goes to stdout, a line a time, words separated by tabs; lib/coordinator.sh listens:

    event   NAME  KEY=TEXT | KEY:=NUMBER ...     for the ledger
    log     LEVEL TEXT
    drained TOKEN                                nothing is left to copy
"""

import os
import signal
import sys
import time
from typing import Any

from outlast.checkpoint import manifest
from outlast.checkpoint.manifest import Item, Manifest
from outlast.sidecar import publish
from outlast.sidecar.broom import Broom
from outlast.sidecar.child import Child, Errand
from outlast.sidecar.crew import Crew, keep_agent, start_agent
from outlast.sidecar.judge import Rules, Verdict
from outlast.sidecar.room import Room
from outlast.sidecar.settings import Ranks, Settings, State
from outlast.sidecar.survey import Survey
from outlast.sidecar.transfer import FULL, Journal, Mover, Transfer, begin

STALL_S = 60.0
LINKED = 3  # newest checkpoints that wait, linked aside, while the shared file system takes none


def say(*words: object) -> None:
    """A line for lib/coordinator.sh."""
    text = "\t".join(str(word).replace("\t", " ").replace("\n", " ") for word in words)
    os.write(1, text.encode(errors="replace")[:4000] + b"\n")


class Coordinator:
    """See the module; `tick` is one look at everything, `run` goes on until the job is over."""

    def __init__(self, settings: Settings, token: str) -> None:
        self.settings = settings
        self.state = State(settings.state)
        words = self.state.words("sidecar_port")
        one = len(settings.hosts) == 1
        self.crew = Crew(token, "127.0.0.1" if one else "0.0.0.0", int(words[0]) if words else 0)
        self.state.write("sidecar_port", f"{self.crew.port}\n")
        self.journal = Journal(settings.state / "sidecar.copied")
        self.mover = Mover(self.crew, self.journal, settings.writers, settings.bytes_per_s, self._trouble)
        self.transfers: dict[str, Transfer] = {}
        self.current: Transfer | None = None
        self.survey = Survey(settings, self.state, self.crew, self.journal)
        self.ranks = 0  # of the launch
        self.judge_s = 0.0  # not before
        self.torn: dict[str, tuple[str, ...]] = {}
        self.room = Room(self.crew, self.state, settings.memory, self._warn)
        self.passed: set[str] = set()
        self.warned: set[str] = set()
        self.writer = Errand(self._lost)  # publishes
        self.broom = Broom(settings, self.state, self._lost, self._pruned)
        self.looked_s = 0.0
        self.drained = ""
        self.repaired = False
        self.throughput = 0.0
        self.silent: list[str] = []
        self.agent: Any = None
        self.agent_s = 0.0
        self.token = token

    # ── what it says ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _warn(self, kind: str, text: str) -> None:
        """Tell of a trouble, once a kind until a checkpoint has become durable."""
        if kind not in self.warned:
            self.warned.add(kind)
            say("log", "warn", f"sidecar: {kind}: {text}")
            say("event", "warned", f"text=sidecar: {kind}: {text}")

    def _trouble(self, kind: str, text: str) -> None:
        """What a copy fails by."""
        if kind in FULL:
            self.broom.full()
        self._warn(kind, text)

    def _seen(self, step: int) -> None:
        words = self.state.words("local_step")
        if not words or step > int(words[0]):
            self.state.write("local_step", f"{step} {int(time.time())}\n")
            say("event", "checkpoint_local", f"step:={step}")

    # ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _rules(self) -> Rules:
        s = self.settings
        attempt, hosts = self.state.attempt()
        if attempt != self.survey.attempt:
            self.survey.begin(attempt)
            for transfer in self.transfers.values():
                self.mover.cancel(transfer)
            self.transfers, self.current, self.torn, self.passed = {}, None, {}, set()
            self.ranks = len(hosts) * s.ranks_per_node
            self.room.begin()
        return Rules(s.complete, s.quiet_s, s.sharded, hosts or s.hosts[:1], s.ranks_per_node)

    # ── what is done about it ─────────────────────────────────────────────────────────────────────────────────────────

    def _accept(self, verdicts: list[Verdict]) -> None:
        """Whole ones begin their way; what they were taken for and are not any more ends it."""
        for verdict in verdicts:
            if not verdict.whole or verdict.name in self.passed:
                continue
            transfer = self.transfers.get(verdict.name)
            if transfer is None:
                self._seen(verdict.step)
                self.room.weigh(verdict.name)
                self.transfers[verdict.name] = begin(
                    verdict, self.survey.attempt, self.settings.generation, self.journal, self.crew.hash()
                )
                if verdict.differ:
                    text = f"checkpoint {verdict.step}: {', '.join(verdict.differ[:3])} differ from node to node"
                    self._warn("differ", f"{text}; that of the first rank is kept")
            elif not transfer.copying and not transfer.linking and self._has_changed(transfer, verdict):
                del self.transfers[verdict.name]  # found again, as it is now, by the next look
        durable = self.state.durable_step()
        newest = sorted((transfer.step for transfer in self.transfers.values()), reverse=True)[:LINKED]
        for name, transfer in list(self.transfers.items()):
            if transfer.step not in newest and transfer is not self.current:
                self.passed.add(name)  # its links would keep the node's disk full
                del self.transfers[name]
                self.room.forget(self._keys())
            elif transfer.step <= durable or transfer.withdrawn:
                self.mover.cancel(transfer)
                del self.transfers[name]
        if self.current is not None and self.transfers.get(self.current.name) is not self.current:
            self.current = None

    def _has_changed(self, transfer: Transfer, verdict: Verdict) -> bool:
        """The trainer has written it anew. (What it has pruned is linked aside.)"""
        return verdict.files is not None and transfer.files.has_changed(verdict.files)

    def _choose(self, over: bool) -> Transfer | None:
        """What is begun is ended, then the newest; when nobody writes any more the newest goes first, if it fits.

        One that keeps failing makes way for those that do not. Where all do, each has its turn.
        """
        there = [transfer for transfer in self.transfers.values() if not self._is_stuck(transfer)]
        ready = [transfer for transfer in there if not transfer.is_failing()]
        if not ready:
            return max(there, key=lambda transfer: (-transfer.failed, transfer.step), default=None)
        newest = max(ready, key=lambda transfer: transfer.step)
        if self.current not in ready or self.current is newest:
            return newest
        assert self.current is not None
        if not over:
            return self.current
        left_bytes = self.state.left_s(time.time()) * (self.throughput or 1e12)
        return self.current if newest.files.left_bytes > left_bytes > self.current.files.left_bytes else newest

    def _is_stuck(self, transfer: Transfer) -> bool:
        """Does it need a host that is not there?"""
        return bool(transfer.needs() - self.crew.present())

    def _move(self, over: bool) -> None:
        if over:
            for transfer in self.transfers.values():  # no time for long waits
                transfer.retry_s = min(transfer.retry_s, time.time() + 1)
        for transfer in self.transfers.values():
            self.mover.link(transfer)
        chosen = self._choose(over)
        if chosen is not self.current and self.current is not None:
            self.mover.cancel(self.current)
        self.current = chosen
        if chosen is None:
            return
        self.mover.copy(chosen)
        busy_s = time.time() - max(chosen.progress_s, chosen.begun_s)
        if chosen.copying and busy_s > STALL_S + chosen.files.bytes / max(1.0, self.throughput or 100e6):
            self._warn("stall", f"checkpoint {chosen.step}: nothing was copied for {busy_s:.0f} s")
        if chosen.is_copied() and not self.writer.is_out and time.time() >= chosen.retry_s:
            self._commit(chosen)

    # ── what touches the shared file system, in a child ───────────────────────────────────────────────────────────────

    def _lost(self, text: str) -> None:
        say("log", "warn", f"sidecar: {text}")
        self.state.write("lost", "")

    def _repair(self) -> None:
        s = self.settings

        def end(child: Child) -> None:
            self.repaired = not child.error
            if child.error:
                self._warn(child.error, child.text)
                time.sleep(0.1)

        self.writer.start(lambda: publish.repair(s.durable, s.lease, s.generation), end)

    def _commit(self, transfer: Transfer) -> None:
        s = self.settings
        commit, dirty = self.state.sources()
        paper = Manifest(
            step=transfer.step,
            list=(),
            run=s.run,
            job=s.job,
            restart=s.restart,
            attempt=self.survey.attempt,
            written=int(time.time()),
            algorithm=transfer.algorithm,
            format=transfer.format,
            world_size=transfer.world_size,
            ranks=self.ranks or None,
            loss=transfer.loss,
            hosts=tuple(sorted(transfer.hosts)),
            versions={"outlast": s.version, **self.state.versions()},
            commit=commit,
            dirty=dirty,
            parent=self.state.parent(),
        )

        def call() -> None:
            files = transfer.files
            text = manifest.lines(paper, (Item(*row) for row in files.copied()), len(files), files.bytes)
            publish.commit(s.durable, transfer.into, transfer.name, text, files.sizes(), s.lease, s.generation)
            # Here, as the coordinator may be killed before it hears of it.
            self.state.write("durable_step", f"{transfer.step}\n")

        self.writer.start(call, lambda child: self._committed(transfer, child))

    def _committed(self, transfer: Transfer, child: Child) -> None:
        if child.error == "torn":
            # Somebody removed what had been copied: nothing of it is believed any more.
            transfer.files.forget()
            self.journal.drop(transfer.key)
        if child.error:
            self.mover.back_off(transfer, child.error)
            self._trouble(child.error, f"checkpoint {transfer.step}: {child.text}")
            return
        seconds, size = max(time.time() - transfer.begun_s, 0.001), transfer.files.bytes
        self.throughput = size / seconds
        self.warned.clear()
        whole_s = round(time.time() - transfer.seen_s)
        say("event", "checkpoint_durable", f"step:={transfer.step}", f"bytes:={size}", f"seconds:={whole_s}")
        say("log", "info", f"checkpoint {transfer.step} is durable ({size} bytes in {seconds:.0f} s)")
        self.transfers.pop(transfer.name, None)
        self._tidy(transfer.step)
        self.broom.untidy()

    def _pruned(self, child: Child) -> None:
        if child.error:
            self._warn(child.error, child.text)
        elif child.answer:
            say("log", "info", f"taken away: {', '.join(child.answer)}")

    def _tidy(self, step: int) -> None:
        """Remove links aside of what is not on its way, and old local checkpoints."""
        self.room.durable(step)
        self.transfers = {name: transfer for name, transfer in self.transfers.items() if transfer.step > step}
        self.journal.forget(self._keys())
        self.room.forget(self._keys())

    def _keys(self) -> set[str]:
        return {transfer.key for transfer in self.transfers.values()}

    def _tell_silent(self) -> None:
        """Nodes whose agent was there and has been gone for long, for lib/pulse.sh."""
        now = time.time()
        gone = self.state.gone()
        silent = sorted(
            h for h, left_s in self.crew.left_s.items() if now - left_s > self.settings.silent_s and h not in gone
        )
        if silent != self.silent:
            self.silent = silent
            self.state.write("silent", "".join(f"{host}\n" for host in silent))

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def tick(self, limit_s: float = 0.2) -> None:
        """Hear, look, judge, move."""
        self.crew.serve(limit_s)
        self.writer.look()
        ranks, rules = self.state.ranks(), self._rules()
        wanted = " ".join(self.state.words("drain_wanted"))
        over = bool(wanted) and not ranks.running
        now = time.time()
        if now - self.looked_s > (0.2 if over else min(1.0, self.settings.look_s)):
            self.looked_s = now
            self.crew.look(self.room.above())
        if not self.repaired:
            if not self.writer.is_out:
                self._repair()
            return
        self.broom.look()
        is_fresh = self.survey.is_fresh(ranks, wanted)
        is_due = is_fresh and time.monotonic() >= self.judge_s
        verdicts = self._judged(ranks, rules) if is_due else []
        self._accept(verdicts)
        self._move(over)
        self.room.make(self._keys())
        if over and wanted != self.drained and is_due >= is_fresh:
            self._end_drain(wanted, ranks, verdicts)

    def _judged(self, ranks: Ranks, rules: Rules) -> list[Verdict]:
        """The verdicts. With 100,000 files they cost, and may take a third of the time."""
        began_s = time.monotonic()
        found = self.survey.verdicts(ranks, rules)
        now_s = time.monotonic()
        self.judge_s = now_s + 2 * (now_s - began_s)
        return found

    def _end_drain(self, wanted: str, ranks: Ranks, verdicts: list[Verdict]) -> None:
        """Nothing is left to copy, or nothing that can still be had: what is torn is named."""
        if (self.state.folder / "lost").exists():
            self._drained(wanted)
        if not self.crew.present() or not self.survey.is_fresh(ranks, wanted) or self.writer.is_out:
            return
        absent, late = self.survey.absent(self._rules(), ranks)
        if absent - late:
            return  # who knows what they have
        pending = [t for t in self.transfers.values() if not (self._is_stuck(t) and self._lost_hosts(t) <= late)]
        durable = self.state.durable_step()
        # One that is whole and not on its way was just given up, because it had changed: it is looked at again.
        known = self.transfers.keys() | self.passed
        open_ = [v for v in verdicts if v.step > durable and not v.torn and not (v.whole and v.name in known)]
        if pending or open_:
            return
        for transfer in self.transfers.values():
            self._tear(transfer.step, transfer.name, [f"{host} is gone" for host in sorted(self._lost_hosts(transfer))])
        for verdict in verdicts:
            if verdict.torn and verdict.step > durable:
                self._tear(verdict.step, verdict.name, list(verdict.missing))
        self._drained(wanted)

    def _lost_hosts(self, transfer: Transfer) -> set[str]:
        return set(transfer.needs() - self.crew.present())

    def _tear(self, step: int, name: str, missing: list[str]) -> None:
        if name in self.torn:
            return
        self.torn[name] = tuple(missing)
        text = f"checkpoint {step} could not be completed: {'; '.join(missing[:4])}"
        say("log", "warn", text)
        say("event", "checkpoint_torn", f"step:={step}", f"why={'; '.join(missing[:4])}")

    def _drained(self, wanted: str) -> None:
        self.drained = wanted
        say("drained", wanted)

    def _keep_agent(self) -> None:
        """This node's agent is there, or started again."""
        s = self.settings
        if (self.agent is None or self.agent.poll() is not None) and time.time() - self.agent_s > 1:
            self.agent_s = time.time()
            words = ["127.0.0.1", str(self.crew.port), s.hosts[0], str(s.local), str(s.ckpt_dir), s.prefix]
            self.agent = start_agent(s.local, sys.executable, [*words, str(s.durable)], self.token)

    def run(self) -> None:
        """Until our parent or the job's folder is gone."""
        beat_s = 0.0
        while os.getppid() == self.settings.parent_pid and self.settings.state.is_dir():
            self._keep_agent()
            self.tick()
            if time.time() - beat_s > 1:
                beat_s = time.time()
                self._tell_silent()
                self.state.write("sidecar_beat", f"{int(beat_s)}\n")


def main(environ: dict[str, str]) -> None:
    """As lib/coordinator.sh starts it."""
    from outlast.sidecar import settings as settings_module
    from outlast.sidecar.child import die_with_parent

    die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # some process trackers send it to all of a job
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.nice(5)
    settings = settings_module.from_env(environ)
    if os.getppid() != settings.parent_pid:
        return  # it died while we woke up: another one may be at work already, at the same port
    keep_agent(settings.local)
    Coordinator(settings, environ["OUTLAST_AGENT_TOKEN"]).run()
