"""One node's part: the wire, and what it tells of its checkpoints."""

import ast
import errno
import hashlib
import itertools
import os
import re
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from outlast.sidecar import agent, disk
from outlast.sidecar.agent import Agent, Place
from outlast.sidecar.wire import Message, WireError

AUTOGROUP = Path("/proc/self/autogroup")


def test_it_is_parsed_by_python_3_6_and_imports_only_what_comes_with_it() -> None:
    text = Path(agent.__file__).read_text()
    ast.parse(text, feature_version=(3, 6))
    assert [line for line in text.splitlines() if "outlast" in line and "import " in line] == [
        "from outlast.sidecar import disk",
        "from outlast.sidecar.wire import Lines, Message, WireError, encode, meet",
    ]


def test_it_refuses_a_message_that_it_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(WireError):
        Agent(Place(str(tmp_path), str(tmp_path), "step-", str(tmp_path)), lambda message: None).take({"m": "run"})


class Node:
    """A node with an agent; `ask` is answered at once."""

    def __init__(self, root: Path) -> None:
        self.checkpoints, self.local = root / "checkpoints", root
        self.checkpoints.mkdir()
        self.told: list[Message] = []
        self.agent = Agent(Place(str(root), str(self.checkpoints), "step-", str(root)), self.told.append)

    def save(self, step: int, count: int) -> None:
        (self.checkpoints / f"step-{step}").mkdir()
        for number in range(count):
            (self.checkpoints / f"step-{step}/{number}").touch()

    def ask(self, kind: str, **words: object) -> tuple[list[str], Message]:
        """The paths that it told of, and the end of the answer."""
        self.told.clear()
        end = getattr(self.agent, f"_{kind}")({"id": 1, **words}) or {}
        return [row[0] for message in self.told for row in message["files"]], end


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.agent.stop()


@pytest.mark.parametrize("count", [1, agent.BATCH, agent.BATCH + 1, 2 * agent.BATCH + 7])
def test_files_are_told_a_page_at_a_time(node: Node, count: int) -> None:
    node.save(20, count)
    paths, end = node.ask("look", above=-1)
    assert sorted(paths) == sorted(map(str, range(count)))
    assert [message["start"] for message in node.told] == list(range(0, count, agent.BATCH))
    assert [row[:2] for row in end["seen"]] == [["step-20", 20]]


def test_what_has_not_changed_is_told_once(node: Node) -> None:
    node.save(20, 3)
    node.ask("look", above=-1)
    paths, end = node.ask("look", above=-1)
    assert (paths, end["seen"][0][:2]) == ([], ["step-20", 20])
    (node.checkpoints / "step-20/more").touch()
    assert sorted(node.ask("look", above=-1)[0]) == ["0", "1", "2", "more"]


