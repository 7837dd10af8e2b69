"""outlast mail: by the node's commands, a real server and a real webhook."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Fake
from receivers import post, web

from outlast import commands, places
from outlast.notice import background
from outlast.notice.outbox import Outbox, waiting
from outlast.rundir import RunDir

ROOT = Path(__file__).parents[2]
MESSAGE = """\
To: ada@example.org
Subject: [outlast] r1: held
X-Outlast-Kind: held
X-Outlast-Hooks: team

it is stuck
~! echo
"""


@pytest.fixture
def node(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands beside which there is none for mail."""
    (fake.root / "templates").symlink_to(ROOT / "templates")
    (tmp_path / "bin").mkdir()
    for name in ("bash", "cat", "sleep"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("outlast.notice.command.ELSEWHERE", ())
    return tmp_path


def mailer(node: Path, name: str, then: str = "exit 0") -> Path:
    """A mail command that writes its words and its input down."""
    path = node / "bin" / name
    path.write_text(f'#!{node}/bin/bash\nprintf "%s\\n" "$*" >{node}/words\ncat >{node}/got\n{then}\n')
    path.chmod(0o755)
    return path


def a_run(fake: Fake, message: str = MESSAGE, **settings: str) -> RunDir:
    run = fake.run()
    with run.script.open("a") as file:
        file.writelines(f"OUTLAST_{key}='{value}'\n" for key, value in settings.items())
    (run.path / "outbox").mkdir()
    (run.path / "outbox/1700000000.7.1.mail").write_text(message)
    return run


def account(node: Path, text: str) -> None:
    (node / "config/outlast").mkdir(parents=True)
    path = node / "config/outlast/mail.toml"
    path.write_text(text)
    path.chmod(0o600)


def lives(process: str) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def until_true(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 100
    while not what() and time.monotonic() < until:
        time.sleep(0.05)
    assert what()


ONE = MESSAGE.replace("X-Outlast-Hooks: team\n", "")


def test_sendmail_gets_a_whole_mail(fake: Fake, node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mailer(node, "sendmail")
    mailer(node, "mail", "exit 1")
    run = a_run(fake, ONE)
    assert commands.main(["mail", "flush", "r1"]) == 0
    assert capsys.readouterr().out == "mail of r1: 1 sent\n"
    assert (node / "words").read_text() == "-t -oi\n"
    mail = (node / "got").read_bytes()
    assert mail.startswith(b"To: ada@example.org\nSubject: [outlast] r1: held\n")
    assert b"\r" not in mail
    assert waiting(run) == 0


def test_mail_gets_text_that_it_takes_for_no_command(fake: Fake, node: Path) -> None:
    mailer(node, "mail")
    a_run(fake, ONE)
    assert commands.main(["mail", "flush", "r1"]) == 0
    assert (node / "words").read_text() == "-s [outlast] r1: held -- ada@example.org\n"
    assert (node / "got").read_text() == "it is stuck\n ~! echo\n"


def test_the_sites_command_comes_before_those(fake: Fake, node: Path) -> None:
    mailer(node, "sendmail", "exit 1")
    mailer(node, "relay")
    a_run(fake, ONE, MAIL_COMMAND='relay --from "out last"')
    assert commands.main(["mail", "flush", "r1"]) == 0
    assert (node / "words").read_text() == "--from out last\n"


def test_what_could_not_be_sent_is_said_and_is_to_be_tried_again(
    fake: Fake, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mailer(node, "sendmail", "echo no route >&2; exit 75")
    run = a_run(fake, ONE)
    assert commands.main(["mail", "flush", "r1"]) == 75
    assert "sendmail: status 75: no route" in capsys.readouterr().err
    assert waiting(run) == 1


def test_a_command_that_hangs_is_ended_with_its_children(fake: Fake, node: Path) -> None:
    mailer(node, "sendmail", f"sleep 300 & echo $! >{node}/child; wait")
    run = a_run(fake, ONE)
    assert commands.main(["mail", "flush", "r1", "--limit", "2"]) == 75
    assert waiting(run) == 1
    # On a machine that is busy it may not have come so far.
    child = (node / "child").read_text().strip() if (node / "child").exists() else ""
    until = time.monotonic() + 60
    while child and lives(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not child or not lives(child)


def test_the_users_server_and_webhook_are_told_each_once(fake: Fake, node: Path) -> None:
    mailer(node, "sendmail")
    with post() as mails, web() as chat:
        account(node, f"[smtp]\nhost='127.0.0.1'\nport={mails.port}\nsecurity='none'\n[hooks]\nteam='{chat.url}/x'\n")
        chat.status = 500
        run = a_run(fake)
        assert commands.main(["mail", "flush", "r1"]) == 75
        chat.status = 200
        assert commands.main(["mail", "flush", "r1"]) == 0
        assert commands.main(["mail", "flush", "r1"]) == 0
    assert [mail["Subject"] for mail in mails.mails] == ["[outlast] r1: held"]
    assert [told["subject"] for told in chat.got] == ["[outlast] r1: held"]
    assert not (node / "got").exists()
    assert waiting(run) == 0


def test_a_server_that_dies_in_the_middle_gets_the_mail_again_under_the_same_id(fake: Fake, node: Path) -> None:
    """Whether it has it nobody knows then; a mailbox can tell by the id."""
    with post() as mails:
        account(node, f"[smtp]\nhost='127.0.0.1'\nport={mails.port}\nsecurity='none'\n")
        a_run(fake, ONE)
        mails.dies = "kept"
        assert commands.main(["mail", "flush", "r1"]) == 75
        mails.dies = ""
        assert commands.main(["mail", "flush", "r1"]) == 0
    assert len(mails.mails) == 2
    assert len({mail["Message-ID"] for mail in mails.mails}) == 1


def test_mail_toml_that_others_can_read_is_named_and_sendmail_sends(
    fake: Fake, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mailer(node, "sendmail")
    account(node, "[smtp]\nhost='127.0.0.1'\nport=1\n")
    (node / "config/outlast/mail.toml").chmod(0o644)
    run = a_run(fake)
    assert commands.main(["mail", "flush", "r1"]) == 75  # the webhook
    assert "chmod 600" in capsys.readouterr().err
    assert [path.name for path in (run.path / "outbox").glob("*.mail")] == ["1700000000.7.1~mail.mail"]


def test_whoever_is_killed_in_the_middle_loses_nothing(fake: Fake, node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with post() as mails:
        account(node, f"[smtp]\nhost='127.0.0.1'\nport={mails.port}\nsecurity='none'\n")
        run = a_run(fake, ONE)
        for number in range(2, 41):
            text = ONE.replace("Subject:", f"X-Outlast-Fingerprint: {number}\nSubject: {number}")
            (run.path / f"outbox/1700000000.7.{number}.mail").write_text(text)
        for kill_at in range(1, 33, 6):
            child = subprocess.Popen([sys.executable, ROOT / "pyhelpers", "mail", "flush", run.path])
            until_true(lambda at=kill_at, child=child: len(mails.mails) >= at or child.poll() is not None)  # type: ignore[misc]
            child.kill()
            child.wait()
            for claim in (run.path / "outbox").glob("*.claimed.*"):
                claim.rename(f"{str(claim).rpartition('.')[0]}.1700000000")  # some minutes later
        assert commands.main(["mail", "flush", "r1"]) == 0
        assert waiting(run) == 0
    assert len({mail["Message-ID"] for mail in mails.mails}) == 40
    assert len(mails.mails) <= 40 + 6  # each death may leave one of which nobody knows whether it was taken


# ── outlast mail test ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_test_says_by_what_it_went(fake: Fake, node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with post() as mails, web() as chat:
        account(node, f"[smtp]\nhost='127.0.0.1'\nport={mails.port}\nsecurity='none'\n[hooks]\nteam='{chat.url}/x'\n")
        (node / "config/outlast/config.toml").write_text('[mail]\nto = "ada@example.org"\nhooks = ["team"]\n')
        assert commands.main(["mail", "test"]) == 0
        told = capsys.readouterr().out.splitlines()
        assert told == [f"ada@example.org: sent by smtp 127.0.0.1:{mails.port}", "hook-team: sent by webhook team"]
        assert commands.main(["mail", "test", "--to", "bob@example.org"]) == 0
    assert mails.to == [["ada@example.org"], ["bob@example.org"]]
    assert len(chat.got) == 2


def test_a_test_takes_the_settings_of_a_run(fake: Fake, node: Path) -> None:
    mailer(node, "relay")
    a_run(fake, MAIL_TO="carl@example.org", MAIL_COMMAND="relay -x")
    assert commands.main(["mail", "test", "r1"]) == 0
    assert "To: carl@example.org" in (node / "got").read_text()


def test_a_test_that_fails_says_why_each_way_did(fake: Fake, node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mailer(node, "sendmail", "exit 1")
    account(node, "[smtp]\nhost='127.0.0.1'\nport=1\n")
    assert commands.main(["mail", "test", "--to", "ada@example.org"]) == 1
    assert "smtp 127.0.0.1:1: Connection refused; sendmail: status 1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--to", "not an address"]])
def test_a_test_to_nobody_says_what_to_type(fake: Fake, node: Path, words: list[str]) -> None:
    assert commands.main(["mail", "test", *words]) == 2


def test_there_are_two_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["mail"]) == 0
    assert "flush" in capsys.readouterr().out
    assert commands.main(["mail", "fulsh"]) == 2
    assert "did you mean flush?" in capsys.readouterr().err


# ── by any other verb ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def login_node(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake.root / "templates").symlink_to(ROOT / "templates")
    for name in background.IN_A_JOB:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")


def test_a_verb_that_a_person_types_sends_what_waits_and_does_not_wait_for_it(
    fake: Fake, tmp_path: Path, login_node: None
) -> None:
    os.mkfifo(tmp_path / "gate")
    run = a_run(fake, ONE, MAIL_COMMAND=f"cat {tmp_path}/gate >/dev/null; cat >{tmp_path}/got")
    typed = [sys.executable, ROOT / "pyhelpers", "events", run.path]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=100)  # its pipes are closed, too
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "got").exists()
    (tmp_path / "gate").write_text("go\n")
    until_true(lambda: waiting(run) == 0)
    assert "it is stuck" in (tmp_path / "got").read_text()


def test_what_goes_wrong_then_is_in_last_error_and_status_says_it(
    fake: Fake, login_node: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(fake, ONE, MAIL_COMMAND="echo no route >&2; exit 1")
    assert commands.main(["status", "r1"]) == 0
    assert "mail   1 message waits to be sent\n" in capsys.readouterr().out
    until_true(lambda: "no route" in Outbox(run).last_error())
    assert commands.main(["status", "r1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["messages"] == 1
    assert told["mail_error"].endswith("the site's mail command: status 1: no route")
    until_true(lambda: not list((run.path / "outbox").glob("*.claimed.*")))


def test_a_verb_for_no_run_sends_what_waits_in_the_users_runs(fake: Fake, tmp_path: Path, login_node: None) -> None:
    run = a_run(fake, ONE, MAIL_COMMAND=f"cat >{tmp_path}/got")
    typed = [sys.executable, ROOT / "pyhelpers", "badnodes", "list", "--file", tmp_path / "bad.txt"]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)  # that there are no bad nodes, and nothing else
    until_true(lambda: waiting(run) == 0)
    assert "it is stuck" in (tmp_path / "got").read_text()


def test_the_users_runs_are_looked_for_where_their_file_says(fake: Fake, tmp_path: Path) -> None:
    mine = tmp_path / "config.toml"
    mine.write_text('[site.frontier]\naccount = "abc123"\n[site.polaris]\nruns_dir = "/eagle/{account}/x"\n')
    assert places.of_own_runs(ROOT, {"OUTLAST_RUNS": "/r/", "USER": "ada"}, mine) == [
        "/r",
        "/lustre/orion/abc123/scratch/ada/outlast",
        "/eagle/*/x",
    ]
    assert places.of_own_runs(ROOT, {}, tmp_path / "none") == []


@pytest.mark.parametrize("verb", ["mail", "render"])
def test_some_verbs_look_for_no_other_runs(
    fake: Fake, login_node: None, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    commands.main([verb])


@pytest.mark.parametrize("name", background.IN_A_JOB)
def test_in_a_job_verbs_send_nothing(fake: Fake, login_node: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    a_run(fake, ONE, MAIL_COMMAND="exit 1")
    assert commands.main(["mail", "flush", "r1"]) == 75  # and what it has looked at is forgotten
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **_: started.append(words))
    assert commands.main(["summary", "r1"]) == 0
    assert len(started) == 2
    monkeypatch.setenv(name, "7")
    assert commands.main(["summary", "r1"]) == 0
    assert len(started) == 2


def test_where_nothing_waits_or_the_run_is_somebody_elses_nothing_is_started(
    fake: Fake, login_node: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(fake, ONE)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(run.path).st_uid + 1)
    assert not background.start(run, {})
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(run.path).st_uid)
    run.script.chmod(0o770)  # somebody of the group may have put a command of theirs there
    assert not background.start(run, {})
    run.script.chmod(0o700)
    (run.path / "outbox/1700000000.7.1.mail").unlink()
    assert not background.start(run, {})


@pytest.mark.parametrize("verb", ["flush", "test"])
def test_a_command_that_others_may_have_written_is_not_run(
    fake: Fake, node: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mailer(node, "relay")
    run = a_run(fake, ONE, MAIL_TO="ada@example.org", MAIL_COMMAND="relay")
    run.script.chmod(0o770)
    assert commands.main(["mail", verb, "r1"]) == 1
    assert "can be changed by others" in capsys.readouterr().err
    assert not (node / "got").exists()
