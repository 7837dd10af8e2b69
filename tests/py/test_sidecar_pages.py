"""Files of metadata that an agent reads piece by piece, as far as they are asked for."""

from __future__ import annotations

import base64
import errno
import os
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from outlast.sidecar import pages
from outlast.sidecar.agent import READ, Message
from outlast.sidecar.pages import BLOCK, Pages, Reading

CONTENT = os.urandom(40 * BLOCK + 7)


class Crew:
    """An agent that answers when it is told to."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.open: list[Callable[[], None]] = []
        self.asked: list[Message] = []

    def ask(self, host: str, message: Message, end: Any, rows: Any) -> None:
        def answer() -> None:
            at, left = message["at"], message["count"]
            while left > 0 and at < len(self.content):
                piece = self.content[at : at + min(left, READ)]
                rows(host, {"data": base64.b64encode(piece).decode()})
                at, left = at + len(piece), left - len(piece)
            end(host, {})

        self.asked.append(message)
        self.open.append(answer)

    def answer(self) -> None:
        self.open.pop()()


def make(content: bytes = CONTENT, size: int = 0) -> tuple[Crew, Callable[[], Reading]]:
    crew = Crew(content)
    there = Pages(crew)  # type: ignore[arg-type]
    return crew, lambda: Reading(there, lambda path: ("h1", "step-1", path, size or len(content), 1))


def test_what_is_read_is_there_once_it_was_answered_and_is_asked_for_once() -> None:
    crew, reading = make()
    rounds = 0
    while True:
        once = reading()
        try:
            with once.look("file") as file:
                assert file.read() == CONTENT
            break
        except OSError:
            assert once.is_waiting
            crew.answer()
            rounds += 1
    assert not once.is_waiting
    assert rounds < 8, "each question is for twice as much"
    assert sum(message["count"] for message in crew.asked) == len(CONTENT)


def test_of_an_archive_only_the_end_and_what_is_asked_for_is_read() -> None:
    path = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    name = f"{path}/outlast-pages-{os.getpid()}.zip"
    try:
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("data/0", bytes(60 << 20))
            archive.writestr("data.pkl", b"N.")
        with open(name, "rb") as file:
            crew, reading = make(file.read())
    finally:
        os.unlink(name)
    for _ in range(10):
        once = reading()
        try:
            with once.look("file") as file:
                found = zipfile.ZipFile(file).read("data.pkl")
        except (OSError, zipfile.BadZipFile):
            crew.answer()
            continue
        break
    assert found == b"N."
    assert sum(message["count"] for message in crew.asked) < 1 << 20


def failure(crew: Crew, reading: Callable[[], Reading]) -> int:
    """The error that is left when all questions have been answered."""
    for _ in range(20):
        once = reading()
        with pytest.raises(OSError) as caught, once.look("file") as file:
            file.read()
        if not once.is_waiting:
            return caught.value.errno or 0
        crew.answer()
    raise AssertionError("it waits for ever")


def test_what_was_longer_when_it_was_listed_is_an_error_and_not_waited_for() -> None:
    assert failure(*make(size=len(CONTENT) + 1000 * BLOCK)) == errno.EIO


def test_no_more_is_read_than_metadata_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LARGEST", 10 * BLOCK)
    crew, reading = make()
    assert failure(crew, reading) == errno.EFBIG
    assert len(crew.asked) < 5