def test_a_list_that_broke_off_is_told_again_also_when_all_is_as_before(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.save(20, 3)
    node.ask("look", above=-1)
    (node.checkpoints / "step-20/more").touch()
    send, sent = node.agent._send, []

    def breaks(message: Message) -> None:
        sent.append(message)
        raise OSError(errno.EIO, "a disk that fails")

    node.agent._send = breaks
    with pytest.raises(OSError, match="a disk that fails"):
        node.ask("look", above=-1)
    node.agent._send = send
    (node.checkpoints / "step-20/more").unlink()
    assert sent
    assert sorted(node.ask("look", above=-1)[0]) == ["0", "1", "2"]


def test_what_changed_while_it_was_listed_has_not_been_at_rest(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]

    def slow(listing: disk.Listing) -> Iterator[disk.File]:
        listing.newest = 900 * 10**9
        clock[0] += 50
        yield "a", 1, 1

    node.save(20, 0)
    monkeypatch.setattr(disk.Listing, "_files", slow)
    monkeypatch.setattr(agent.time, "time", lambda: clock[0])
    assert node.ask("look", above=-1)[1]["seen"] == [["step-20", 20, 150]]  # listed twice, as it is told
    assert node.ask("look", above=-1)[1]["seen"] == [["step-20", 20, 200]]


def test_files_are_linked_aside_as_they_are_told(node: Node) -> None:
    node.save(20, agent.BATCH + 1)
    paths, _ = node.ask("link", name="step-20", key="step-20.1")
    assert sorted(paths) == sorted(path.name for path in (node.local / "aside/step-20.1").iterdir())
    assert os.path.samefile(node.local / "aside/step-20.1/0", node.checkpoints / "step-20/0")


@pytest.mark.parametrize("kind", ["look", "link"])
def test_its_memory_does_not_grow_with_the_number_of_files(tmp_path: Path, kind: str) -> None:
    peaks = []
    for count in (agent.BATCH, 10 * agent.BATCH):
        (tmp_path / str(count)).mkdir()
        node = Node(tmp_path / str(count))
        node.save(20, count)
        node.agent._send = lambda message: None
        words = {"above": -1} if kind == "look" else {"name": "step-20", "key": "step-20.1"}
        tracemalloc.start()
        node.ask(kind, **words)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        node.agent.stop()
    assert peaks[1] < 2 * peaks[0]


def test_a_listing_is_known_by_its_files_in_whatever_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [(str(number), number, number) for number in range(5)]
    found = disk.Listing("", "")

    def sign(files: list[disk.File]) -> int:
        monkeypatch.setattr(disk.Listing, "_files", lambda self: iter(files))
        assert list(found) == files
        return found.sign

    assert sign(files) == sign(files[::-1])
    assert len({sign(files), sign(files[1:]), sign([*files, ("5", 0, 0)]), sign([*files[1:], ("0", 0, 1)])}) == 4


def assert_copied(node: Node, content: dict[str, bytes]) -> None:
    """Write these files into step 20, have them copied, and look at what was told and what lies there."""
    for path, text in content.items():
        (node.checkpoints / "step-20" / path).write_bytes(text)
    files = list(disk.Listing(str(node.checkpoints), "step-20"))
    node.ask("copy", name="step-20", key="none", into=".incoming", files=files, hash="blake2b", rate=0)
    hashes = {path: hashlib.blake2b(text, digest_size=32).hexdigest() for path, text in content.items()}
    assert {path: digest for message in node.told for path, _, digest in message["files"]} == hashes
    assert {path.name: path.read_bytes() for path in (node.local / ".incoming").iterdir()} == content


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("count", [1, agent.ALONE, agent.ALONE + 1, 3 * agent.ALONE + 1])
def test_of_many_small_files_each_is_copied_with_its_own_hash(
    node: Node, count: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = itertools.count(step=agent.ALONE if waits else 0)
    monkeypatch.setattr(agent.resource, "getrusage", lambda who: SimpleNamespace(ru_nvcsw=next(told)))
    node.save(20, count)
    assert_copied(node, {str(number): b"x" * number for number in range(count)})


def test_of_files_of_all_sizes_each_is_copied_with_its_own_hash(node: Node) -> None:
    node.save(20, 0)
    sizes = (0, disk.TINY, disk.TINY + 1, disk.SMALL, disk.SMALL + 1, 3 * disk.PIECE + 7)
    assert_copied(node, {f"{size}-{number}": os.urandom(size) for size in sizes for number in range(agent.THREADS + 1)})


def test_where_one_file_fails_the_others_stop_and_its_error_is_told(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.save(20, 0)
    for number in range(agent.THREADS):
        (node.checkpoints / f"step-20/{number}").write_bytes(bytes(4 * disk.PIECE))
    files = sorted(disk.Listing(str(node.checkpoints), "step-20"))
    write, failed = disk.write_all, threading.Event()

    def fails(fd: int, piece: memoryview, at: int) -> None:
        path = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        if path == str(agent.THREADS - 1):
            failed.set()
            raise OSError(errno.ENOSPC, "full")
        assert failed.wait(30)
        write(fd, piece, at)

    gate = node.agent._gate

    def waits(message: Message, count: int) -> None:
        while failed.is_set() and "failed" not in message:
            time.sleep(0.001)
        gate(message, count)

    monkeypatch.setattr(disk, "write_all", fails)
    monkeypatch.setattr(node.agent, "_gate", waits)
    with pytest.raises(OSError, match="full"):
        node.ask("copy", name="step-20", key="none", into=".incoming", files=files, hash="blake2b", rate=0)
    assert node.told == []


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel does not share processors out by session")
def test_it_is_behind_everybody_else_also_where_processors_are_shared_out_by_session() -> None:
    before = AUTOGROUP.read_text()
    report = f"import os; agent.tame(); print(os.nice(0), os.getsid(0) == os.getpid(), open('{AUTOGROUP}').read())"
    words = [sys.executable, "-c", f"from outlast.sidecar import agent; {report}"]
    environ = os.environ | {"PYTHONPATH": str(Path(agent.__file__).parents[2])}
    told = subprocess.run(words, env=environ, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert re.fullmatch(r"19 True /autogroup-\d+ nice 19\s*", told)
    assert AUTOGROUP.read_text() == before  # not that of who started it
