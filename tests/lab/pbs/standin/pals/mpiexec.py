"""mpiexec: ranks on the hosts of a job (PALS)."""

from __future__ import annotations

import os
import pwd
import signal
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from standin import conf, wire
from standin.conf import scaled
from standin.pals import PORT, options
from standin.pals.options import Options, Usage
from standin.wire import Line, Message

# Seconds of PALS. PING and RPC by their variables of the environment; that TERM is followed by KILL is a guess.
PING_S, RPC_S, TEARDOWN_S = 60.0, 120.0, 30.0


@dataclass
class Place:
    """One host's share of the ranks. `heard` is when its shepherd last said something."""

    host: str
    ranks: list[int]
    line: Line | None = None
    heard: float = field(default_factory=time.monotonic)
    left: set[int] = field(default_factory=set)


def hosts(given: Options) -> list[str]:
    """In the order of the host file, each once. Raises: Usage: there is none."""
    if "hosts" in given.values:
        return given.values["hosts"].split(",")
    path = given.values.get("hostfile") or os.environ.get("PBS_NODEFILE")
    if not path or not Path(path).is_file():
        raise Usage(f"cannot read host file {path or ''}")
    return list(dict.fromkeys(Path(path).read_text().split()))


def places(given: Options) -> list[Place]:
    """Ranks in blocks: the first `ppn` on the first host. Raises: Usage: they do not fit."""
    names = hosts(given)
    count = given.number("n", "np")
    per_host = given.number("ppn") or -(-(count or len(names)) // len(names))
    count = count or per_host * len(names)
    if count > per_host * len(names):
        raise Usage(f"{count} ranks do not fit on {len(names)} hosts with {per_host} each")
    ranks = list(range(count))
    blocks = [ranks[start : start + per_host] for start in range(0, count, per_host)]
    return [Place(host, block, left=set(block)) for host, block in zip(names, blocks, strict=False)]


class Application:
    """All ranks, from the launch to the last one's end."""

    def __init__(self, given: Options, found: list[Place]) -> None:
        self.given, self.places = given, found
        self.id = str(uuid.uuid4())
        self.size = sum(len(place.ranks) for place in found)
        self.status = 0
        self.kill_at: float | None = None
        self.lock = threading.Lock()
        self.signals: list[int] = []
        self.inside: set[tuple[int, str]] = set()  # whose last line has no end yet

    # ── launch ────────────────────────────────────────────────────────────────────────────────────────────────

    def environment(self, number: int, place: Place) -> dict[str, str]:
        base = {} if self.given.has("envnone") else dict(os.environ)
        base.update(word.partition("=")[::2] for word in self.given.env)
        size, local = str(self.size), str(len(place.ranks))
        base.update(PMI_SIZE=size, PMI_UNIVERSE_SIZE=size, PMI_LOCAL_SIZE=local, PALS_LOCAL_SIZE=local)
        base.update(PALS_NODEID=str(number), PALS_APID=self.id, PALS_DEPTH=self.given.values.get("depth", "1"))
        return base

    def launch(self) -> bool:
        """False: a host gave no shepherd; the others have been sent home."""
        user = pwd.getpwuid(os.getuid()).pw_name
        for number, place in enumerate(self.places):
            try:
                place.line = wire.connect(place.host, PORT, scaled(_seconds("PALS_RPC_TIMEOUT", RPC_S)))
                place.line.sock.settimeout(None)
                place.line.send(
                    user=user,
                    ranks=place.ranks,
                    argv=self.given.program,
                    env=self.environment(number, place),
                    cwd=self.given.values.get("wdir", os.getcwd()),
                    line_buffer=self.given.has("line-buffer"),
                    pmix=self.given.values.get("pmi") == "pmix",
                )
            except OSError as err:
                self._give_up(place.host, os.strerror(err.errno) if err.errno else "Connection timed out")
                return False
        for place in self.places:
            threading.Thread(target=self._listen, args=(place,), daemon=True).start()
        threading.Thread(target=self._ping, daemon=True).start()
        return True

    def _give_up(self, host: str, why: str) -> None:
        # The one to blame is the child, not the parent whose name comes first.
        what = f"Couldn't forward RPC launch({self.id}) to child {_managed(host)}"
        print(f"launch failed on {self.places[0].host}: {what}: {why}", file=sys.stderr, flush=True)
        for place in self.places:
            if place.line:
                place.line.close()

    # ── while it runs ─────────────────────────────────────────────────────────────────────────────────────────

    def _listen(self, place: Place) -> None:
        assert place.line
        with suppress(OSError, ValueError):
            for message in place.line:
                place.heard = time.monotonic()
                if "text" in message:
                    self._print(place, message)
                elif "ended" in message:
                    self._ended(place, message["rank"], message["ended"])
        if place.left:
            self._lost(place, f"{place.host}: shepherd died from signal 9")

    def _print(self, place: Place, message: Message) -> None:
        stream = sys.stdout if message["stream"] == "out" else sys.stderr
        with self.lock:
            stream.write(self._labelled(place, message) if self.given.has("label", "l") else message["text"])
            stream.flush()

    def _labelled(self, place: Place, message: Message) -> str:
        # At the start of each line, be it in the middle of what came; without --line-buffer a line comes in parts.
        label, text = f"{place.host} {message['rank']}: ", message["text"]
        source = (message["rank"], message["stream"])
        start = "" if source in self.inside else label
        (self.inside.discard if text.endswith("\n") else self.inside.add)(source)
        return start + text[:-1].replace("\n", f"\n{label}") + text[-1:]

    def _ended(self, place: Place, rank: int, code: int) -> None:
        with self.lock:
            place.left.discard(rank)
            if code:
                how = f"died from signal {-code}" if code < 0 else f"exited with code {code}"
                print(f"{place.host}: rank {rank} {how}", file=sys.stderr, flush=True)
                # The status is that of the last one: 143 when the others were ended because of the first.
                self.status = 128 - code if code < 0 else code
        if code and not self.given.has("no-abort-on-failure"):
            self.tear_down()

    def _lost(self, place: Place, text: str) -> None:
        with self.lock:
            if not place.left:
                return
            place.left.clear()
            print(text, file=sys.stderr, flush=True)
            self.status = 128 + signal.SIGTERM
        if place.line:
            place.line.close()
        self.tear_down()

    def _ping(self) -> None:
        limit_s = _seconds("PALS_RPC_TIMEOUT", RPC_S)
        while True:
            time.sleep(max(0.2, min(scaled(_seconds("PALS_PING_PERIOD", PING_S)), scaled(limit_s) / 2)))
            self.tell(ping=1)
            for place in self.places:
                if place.left and time.monotonic() - place.heard > scaled(limit_s):
                    self._lost(place, f"ping RPC timeout from {_managed(place.host)} after {int(limit_s)}s")

    def tell(self, **message: object) -> None:
        """To all shepherds that have ranks left."""
        for place in self.places:
            if place.line and place.left:
                with suppress(OSError):
                    place.line.send(**message)

    def tear_down(self) -> None:
        """TERM for all that are left, once; KILL later."""
        with self.lock:
            if self.kill_at is not None:
                return
            self.kill_at = time.monotonic() + max(2.0, scaled(TEARDOWN_S))
        self.tell(signal=int(signal.SIGTERM))

    def wait(self) -> int:
        """The status, when no rank is left."""
        while any(place.left for place in self.places):
            time.sleep(0.02)
            while self.signals:
                self.tell(signal=self.signals.pop(0))
            if self.kill_at is not None and time.monotonic() > self.kill_at:
                self.kill_at = time.monotonic() + 1
                self.tell(signal=int(signal.SIGKILL))
        return self.status


def _seconds(variable: str, default: float) -> float:
    value = os.environ.get(variable, "")
    return float(value) if value.isdigit() else default


def _managed(host: str) -> str:
    """The name of a host in the management network, which PALS's own messages have."""
    name = conf.short(host)
    return f"{name}.hostmgmt2{name[2:5]}.cm.aurora.alcf.anl.gov"


def main(words: list[str]) -> int:
    try:
        given = options.parse(words)
        application = Application(given, places(given))
    except Usage as usage:
        print(f"mpiexec: {usage}", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: application.signals.append(got))
    if not application.launch():
        return 1
    return application.wait()
