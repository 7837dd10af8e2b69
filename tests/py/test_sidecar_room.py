"""What the nodes may forget, and when they are told to."""

from pathlib import Path

import pytest

from outlast.sidecar import room
from outlast.sidecar.agent import Message
from outlast.sidecar.crew import Answer, View
from outlast.sidecar.judge import Entry
from outlast.sidecar.room import Room
from outlast.sidecar.settings import State
from outlast.sidecar.tables import Tables


class Crew:
    """Two hosts, each with a checkpoint of 100 bytes on its way and an old one; what they are asked is kept."""

    def __init__(self) -> None:
        files = Tables().listing([("file", 100, 1)])
        self.views = {
            host: View(entries={"step-60": Entry(60, files, 0.0, 0.0, 1)}, old=["step-40"]) for host in ("h0", "h1")
        }
        self.asked: list[tuple[str, Message]] = []

    def present(self) -> frozenset[str]:
        return frozenset(self.views)

    def ask(self, host: str, message: Message, end: Answer) -> int:
        self.asked.append((host, message))
        return 0


def of(tmp_path: Path, memory: int = 0, durable: int = 40) -> tuple[Crew, Room, list[str]]:
    crew, told = Crew(), []
    (tmp_path / "durable_step").write_text(f"{durable}\n")
    return crew, Room(crew, State(tmp_path), memory, lambda kind, text: told.append(text)), told  # type: ignore[arg-type]


def test_a_disk_that_fills_may_lose_what_is_old_and_a_host_is_not_asked_all_the_time(tmp_path: Path) -> None:
    crew, rooms, _ = of(tmp_path)
    rooms.make(["b.1", "a.1"])
    rooms.make([])
    assert sorted(host for host, _ in crew.asked) == ["h0", "h1"]
    assert crew.asked[0][1] == {"m": "forget", "keep": ["a.1", "b.1"], "remove": ["step-40"], "need": 200}


def test_a_host_with_nothing_old_is_not_asked(tmp_path: Path) -> None:
    crew, rooms, _ = of(tmp_path)
    crew.views["h1"].old = []
    rooms.make([])
    assert [host for host, _ in crew.asked] == ["h0"]


def test_a_disk_keeps_the_newest_durable_ones(tmp_path: Path) -> None:
    _, rooms, _ = of(tmp_path)
    assert rooms.above() == -1
    rooms.durable(60)
    assert rooms.above() == 39
    rooms.durable(80)
    assert rooms.above() == 59
    rooms.begin()
    assert rooms.above() == -1


def test_memory_keeps_no_durable_one_but_that_which_ranks_resume_from(tmp_path: Path) -> None:
    crew, rooms, told = of(tmp_path, memory=250)
    assert rooms.above() == 40
    rooms.weigh("step-60")
    crew.views["h0"].entries = {}  # nothing of its own yet
    (tmp_path / "attempt").write_text("1 h0,h1\nstep-40\n")
    rooms.make([])
    asked = dict(crew.asked)
    assert (asked["h0"]["need"], asked["h0"]["most"]) == (200, 250)
    assert (asked["h0"]["remove"], asked["h1"]["remove"]) == ([], ["step-40"])
    assert told == []


def test_too_little_memory_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, rooms, told = of(tmp_path, memory=199)
    monkeypatch.setattr(room, "AGAIN_S", 0.0)
    rooms.make([])
    rooms.make([])
    assert len(told) == 1
    assert "less than 2 checkpoints of h" in told[0]
