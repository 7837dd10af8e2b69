"""One JSON object there, one back, over TCP; or a few more, for what takes time."""

from __future__ import annotations

import errno
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

Message = dict[str, Any]


class Line:
    """A connection on which both sides send objects."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._reader = sock.makefile("rb")
        self._sending = threading.Lock()

    def send(self, **message: Any) -> None:
        """Raises: OSError: the other side is gone."""
        with self._sending:
            self.sock.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Message | None:
        """The next object; nothing: the other side has ended. Raises: OSError: it does not answer, or is gone."""
        line = self._reader.readline()
        if not line.endswith(b"\n"):
            return None
        found: Message = json.loads(line)
        return found

    def __iter__(self) -> Iterator[Message]:
        while (message := self.receive()) is not None:
            yield message

    def close(self) -> None:
        """Ends it, also under a thread that waits in `receive`."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def connect(host: str, port: int, limit_s: float | None = None) -> Line:
    """Raises: OSError: nobody is there."""
    sock = socket.create_connection((host, port), timeout=limit_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Line(sock)


def ask(host: str, port: int, limit_s: float | None = None, /, **message: Any) -> Message:
    """What the other side answers to one message. Raises: OSError: no answer within the limit."""
    line = connect(host, port, limit_s)
    try:
        line.send(**message)
        answer = line.receive()
    finally:
        line.close()
    if answer is None:
        raise ConnectionResetError(errno.ECONNRESET, "no answer")
    return answer


def tell(host: str, port: int, limit_s: float, /, **message: Any) -> None:
    """Says it; that nobody is there is all right."""
    with suppress(OSError):
        ask(host, port, limit_s, **message)


def serve(port: int, handle: Callable[[Line, Message], Message | None]) -> None:
    """Answers for ever; each connection has a thread. `handle` may use the line itself, and then returns nothing."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            line = Line(self.request)
            try:
                for message in line:
                    answer = handle(line, message)
                    if answer is not None:
                        line.send(**answer)
            except OSError:
                pass

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        request_queue_size = 128

    Server(("", port), Handler).serve_forever()
