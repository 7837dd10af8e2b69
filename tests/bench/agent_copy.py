"""What an agent of the sidecar does for one checkpoint, in a process of its own: agent_copy.py SOURCE INTO.

It is asked as the coordinator asks it: to look, to link, to copy share by share. Prints the seconds that the copies
took, and the agent's peak memory in MiB.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import memory

from outlast.sidecar import agent, disk, wire

PING_S = 5.0


class Asker:
    """The coordinator's end of the line."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._link.settimeout(PING_S)
        self._lines = wire.Lines()
        self._heard: list[wire.Message] = []

    def ask(self, **question: object) -> Iterator[wire.Message]:
        """What the agent tells until it is done."""
        self._link.sendall(wire.encode({"id": 1, **question}))
        while (answer := self._hear())["m"] != "done":
            if answer["m"] != "pong":
                yield answer
        if "error" in answer:
            raise SystemExit(f"agent_copy: {answer}")

    def _hear(self) -> wire.Message:
        while not self._heard:
            try:
                piece = self._link.recv(1 << 18)
            except TimeoutError:
                self._link.sendall(wire.encode({"m": "ping", "id": 0}))
                continue
            if not piece:
                raise SystemExit("agent_copy: the agent is gone")
            self._heard += self._lines.feed(piece)
        return self._heard.pop(0)


def serve(source: Path, into: Path) -> None:
    """The agent, on the line that is its standard input, until that ends; then its peak memory in MiB, on stdout."""
    agent.tame()
    place = agent.Place(str(into), str(source.parent), "step-", str(into))
    try:
        agent.serve(socket.socket(fileno=0), wire.Lines(), [], place)
    finally:
        status = Path("/proc/self/status").read_text()  # getrusage() counts what its parent had before the exec, too
        print(round(int(status.partition("VmHWM:")[2].split()[0]) / 1024))


def copy(asker: Asker, name: str) -> float:
    """Seconds that its copies take."""
    from outlast.sidecar import tables, transfer

    for _ in asker.ask(m="look", above=-1):
        pass
    told = asker.ask(m="link", name=name, key=f"{name}.1")
    known = tables.Tables()
    files = known.join({"here": known.listing(row for answer in told for row in answer["files"])})
    question = {"m": "copy", "name": name, "key": f"{name}.1", "into": ".incoming", "rate": 0}
    question["hash"] = "xxh3_128" if disk.has_xxh3() else "blake2b"
    memory.warm(files.bytes)
    begun = time.monotonic()
    while files.left:
        for answer in asker.ask(**question, files=transfer.share(files.left_of("here"))):
            for path, _, digest in answer["files"]:
                files.has(path, digest)
    return time.monotonic() - begun


def main(source: Path, into: Path) -> None:
    """Copy the checkpoint SOURCE to the folder INTO."""
    os.nice(19)
    ours, theirs = socket.socketpair()
    words = [sys.executable, __file__, str(source), str(into), "agent"]
    child = subprocess.Popen(words, stdin=theirs, stdout=subprocess.PIPE, text=True)
    theirs.close()
    seconds = copy(Asker(ours), source.name)
    ours.close()
    print(f"{seconds:.3f} {child.communicate()[0]}", end="")


if __name__ == "__main__":
    (serve if sys.argv[3:] else main)(Path(sys.argv[1]), Path(sys.argv[2]))
