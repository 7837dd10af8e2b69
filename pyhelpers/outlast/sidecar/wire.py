"""The line between coordinator and agent: JSON objects, a line each (docs/sidecar.md), among those who know a token.

It is brought to nodes with agent.py, for whatever Python 3.6 or newer is there, and imports nothing of outlast.
"""

import hashlib
import hmac
import json
import os
import socket
from typing import Any, Dict, List, Tuple

LINE_MAX = 1 << 20
VERSION = 1

Message = Dict[str, Any]


class WireError(Exception):
    """The other side does not speak as it should."""


def encode(message: Message) -> bytes:
    """The message as a line. Raises: WireError: it would be too long."""
    line = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
    if len(line) > LINE_MAX:
        raise WireError("a line of {} bytes".format(len(line)))
    return line


class Lines:
    """Lines out of pieces of a stream."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, piece: bytes) -> List[Message]:
        """The messages that are whole now. Raises: WireError: a line is too long, or no JSON object."""
        self._rest += piece
        whole = self._rest.split(b"\n")
        self._rest = whole.pop()
        if len(self._rest) > LINE_MAX:
            raise WireError("a line has no end")
        try:
            messages = [json.loads(line.decode("ascii")) for line in whole]
        except ValueError as err:
            raise WireError(str(err))
        if not all(isinstance(message, dict) for message in messages):
            raise WireError("no object")
        return messages


def proof(token: str, side: str, nonce: str) -> str:
    """What only somebody who knows the token can say to this nonce."""
    return hmac.new(token.encode(), (side + ":" + nonce).encode(), hashlib.sha256).hexdigest()


def is_proof(text: str, token: str, side: str, nonce: str) -> bool:
    """Is that what somebody who knows the token says to this nonce?"""
    return hmac.compare_digest(text, proof(token, side, nonce))


def meet(link: socket.socket, token: str, host: str, xxh3: bool) -> Tuple[Lines, List[Message]]:
    """As an agent: the stream's reader, once both have shown that they know the token, and what followed at once.

    Raises: WireError, OSError.
    """
    lines = Lines()
    waiting: List[Message] = []

    def hear() -> Message:
        while not waiting:
            piece = link.recv(65536)
            if not piece:
                raise WireError("closed")
            waiting.extend(lines.feed(piece))
        return waiting.pop(0)

    mine = os.urandom(16).hex()
    nonce = str(hear().get("nonce"))
    hello = {"m": "hello", "v": VERSION, "host": host, "nonce": mine, "xxh3": xxh3}
    link.sendall(encode(dict(hello, proof=proof(token, "agent " + host, nonce))))
    if not is_proof(str(hear().get("proof")), token, "coordinator", mine):
        raise WireError("it does not know the token")
    return lines, waiting
