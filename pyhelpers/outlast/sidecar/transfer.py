"""One checkpoint on its way to the shared file system: what is copied, what is under way, what went wrong."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from outlast.sidecar.crew import Crew
from outlast.sidecar.judge import Verdict
from outlast.sidecar.tables import Files, Part, Row
from outlast.sidecar.wire import Message

SHARE = 4 << 30  # so many bytes, or SHARE_FILES, are asked for at once: what follows may have changed by then
SHARE_FILES = 2000
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
FULL = ("ENOSPC", "EDQUOT")  # the shared file system, or our share of it

Warn = Callable[[str, str], None]  # kind, text


class Journal:
    """The files that are copied, on this node's disk: a coordinator that is started again goes on from there.

    In memory are only the hosts whose files they are: there may be 100,000 files.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.hosts: dict[str, set[str]] = {}  # by checkpoint
        for key, _, part, _ in self._rows():
            self.hosts.setdefault(key, set()).add(part.host)

    def _rows(self) -> Iterator[tuple[str, str, Part, str]]:
        try:
            with self._path.open() as file:
                for line in file:
                    try:
                        key, path, host, size, mtime_ns, digest = json.loads(line)
                    except ValueError:
                        continue  # torn
                    yield key, path, Part(host, int(size), int(mtime_ns)), digest
        except OSError:
            pass  # none yet, or out of reach: then it is compared again

    def read(self, key: str) -> Iterator[tuple[str, Part, str]]:
        """Path, part and hash of the files of a checkpoint; of those with the same path the last one counts."""
        if key in self.hosts:
            yield from ((path, part, digest) for row, path, part, digest in self._rows() if row == key)

    def add(self, key: str, files: Mapping[str, tuple[Part, str]]) -> None:
        """These files are copied, and on their disk."""
        self.hosts.setdefault(key, set()).update(part.host for part, _ in files.values())
        rows = ([key, path, part.host, part.size, part.mtime_ns, digest] for path, (part, digest) in files.items())
        try:
            with self._path.open("a") as file:
                file.write("".join(json.dumps(row) + "\n" for row in rows))
        except OSError:
            pass  # a full disk: then it is compared again

    def drop(self, key: str) -> None:
        """Leave out this checkpoint."""
        self.forget(set(self.hosts) - {key})

    def forget(self, keep: set[str]) -> None:
        """Leave out all checkpoints but these."""
        if self.hosts.keys() <= keep:
            return
        self.hosts = {key: hosts for key, hosts in self.hosts.items() if key in keep}
        starts = tuple(json.dumps([key])[:-1] + "," for key in self.hosts)
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            with self._path.open() as old, new.open("w") as file:
                file.writelines(line for line in old if line.startswith(starts))
            new.replace(self._path)
        except OSError:
            new.unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)


@dataclass
class Transfer:
    """A whole checkpoint. `key` tells it from one of the same step that another launch wrote.

    There may be 100,000 files, and this is looked at several times a second: nothing goes through all of them again.
    """

    name: str
    step: int
    key: str
    into: str
    files: Files
    seen_s: float
    algorithm: str = "blake2b"
    format: str = ""
    world_size: int | None = None
    loss: float | None = None
    linked: set[str] = field(default_factory=set)
    linking: set[str] = field(default_factory=set)
    copying: dict[str, int] = field(default_factory=dict)  # host: number of the question
    begun_s: float = 0.0
    progress_s: float = 0.0
    retry_s: float = 0.0
    wait_s: float = FIRST_WAIT_S
    failed: int = 0  # so often since anything of it was copied, not counted what fails all the same way: no room
    withdrawn: bool = False

    @property
    def hosts(self) -> Set[str]:
        """Who has files that it needs."""
        return self.files.counts.keys()

    def needs(self) -> Set[str]:
        """Who has files that have still to be copied."""
        return self.files.left.keys()

    def is_failing(self) -> bool:
        """Has it failed twice in a row? Others may fare better: it may be one file of it."""
        return self.failed >= 2

    def is_copied(self) -> bool:
        """Is nothing left?"""
        return not self.files.left and not self.copying


def begin(verdict: Verdict, attempt: int, generation: str, journal: Journal, algorithm: str) -> Transfer:
    """The transfer of a whole checkpoint. What the journal has of it, unchanged, is copied already."""
    key = f"{verdict.name}.{attempt}"
    into = f".incoming-{verdict.name}.{generation}.{attempt}"
    assert verdict.files is not None, "a whole one has files"
    transfer = Transfer(verdict.name, verdict.step, key, into, verdict.files, time.time(), algorithm)
    if verdict.facts is not None:
        transfer.format = verdict.facts.format.NAME
        transfer.world_size, transfer.loss = verdict.facts.world_size, verdict.facts.loss
    transfer.files.forget()  # of an earlier try
    for path, part, digest in journal.read(key):
        if transfer.files.get(path) == part:
            # One of all, as it was chosen when the first was copied.
            transfer.algorithm, _, code = digest.partition(":")
            transfer.files.has(path, code)
        elif path in transfer.files:
            transfer.files.has_not(path)  # another was copied over it
    return transfer


