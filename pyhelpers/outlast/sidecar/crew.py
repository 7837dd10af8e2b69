"""The agents: who is connected, what each was asked, what each has seen. Never waits for one of them."""

import contextlib
import os
import secrets
import selectors
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast import rundir
from outlast.sidecar import agent, disk, wire
from outlast.sidecar.judge import Entry
from outlast.sidecar.settings import short
from outlast.sidecar.tables import Listing, Tables
from outlast.sidecar.wire import Message

PING_S = 5.0
SILENT_S = 20.0
HELLO_S = 10.0
QUEUE_MAX = 64 << 20
HERE = "py/outlast/sidecar"  # in a node's folder, what was brought to it

Answer = Callable[[str, Message], None]  # host, message


@dataclass
class Asked:
    """A question that is open: who gets its rows, who its end."""

    rows: Answer
    end: Answer
    host: str


@dataclass
class Peer:
    """One connection."""

    link: socket.socket
    nonce: str
    born_s: float
    heard_s: float
    lines: wire.Lines = field(default_factory=wire.Lines)
    host: str = ""
    xxh3: bool = False
    out: bytearray = field(default_factory=bytearray)


@dataclass
class View:
    """What a host has told of its checkpoints; it stays when the host goes."""

    asked_s: float = 0.0  # when the last look was asked for
    looked_s: float = 0.0  # when the last one that was answered had been
    entries: dict[str, Entry] = field(default_factory=dict)
    lists: dict[str, Listing] = field(default_factory=dict)
    beside: dict[str, tuple[int, int]] = field(default_factory=dict)  # plain files that are no checkpoints
    old: list[str] = field(default_factory=list)  # checkpoints of steps that were not asked for


