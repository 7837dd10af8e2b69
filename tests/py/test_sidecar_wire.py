"""The line between coordinator and agent."""

import ast
import socket
import threading
from pathlib import Path

import pytest

from outlast.sidecar import wire
from outlast.sidecar.wire import LINE_MAX, Lines, WireError, encode, meet, proof


def test_it_is_parsed_by_python_3_6_and_imports_nothing_of_outlast() -> None:
    text = Path(wire.__file__).read_text()
    ast.parse(text, feature_version=(3, 6))
    assert "import outlast" not in text
    assert "from outlast" not in text


def test_lines_come_whole_however_they_are_cut() -> None:
    lines = Lines()
    text = encode({"m": "a", "x": "ü\udcff"}) + encode({"m": "b"})
    found = [message for at in range(len(text)) for message in lines.feed(text[at : at + 1])]
    assert found == [{"m": "a", "x": "ü\udcff"}, {"m": "b"}]


@pytest.mark.parametrize("piece", [b"no json\n", b"[1]\n", b"\xff\n", b"x" * (LINE_MAX + 1)])
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
        meet(ours, "secret", "h1", False)
    thread.join()
    theirs.close()


def test_what_the_coordinator_says_right_behind_its_proof_is_heard() -> None:
    ours, theirs = socket.socketpair()

    def coordinator() -> None:
        theirs.sendall(b'{"nonce":"1"}\n')
        (hello,) = Lines().feed(theirs.recv(9999))
        answer = {"proof": proof("secret", "coordinator", hello["nonce"])}
        theirs.sendall(encode(answer) + encode({"m": "ping"}))

    thread = threading.Thread(target=coordinator)
    thread.start()
    assert meet(ours, "secret", "h1", False)[1] == [{"m": "ping"}]
    thread.join()
    theirs.close()