class Mover:
    """Moves transfers along through the crew: links at once, copies one at a time."""

    def __init__(self, crew: Crew, journal: Journal, writers: int, bytes_per_s: float, warn: Warn) -> None:
        self._crew = crew
        self._journal = journal
        self._writers = writers
        self._bytes_per_s = bytes_per_s
        self._warn = warn

    def link(self, transfer: Transfer) -> None:
        """Link it aside wherever it lies: trainers prune."""
        for host in transfer.hosts & self._crew.present() - transfer.linked - transfer.linking:

            def rows(host: str, message: Message) -> None:
                transfer.files.linked(host, message["files"])

            def end(host: str, message: Message) -> None:
                transfer.linking.discard(host)
                if "error" not in message:
                    transfer.withdrawn |= not transfer.files.is_linked(host)  # removed, or written anew
                    transfer.linked.add(host)
                elif message["error"] in ("ENOENT", "changed"):
                    transfer.withdrawn = True
                elif message["error"] != "gone":
                    self._failed(transfer, host, message)

            transfer.linking.add(host)
            transfer.files.link(host)
            self._crew.ask(host, {"m": "link", "name": transfer.name, "key": transfer.key}, end, rows)

    def copy(self, transfer: Transfer) -> None:
        """Let those who may write go on with it."""
        now = time.time()
        transfer.begun_s = transfer.begun_s or now
        if now < transfer.retry_s:
            return
        room = self._writers - len(transfer.copying)
        for host in sorted(transfer.needs()):
            if room <= 0:
                return
            if host in transfer.copying or host not in transfer.linked or host not in self._crew.present():
                continue
            room -= 1
            self._ask(transfer, host, share(transfer.files.left_of(host)))

    def _ask(self, transfer: Transfer, host: str, files: list[Row]) -> None:
        rate = self._bytes_per_s / min(self._writers, max(1, len(transfer.needs()))) if self._bytes_per_s else 0
        question: Message = {"m": "copy", "name": transfer.name, "key": transfer.key, "into": transfer.into}
        question |= {"files": files, "rate": rate, "hash": transfer.algorithm}

        turn = transfer.files.turn

        def rows(host: str, message: Message) -> None:
            if turn != transfer.files.turn:
                return  # by another hash, or of a try that was given up
            files: dict[str, tuple[Part, str]] = {}
            for path, size, digest in message["files"]:
                part = transfer.files.get(path)
                if part is not None and part.host == host and part.size == size:
                    transfer.files.has(path, str(digest))
                    files[path] = (part, f"{transfer.algorithm}:{digest}")
            if files:
                transfer.progress_s = time.time()
                transfer.wait_s, transfer.failed = FIRST_WAIT_S, 0
                self._journal.add(transfer.key, files)

        def end(host: str, message: Message) -> None:
            transfer.copying.pop(host, None)
            if message.get("error") == "changed":
                transfer.withdrawn = True
            elif message.get("error") == "hash" and transfer.algorithm != "blake2b":
                transfer.algorithm = "blake2b"  # that every Python has
                transfer.files.forget()
                self._journal.drop(transfer.key)
            elif message.get("error") not in (None, "gone", "stopped"):
                self._failed(transfer, host, message)

        transfer.copying[host] = self._crew.ask(host, question, end, rows)

    def _failed(self, transfer: Transfer, host: str, message: Message) -> None:
        self.back_off(transfer, str(message["error"]))
        self._warn(str(message["error"]), f"checkpoint {transfer.step} on {host}: {message.get('text', '')}")

    @staticmethod
    def back_off(transfer: Transfer, kind: str) -> None:
        """Try it again after a while, longer each time."""
        transfer.failed += kind not in FULL
        transfer.retry_s = time.time() + transfer.wait_s
        transfer.wait_s = min(2 * transfer.wait_s, LONGEST_WAIT_S)

    def cancel(self, transfer: Transfer) -> None:
        """Something else is wanted first."""
        for host, number in transfer.copying.items():
            self._crew.tell(host, {"m": "cancel", "id": number})


def share(files: Iterable[Row]) -> list[Row]:
    """As many of these as are asked for at once; at least one."""
    share: list[Row] = []
    room, letters = SHARE, 600_000  # a line is below 1 MiB
    for path, size, mtime_ns in files:
        room -= size
        letters -= 6 * len(path) + 50
        if share and (room < 0 or letters < 0 or len(share) >= SHARE_FILES):
            break
        share.append((path, size, mtime_ns))
    return share
