"""One checkpoint on its way to the shared file system: what is copied, what is under way, what went wrong."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from outlast.sidecar.agent import Message
from outlast.sidecar.crew import Crew
from outlast.sidecar.judge import Part, Verdict

SHARE = 4 << 30  # so many bytes, or SHARE_FILES, are asked for at once: what follows may have changed by then
SHARE_FILES = 2000
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0

Warn = Callable[[str, str], None]  # kind, text


class Journal:
    """The files that are copied, on this node's disk: a coordinator that is started again goes on from there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.files: dict[str, dict[str, tuple[Part, str]]] = {}
        try:
            lines = path.read_text().splitlines()
        except OSError:
            lines = []
        for line in lines:
            try:
                key, file, host, size, mtime_ns, digest = json.loads(line)
            except ValueError:
                continue  # torn
            self.files.setdefault(key, {})[file] = (Part(host, int(size), int(mtime_ns)), digest)

    def add(self, key: str, files: Mapping[str, tuple[Part, str]]) -> None:
        """These files are copied, and on their disk."""
        self.files.setdefault(key, {}).update(files)
        rows = ([key, path, part.host, part.size, part.mtime_ns, digest] for path, (part, digest) in files.items())
        try:
            with self._path.open("a") as file:
                file.write("".join(json.dumps(row) + "\n" for row in rows))
        except OSError:
            pass  # a full disk: then it is compared again

    def drop(self, key: str) -> None:
        """Leave out this checkpoint."""
        self.forget(set(self.files) - {key})

    def forget(self, keep: set[str]) -> None:
        """Leave out all checkpoints but these."""
        if self.files.keys() <= keep:
            return
        self.files = {key: files for key, files in self.files.items() if key in keep}
        rows = [
            [key, path, part.host, part.size, part.mtime_ns, digest]
            for key, files in self.files.items()
            for path, (part, digest) in files.items()
        ]
        try:
            self._path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        except OSError:
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
    files: dict[str, Part]
    seen_s: float
    algorithm: str = "blake2b"
    format: str = ""
    world_size: int | None = None
    loss: float | None = None
    linked: set[str] = field(default_factory=set)
    linking: set[str] = field(default_factory=set)
    copied: dict[str, str] = field(init=False)  # path: hash
    copying: dict[str, int] = field(default_factory=dict)  # host: number of the question
    begun_s: float = 0.0
    progress_s: float = 0.0
    retry_s: float = 0.0
    wait_s: float = FIRST_WAIT_S
    withdrawn: bool = False

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing of it is copied, as far as anybody knows."""
        self.copied = {}
        self._left: dict[str, dict[str, None]] = {}
        self._left_bytes = self.bytes
        for path, part in self.files.items():
            self._left.setdefault(part.host, {})[path] = None

    def has(self, path: str, digest: str) -> None:
        """This file is copied."""
        part = self.files[path]
        if path not in self.copied:
            self._left_bytes -= part.size
            del self._left[part.host][path]
            if not self._left[part.host]:
                del self._left[part.host]
        self.copied[path] = digest

    @cached_property
    def hosts(self) -> set[str]:
        """Who has files that it needs."""
        return {part.host for part in self.files.values()}

    @cached_property
    def bytes(self) -> int:
        """Of all of it."""
        return sum(part.size for part in self.files.values())

    def left(self) -> Mapping[str, Mapping[str, None]]:
        """The paths that have still to be copied, by host."""
        return self._left

    def left_bytes(self) -> int:
        """How much that is."""
        return self._left_bytes

    def is_copied(self) -> bool:
        """Is nothing left?"""
        return not self._left and not self.copying


def begin(verdict: Verdict, attempt: int, generation: str, journal: Journal, algorithm: str) -> Transfer:
    """The transfer of a whole checkpoint. What the journal has of it, unchanged, is copied already."""
    key = f"{verdict.name}.{attempt}"
    transfer = Transfer(
        verdict.name,
        verdict.step,
        key,
        f".incoming-{verdict.name}.{generation}.{attempt}",
        dict(verdict.files),
        time.time(),
        algorithm,
    )
    if verdict.facts is not None:
        transfer.format = verdict.facts.found.format.NAME
        transfer.world_size, transfer.loss = verdict.facts.world_size, verdict.facts.loss
    for path, (part, digest) in journal.files.get(key, {}).items():
        told, _, text = digest.partition(":")
        if transfer.files.get(path) == part:
            transfer.algorithm = told  # of all, as they were chosen when the first was copied
            transfer.has(path, text)
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
            found: dict[str, Part] = {}

            def rows(host: str, message: Message, found: dict[str, Part] = found) -> None:
                found.update({row[0]: Part(host, int(row[1]), int(row[2])) for row in message["files"]})

            def end(host: str, message: Message, found: dict[str, Part] = found) -> None:
                transfer.linking.discard(host)
                if "error" not in message:
                    self._linked(transfer, host, found)
                elif message["error"] in ("ENOENT", "changed"):
                    transfer.withdrawn = True
                elif message["error"] != "gone":
                    self._failed(transfer, host, message)

            transfer.linking.add(host)
            self._crew.ask(host, {"m": "link", "name": transfer.name, "key": transfer.key}, end, rows)

    @staticmethod
    def _linked(transfer: Transfer, host: str, found: dict[str, Part]) -> None:
        """It is that very checkpoint, or else somebody removes it or writes it anew."""
        for path, part in transfer.files.items():
            if part.host == host and found.get(path) != part:
                transfer.withdrawn = True
        transfer.linked.add(host)

    def copy(self, transfer: Transfer) -> None:
        """Let those who may write go on with it."""
        now = time.time()
        transfer.begun_s = transfer.begun_s or now
        if now < transfer.retry_s:
            return
        room = self._writers - len(transfer.copying)
        for host in sorted(transfer.left()):
            if room <= 0:
                return
            if host in transfer.copying or host not in transfer.linked or host not in self._crew.present():
                continue
            room -= 1
            self._ask(transfer, host, share(transfer, transfer.left()[host]))

    def _ask(self, transfer: Transfer, host: str, paths: list[str]) -> None:
        rate = self._bytes_per_s / min(self._writers, max(1, len(transfer.left()))) if self._bytes_per_s else 0
        files = [[path, transfer.files[path].size, transfer.files[path].mtime_ns] for path in paths]
        question: Message = {"m": "copy", "name": transfer.name, "key": transfer.key, "into": transfer.into}
        question |= {"files": files, "rate": rate, "hash": transfer.algorithm}

        def rows(host: str, message: Message) -> None:
            if question["hash"] != transfer.algorithm:
                return
            files: dict[str, tuple[Part, str]] = {}
            for path, size, digest in message["files"]:
                part = transfer.files.get(path)
                if part is not None and part.host == host and part.size == size:
                    transfer.has(path, str(digest))
                    files[path] = (part, f"{transfer.algorithm}:{digest}")
            if files:
                transfer.progress_s = time.time()
                transfer.wait_s = FIRST_WAIT_S
                self._journal.add(transfer.key, files)

        def end(host: str, message: Message) -> None:
            transfer.copying.pop(host, None)
            if message.get("error") == "changed":
                transfer.withdrawn = True
            elif message.get("error") == "hash" and transfer.algorithm != "blake2b":
                transfer.algorithm = "blake2b"  # that every Python has
                transfer.forget()
                self._journal.drop(transfer.key)
            elif message.get("error") not in (None, "gone", "stopped"):
                self._failed(transfer, host, message)

        transfer.copying[host] = self._crew.ask(host, question, end, rows)

    def _failed(self, transfer: Transfer, host: str, message: Message) -> None:
        self.back_off(transfer)
        self._warn(str(message["error"]), f"checkpoint {transfer.step} on {host}: {message.get('text', '')}")

    @staticmethod
    def back_off(transfer: Transfer) -> None:
        """Try it again after a while, longer each time."""
        transfer.retry_s = time.time() + transfer.wait_s
        transfer.wait_s = min(2 * transfer.wait_s, LONGEST_WAIT_S)

    def cancel(self, transfer: Transfer) -> None:
        """Something else is wanted first."""
        for host, number in transfer.copying.items():
            self._crew.tell(host, {"m": "cancel", "id": number})


def share(transfer: Transfer, paths: Iterable[str]) -> list[str]:
    share: list[str] = []
    room, letters = SHARE, 600_000  # a line is below 1 MiB
    for path in paths:
        size = transfer.files[path].size
        room -= size
        letters -= 6 * len(path) + 50
        if share and (room < 0 or letters < 0 or len(share) >= SHARE_FILES):
            break
        share.append(path)
    return share
