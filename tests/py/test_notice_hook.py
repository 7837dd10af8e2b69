"""A letter to a webhook, and where the addresses come from."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from receivers import Web, web

from outlast.notice import hook
from outlast.notice.account import load
from outlast.notice.letter import Letter
from outlast.notice.unsent import Unsent
from outlast.refused import Refused

LETTER = Letter("1.7", "0f", "r1", "held", 1, ("ada@example.org",), "[outlast] r1: held", "<!channel> & @everyone", "R")


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as told:
        yield told


def test_any_web_server_gets_text_and_what_it_is_about(server: Web) -> None:
    assert hook.send("team", f"{server.url}/a?b=c", LETTER, 60) == "webhook team"
    assert server.paths == ["/a?b=c"]
    assert server.got == [
        {
            "text": "[outlast] r1: held\n<!channel> & @everyone\n\nR\n",
            "subject": "[outlast] r1: held",
            "run": "r1",
            "kind": "held",
            "id": "1.7",
        }
    ]


def test_nobody_is_called_by_name_in_a_chat() -> None:
    assert "&lt;!channel&gt; &amp;" in str(hook.body("https://hooks.slack.com/services/T/B/x", LETTER)["text"])
    assert hook.body("https://discord.com/api/webhooks/1/x", LETTER)["allowed_mentions"] == {"parse": []}


def test_a_chat_gets_no_more_than_it_takes() -> None:
    long = replace(LETTER, text="x" * 5000)
    assert len(str(hook.body("https://discord.com/api/webhooks/1/x", long)["content"])) == 2000


@pytest.mark.parametrize(("status", "why"), [(404, "answers 404"), (500, "answers 500"), (302, "answers 302")])
def test_a_webhook_that_does_not_take_it(server: Web, status: int, why: str) -> None:
    server.status = status
    with pytest.raises(Unsent, match=f"webhook team: {why}") as told:
        hook.send("team", f"{server.url}/s3cret", LETTER, 60)
    assert server.paths == ["/s3cret"]  # nor is a redirection followed
    assert "s3cret" not in str(told.value)


def test_nobody_listens(server: Web) -> None:
    with pytest.raises(Unsent, match=r"webhook team: .*refused"):
        hook.send("team", "http://127.0.0.1:1/s3cret", LETTER, 60)


def test_other_addresses_are_for_apprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(Unsent, match="pip install apprise"):
        hook.send("team", "matrix://s3cret@example.org", LETTER, 60)


def test_apprise_gets_title_and_body(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    class Apprise:
        def add(self, url: str) -> bool:
            told.append(url)
            return True

        def notify(self, **words: str) -> bool:
            told.append(words)
            return len(told) == 2

    monkeypatch.setitem(sys.modules, "apprise", SimpleNamespace(Apprise=Apprise))
    hook.send("team", "matrix://example.org", LETTER, 60)
    assert told == ["matrix://example.org", {"title": LETTER.subject, "body": LETTER.body}]
    with pytest.raises(Unsent, match="apprise could not send"):
        hook.send("team", "matrix://example.org", LETTER, 60)


# ── mail.toml ─────────────────────────────────────────────────────────────────────────────────────────────────────

GOOD = """
[smtp]
host = "smtp.example.org"
user = "ada"
password = "let me in"
[hooks]
team = "https://hooks.slack.com/services/T/B/x"
"""


def mail_toml(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "mail.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_account_is_what_the_file_says(tmp_path: Path) -> None:
    account = load(mail_toml(tmp_path, GOOD), {})
    assert (account.smtp.host, account.smtp.port, account.smtp.mode) == ("smtp.example.org", 587, "starttls")
    assert account.smtp.password == "let me in"
    assert list(account.hooks) == ["team"]
    assert "let me in" not in repr(account)
    assert "slack" not in repr(account)


def test_the_environment_has_the_last_word_about_the_password(tmp_path: Path) -> None:
    path = mail_toml(tmp_path, GOOD)
    assert load(path, {"OUTLAST_SMTP_PASSWORD": "other"}).smtp.password == "other"


def test_without_a_file_there_is_neither_server_nor_hook(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml", {}).smtp.host == ""


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    with pytest.raises(Refused, match=r"others can read it; type chmod 600 .*/mail\.toml$"):
        load(mail_toml(tmp_path, GOOD, mode), {})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    path = mail_toml(tmp_path, GOOD)
    os.chown(path, 12345, -1)
    with pytest.raises(Refused, match="others can read it"):
        load(path, {})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[smtp]\nhost = 'smtp.example.org:587'", "no name of a host"),
        ("[smtp]\nhost = 'x'\nport = 0", "no port"),
        ("[smtp]\nhost = 'x'\nuser = 'ada'", "without a password"),
        ("[smtp]\nhost = 'x'\nuser = 'ada'\npassword = 'p'\nsecurity = 'none'", "for all to read"),
        ("[smtp]\nhost = 'x'\nsender = 'a\\nBcc: b'", "smtp.sender"),
        ("[smtp]\nhots = 'x'", "unknown key smtp.hots"),
        ("[hooks]\n'a b' = 'https://x'", "no name"),
        ("[hooks]\nteam = 's3cret'", "hooks.team is no address"),
        ("[smtp]\npassword = ['s3cret']", "smtp.password is a text"),
        ("[hooks]\nteam = ['s3cret']", "hooks.team is a text"),
        ("[hooks]\nteam = 's3cret", "at end of document"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_without_secrets(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(Refused, match=why) as told:
        load(mail_toml(tmp_path, line), {})
    assert "\n" not in str(told.value)
    assert "s3cret" not in str(told.value)