class Crew:
    """All agents of the job."""

    def __init__(self, token: str, address: str, port: int) -> None:
        self._token = token
        self._peers: dict[socket.socket, Peer] = {}
        self._by_host: dict[str, Peer] = {}
        self._asked: dict[int, Asked] = {}
        self._number = 0
        self._pinged_s = 0.0
        self.tables = Tables()
        self.views: dict[str, View] = {}
        self.left_s: dict[str, float] = {}
        self._selector = selectors.DefaultSelector()
        self._door = _listen(address, port)
        self._selector.register(self._door, selectors.EVENT_READ)

    @property
    def port(self) -> int:
        """Where agents knock."""
        return int(self._door.getsockname()[1])

    def present(self) -> frozenset[str]:
        """The hosts whose agents are connected."""
        return frozenset(self._by_host)

    def hash(self) -> str:
        """The fastest hash that all of them have."""
        return "xxh3_128" if all(peer.xxh3 for peer in self._by_host.values()) else "blake2b"

    def serve(self, limit_s: float) -> None:
        """Hear and tell what there is to hear and tell, for at most so long."""
        for key, events in self._selector.select(limit_s):
            if key.fileobj is self._door:
                self._accept()
                continue
            peer = self._peers.get(key.fileobj)  # type: ignore[call-overload]
            if peer is not None:
                self._serve_one(peer, events)
        self._keep_alive()

    def _serve_one(self, peer: Peer, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(peer)
            if events & selectors.EVENT_READ:
                self._hear(peer)
        except (OSError, wire.WireError, KeyError, TypeError, ValueError, OverflowError):
            self._drop(peer)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            link, _ = self._door.accept()
            link.setblocking(False)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            now = time.monotonic()
            peer = Peer(link, secrets.token_hex(16), now, now)
            self._peers[link] = peer
            self._selector.register(link, selectors.EVENT_READ)
            self._send(peer, {"nonce": peer.nonce})

    def _hear(self, peer: Peer) -> None:
        try:
            piece = peer.link.recv(1 << 18)
        except BlockingIOError:
            return
        if not piece:
            raise ConnectionResetError
        peer.heard_s = time.monotonic()
        for message in peer.lines.feed(piece):
            if peer.host:
                self._take(peer, message)
            else:
                self._welcome(peer, message)

    def _welcome(self, peer: Peer, message: Message) -> None:
        host = str(message["host"])
        if not wire.is_proof(str(message["proof"]), self._token, f"agent {host}", peer.nonce):
            raise wire.WireError("it does not know the token")
        self._send(peer, {"proof": wire.proof(self._token, "coordinator", str(message["nonce"]))})
        peer.host, peer.xxh3 = short(host), message.get("xxh3") is True
        if (old := self._by_host.get(peer.host)) is not None:
            self._drop(old)
        self._by_host[peer.host] = peer
        self.left_s.pop(peer.host, None)

    def _take(self, peer: Peer, message: Message) -> None:
        if message["m"] == "pong":
            return
        asked = self._asked.get(int(message["id"]))
        if asked is None or asked.host != peer.host:
            return
        if message["m"] == "done":
            del self._asked[int(message["id"])]
            asked.end(peer.host, message)
        else:
            asked.rows(peer.host, message)

    def ask(self, host: str, message: Message, end: Answer, rows: Answer = lambda host, message: None) -> int:
        """The question's number; `end` gets the answer, an error `gone` too. The host must be present."""
        self._number += 1
        peer = self._by_host[host]
        self._asked[self._number] = Asked(rows, end, host)
        self._send(peer, {**message, "id": self._number})
        return self._number

    def tell(self, host: str, message: Message) -> None:
        """Say something that has no answer, if the host is there."""
        if (peer := self._by_host.get(host)) is not None:
            self._send(peer, message)

    def _send(self, peer: Peer, message: Message) -> None:
        peer.out += wire.encode(message)
        with contextlib.suppress(OSError):  # the next look at it sees the same
            self._flush(peer)

    def _flush(self, peer: Peer) -> None:
        while peer.out:
            try:
                done = peer.link.send(peer.out[: 1 << 18])
            except BlockingIOError:
                break
            del peer.out[:done]
        if peer.link in self._peers:
            self._selector.modify(peer.link, selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.out else 0))

    def _drop(self, peer: Peer) -> None:
        if self._peers.pop(peer.link, None) is None:
            return
        self._selector.unregister(peer.link)
        peer.link.close()
        if self._by_host.get(peer.host) is not peer:
            return
        del self._by_host[peer.host]
        self.left_s[peer.host] = time.time()
        for number in [number for number, asked in self._asked.items() if asked.host == peer.host]:
            self._asked.pop(number).end(peer.host, {"m": "done", "id": number, "error": "gone"})

    def _keep_alive(self) -> None:
        now = time.monotonic()
        ping = now - self._pinged_s > PING_S
        if ping:
            self._pinged_s = now
        for peer in list(self._peers.values()):
            limit_s = SILENT_S if peer.host else HELLO_S
            if now - peer.heard_s > limit_s or len(peer.out) > QUEUE_MAX:
                self._drop(peer)
            elif ping and peer.host:
                self._send(peer, {"m": "ping", "id": 0})

    def look(self, above: int) -> None:
        """Ask everybody who is not answering already what there is to see."""
        busy = {asked.host for asked in self._asked.values() if asked.end == self._looked}
        for host in self.present() - busy:
            view = self.views.setdefault(host, View())
            view.asked_s = time.time()
            self.ask(host, {"m": "look", "above": above}, self._looked, self._rows)

    def _rows(self, host: str, message: Message) -> None:
        lists = self.views[host].lists
        if message["start"] == 0:
            lists[message["name"]] = self.tables.listing()
        lists[message["name"]].add(message["files"])

    def _looked(self, host: str, message: Message) -> None:
        if "error" in message:
            return
        view, now = self.views[host], time.time()
        view.looked_s = view.asked_s
        view.entries = {
            name: Entry(int(step), view.lists[name], float(quiet_s), now, view.lists[name].number)
            for name, step, quiet_s in message["seen"]
            if name in view.lists
        }
        view.beside = {row[0]: (int(row[1]), int(row[2])) for row in message["beside"]}
        view.old = [str(name) for name in message["old"]]
        view.lists = {name: files for name, files in view.lists.items() if name in view.entries}


def _listen(address: str, port: int) -> socket.socket:
    """At that port if it is free, so that agents find a coordinator that was started again; else at any."""
    for wanted in (port, 0):
        door = socket.socket()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((address, wanted))
            door.listen(1024)
        except OSError:
            door.close()
            continue
        door.setblocking(False)
        return door
    raise OSError(f"no port at {address}")


def keep_agent(local: Path) -> None:
    """The agent's code lies on this node, as lib/bring.sh lays it. Raises: OSError."""
    folder = local / HERE
    for part in (folder.parent.parent, folder.parent, folder):  # not `local`: without that the job is over
        part.mkdir(mode=0o700, exist_ok=True)
    for part in (folder.parent, folder):
        (part / "__init__.py").touch()
    for module in (disk, wire, agent):
        text = Path(str(module.__file__))
        rundir.write(folder / text.name, text.read_text(), 0o600)  # an agent may be reading the one that is there


def start_agent(local: Path, python: str, words: list[str], token: str) -> "subprocess.Popen[Any]":
    """This node's own agent. Its folder, code and interpreter are this node's."""
    # -I: nothing of the user's environment; PYTHONPATH may point into a file system that hangs.
    return subprocess.Popen(
        [python, "-I", "-B", str(local / HERE / "agent.py"), *words],
        env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "OUTLAST_AGENT_TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
