"""One node's part: the wire."""

import ast
import socket
import threading
from pathlib import Path

import pytest

from outlast.sidecar import agent
from outlast.sidecar.agent import Agent, Lines, Place, WireError


def test_it_is_parsed_by_python_3_6_and_imports_only_disk() -> None:
    text = Path(agent.__file__).read_text()
    ast.parse(text, feature_version=(3, 6))
    assert [line for line in text.splitlines() if "outlast" in line and "import " in line] == [
        "from outlast.sidecar import disk"
    ]


def test_lines_come_whole_however_they_are_cut() -> None:
    lines = Lines()
    text = agent.encode({"m": "a", "x": "ü\udcff"}) + agent.encode({"m": "b"})
    found = [message for at in range(len(text)) for message in lines.feed(text[at : at + 1])]
    assert found == [{"m": "a", "x": "ü\udcff"}, {"m": "b"}]


@pytest.mark.parametrize("piece", [b"no json\n", b"[1]\n", b"\xff\n", b"x" * (agent.LINE_MAX + 1)])
def test_what_is_no_line_of_ours_ends_the_connection(piece: bytes) -> None:
    with pytest.raises(WireError):
        Lines().feed(piece)


def test_an_agent_does_not_serve_who_does_not_know_the_token() -> None:
    ours, theirs = socket.socketpair()
    thread = threading.Thread(
        target=lambda: (theirs.sendall(b'{"nonce":"1"}\n'), theirs.recv(9999), theirs.sendall(b'{"proof":"?"}\n'))
    )
    thread.start()
    with pytest.raises(WireError, match="token"):
        agent.meet(ours, "secret", "h1")
    thread.join()
    theirs.close()


def test_what_the_coordinator_says_right_behind_its_proof_is_heard() -> None:
    ours, theirs = socket.socketpair()

    def coordinator() -> None:
        theirs.sendall(b'{"nonce":"1"}\n')
        (hello,) = Lines().feed(theirs.recv(9999))
        answer = {"proof": agent.proof("secret", "coordinator", hello["nonce"])}
        theirs.sendall(agent.encode(answer) + agent.encode({"m": "ping"}))

    thread = threading.Thread(target=coordinator)
    thread.start()
    assert agent.meet(ours, "secret", "h1")[1] == [{"m": "ping"}]
    thread.join()
    theirs.close()


def test_it_refuses_a_message_that_it_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(WireError):
        Agent(Place(str(tmp_path), str(tmp_path), "step-", str(tmp_path)), lambda message: None).take({"m": "run"})
