"""Real receivers on this machine: a mail server that can be slow, refuse or die, and a web server."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass
class Post:
    """What a mail server has got, and how it behaves.

    `refuses` is the answer to a recipient; `answers` that to a whole mail; `dies` breaks the line where a mail ends,
    before (lost) or after (kept) the server has it; `slow` never answers there.
    """

    mails: list[EmailMessage] = field(default_factory=list)
    to: list[list[str]] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    refuses: str = ""
    answers: str = "250 OK"
    dies: str = ""
    slow: bool = False
    port: int = 0

    async def handle_RCPT(  # noqa: N802 # the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.refuses:
            return self.refuses
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.dies != "lost":
            self._take(envelope)
        if self.dies:
            server.transport.abort()  # type: ignore[union-attr]
        if self.slow:
            await asyncio.sleep(3600)
        return self.answers

    def _take(self, envelope: Envelope) -> None:
        if self.answers.startswith("250"):
            self.mails.append(message_from_bytes(envelope.content, policy=default))  # type: ignore[arg-type]
            self.to.append(list(envelope.rcpt_tos))

    def check(self, _server: SMTP, _session: Session, _envelope: Envelope, _how: str, data: Any) -> AuthResult:
        """The one user there is."""
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=self.logins[-1] == ("ada", "let me in"), handled=False)


class _AnyPort(Controller):
    """Looks at the port that it was given: it asks there whether the server answers."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        super()._trigger_server()


@contextmanager
def post(secure: str = "", certificate: Path | None = None, login: bool = False) -> Iterator[Post]:
    """A mail server; `secure` is starttls or tls, with the key and certificate of that file."""
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    told = Post()
    server = _AnyPort(
        told,
        hostname="127.0.0.1",
        port=0,
        ready_timeout=60,
        ssl_context=context if secure == "tls" else None,
        tls_context=context if secure == "starttls" else None,
        require_starttls=secure == "starttls",
        authenticator=told.check if login else None,
        auth_required=login,
        auth_require_tls=secure != "tls",  # its words: the line is secure from the start there
    )
    server.start()
    told.port = server.port
    try:
        yield told
    finally:
        server.stop()


def certificate(folder: Path) -> Path:
    """A key and a certificate for localhost in one file, signed by itself."""
    file = folder / "localhost.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
    made = subprocess.run(
        [*words.split(), "subjectAltName=DNS:localhost", "-keyout", folder / "key", "-out", folder / "crt"],
        capture_output=True,
        timeout=60,
    )
    assert made.returncode == 0, made.stderr
    file.write_text((folder / "key").read_text() + (folder / "crt").read_text())
    return file


@dataclass
class Web:
    """What a web server has got, and what it answers."""

    url: str = ""
    got: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    paths: list[str] = field(default_factory=list)


@contextmanager
def web() -> Iterator[Web]:
    """A web server that takes JSON."""
    told = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.paths.append(self.path)
            if told.status == 200:
                told.got.append(json.loads(body))
            self.send_response(told.status)
            if told.status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_words: object) -> None:  # stderr is not for it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
