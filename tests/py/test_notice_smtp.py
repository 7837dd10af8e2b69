"""A letter by a mail server, as it really goes over the line."""

import time
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest
from receivers import Post, certificate, post

from outlast.notice import smtp
from outlast.notice.account import Smtp
from outlast.notice.letter import Letter
from outlast.notice.unsent import Unsent

LETTER = Letter(
    "1700000000.7.1",
    "0f0f",
    "r1",
    "held",
    1700000000,
    ("ada@example.org", "bob@example.org"),
    "[outlast] r1: gehört angehalten",
    "held: 3 jobs in a row\n.\nTo go on: outlast resume r1",
    "=== Crash Report: Job 7 ===\nEnded: <b>crash</b>",
)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")  # the library's own


@pytest.fixture
def server() -> Iterator[Post]:
    with post() as told:
        yield told


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("certificate"))


def plain(server: Post, limit_s: float = 60) -> str:
    return smtp.send(Smtp("127.0.0.1", server.port, "none"), LETTER, limit_s)


def part(mail: EmailMessage, kind: str) -> str:
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


def test_a_mail_has_text_and_html_with_the_report_in_both(server: Post) -> None:
    assert plain(server) == f"smtp 127.0.0.1:{server.port}"
    mail = server.mails[0]
    assert server.to == [["ada@example.org", "bob@example.org"]]
    assert mail["Subject"] == "[outlast] r1: gehört angehalten"
    assert mail["From"] == "ada@example.org"
    assert part(mail, "plain") == f"{LETTER.text}\n\n{LETTER.report}\n"
    assert "To go on: outlast resume r1" in part(mail, "html")
    assert "Ended: &lt;b&gt;crash&lt;/b&gt;</pre>" in part(mail, "html")


def test_mails_of_a_run_are_one_thread_and_a_mail_keeps_its_id(server: Post) -> None:
    plain(server)
    plain(server)
    first, second = server.mails
    assert first["References"] == first["In-Reply-To"] == second["References"] == "<0f0f@example.org>"
    assert first["Message-ID"] == second["Message-ID"] == "<1700000000.7.1@example.org>"


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_the_password_goes_over_a_line_whose_certificate_was_checked(
    security: str, localhost: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with post(security, localhost, login=True) as server:
        account = Smtp("localhost", server.port, security, "ada", "let me in")
        with pytest.raises(Unsent, match="certificate verify failed"):
            smtp.send(account, LETTER, 60)
        assert server.logins == []
        monkeypatch.setenv("SSL_CERT_FILE", str(localhost))
        smtp.send(account, LETTER, 60)
        assert server.logins == [("ada", "let me in")]
        assert len(server.mails) == 1


def test_a_server_without_encryption_gets_no_password(server: Post) -> None:
    with pytest.raises(Unsent, match="STARTTLS"):
        smtp.send(Smtp("127.0.0.1", server.port, "starttls", "ada", "let me in"), LETTER, 60)
    assert server.logins == server.mails == []


def test_a_wrong_password_is_said_and_not_shown(localhost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(localhost))
    with post("tls", localhost, login=True) as server, pytest.raises(Unsent, match="535") as told:
        smtp.send(Smtp("localhost", server.port, "tls", "ada", "open sesame"), LETTER, 60)
    assert "sesame" not in str(told.value)


def test_refused_recipients_are_named(server: Post) -> None:
    server.refuses = "550 no such user"
    with pytest.raises(Unsent, match=r"bob@example\.org: 550 no such user"):
        plain(server)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [({"answers": "451 later"}, "451 later"), ({"dies": "lost"}, "closed"), ({"slow": True}, "no answer within 1 s")],
)
def test_a_mail_that_the_server_has_not_taken_is_not_sent(server: Post, behaviour: dict[str, object], why: str) -> None:
    for name, value in behaviour.items():
        setattr(server, name, value)
    with pytest.raises(Unsent, match=why):
        plain(server, 1 if "slow" in behaviour else 60)


def test_nobody_listens(server: Post) -> None:
    with pytest.raises(Unsent, match=r"smtp 127\.0\.0\.1:1: Connection refused"):
        smtp.send(Smtp("127.0.0.1", 1, "none"), LETTER, 60)


def test_a_line_end_cannot_become_a_header(server: Post) -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="linefeed or carriage return"):
        smtp.send(Smtp("127.0.0.1", server.port, "none"), replace(LETTER, subject="held\r\nBcc: eve@example.org"), 60)
    assert server.mails == []


def test_somebody_elses_alarm_is_set_again() -> None:
    import signal

    from outlast.notice.limit import limit

    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    old = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError), limit(0.05):
            time.sleep(60)
        until = time.monotonic() + 60
        while not rung and time.monotonic() < until:
            time.sleep(0.01)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *old)
