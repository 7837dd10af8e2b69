"""From RUN/outbox/ to mailboxes and webhooks: nothing is lost, nothing is told twice."""

import resource
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from outlast import tree
from outlast.notice.account import Account
from outlast.notice.flush import Outcome, flush
from outlast.notice.letter import Letter
from outlast.notice.message import addresses, one_line, parse
from outlast.notice.outbox import DEAD_S, SENT_AT_MOST, Outbox, waiting
from outlast.notice.senders import Senders
from outlast.notice.unsent import Unsent
from outlast.rundir import RunDir

ROOT = Path(__file__).parents[2]
NOW = 1_700_100_000.0


class Friends(Senders):
    """They take every letter, but on the channels that fail."""

    def __init__(self) -> None:
        super().__init__(Account(), [])
        self.__dict__ |= {"got": [], "fail": set(), "meanwhile": lambda: None}
        self.got: list[tuple[str, Letter]]
        self.fail: set[str]
        self.meanwhile: Callable[[], None]

    def send(self, channel: str, letter: Letter, left_s: float) -> str:
        self.meanwhile()
        if channel in self.fail:
            raise Unsent(f"{channel} is away")
        self.got.append((channel, letter))
        return channel


class House:
    """A run with an outbox, at a time of the test's choice."""

    def __init__(self, path: Path) -> None:
        (path / "outbox").mkdir(parents=True)
        (path / "reports").mkdir()
        self.run, self.friends, self.now, self.count = RunDir(path), Friends(), NOW, 0

    def message(self, text: str = "it is stuck", kind: str = "held", hooks: str = "", **fields: str) -> str:
        """As a job leaves it. Its name."""
        self.count += 1
        name = f"{int(self.now)}.7.{self.count:05}.mail"
        rows = {
            "To": "ada@example.org",
            "Subject": f"[outlast] r1: {kind}",
            "Attempt": "7.0.2",
            "Fingerprint": "exit/1",
        }
        rows |= fields
        head = "".join(
            f"{'' if key in ('To', 'Subject') else 'X-Outlast-'}{key}: {value}\n" for key, value in rows.items()
        )
        head += f"X-Outlast-Kind: {kind}\nX-Outlast-Hooks: {hooks}\n"
        (self.run.path / "outbox" / name).write_text(f"{head}\n{text}\n")
        return name

    def flush(self) -> Outcome:
        return flush(self.run, self.friends, clock=lambda: self.now)

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in (self.run.path / "outbox").iterdir() if path.is_file())

    @property
    def sent(self) -> list[str]:
        return sorted(path.name for path in (self.run.path / "outbox/sent").glob("*"))

    @property
    def mails(self) -> list[Letter]:
        return [letter for channel, letter in self.friends.got if channel == "mail"]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(tree, "root", lambda: ROOT)
    return House(tmp_path / "r1")


# ── one message ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_sent_once_and_kept_under_sent(house: House) -> None:
    name = house.message("3 jobs in a row\nTo go on: outlast resume r1")
    assert house.flush() == Outcome(1, 0, [])
    assert house.flush() == Outcome(0, 0, [])
    (letter,) = house.mails
    assert (letter.subject, letter.to) == ("[outlast] r1: held", ("ada@example.org",))
    assert letter.text.startswith("3 jobs in a row\nTo go on")
    assert (house.files, house.sent) == ([], [name])


def test_the_report_of_the_attempt_comes_with_it(house: House) -> None:
    (house.run.path / "reports/7.0.2.txt").write_text("=== Crash Report: Job 7 ===\n")
    house.message()
    house.flush()
    assert "=== Crash Report: Job 7 ===" in house.mails[0].body


def test_secrets_and_what_a_terminal_would_act_on_are_not_sent(house: House) -> None:
    house.message(
        "login(token='hf_abcdefghijklmnopqrstuvwx1234') \x1b]0;title\x07", Subject="held: password=hunter2 again"
    )
    house.flush()
    letter = house.mails[0]
    assert "hf_abc" not in letter.body
    assert "hunter2" not in letter.subject
    assert "\x1b" not in letter.body


def test_what_is_for_programs_is_not_in_a_letter(house: House) -> None:
    house.message(
        "outlast: rank 1 on n1 ended with code 3 at 1796008680; the next attempt comes in 60 s\noutlast resume r1"
    )
    house.flush()
    expected = "rank 1 on n1 ended with code 3; the next attempt comes in 60 s\noutlast resume r1"
    assert house.mails[0].text.strip() == expected


@pytest.mark.parametrize("end", ["\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_no_line_end_reaches_a_header(house: House, end: str) -> None:
    house.message(
        Subject=f"held{end}Bcc: eve@example.org", To=f"ada@example.org{end}Bcc: eve@example.org, bob@example.org"
    )
    house.flush()
    (letter,) = house.mails
    assert letter.subject.splitlines() == [letter.subject]
    assert "eve@example.org" not in letter.to


def test_who_is_no_plain_address_is_not_written_to() -> None:
    assert addresses("ada@example.org, -oQ/tmp, |sh, eve@x y, Bob <bob@x>, carl, ada@example.org") == (
        "ada@example.org",
        "carl",
    )


def test_an_attempt_that_is_a_path_is_none() -> None:
    assert parse("X-Outlast-Attempt: ../../etc/passwd\n\nx", 0).attempt == ""
    assert parse("X-Outlast-Attempt: 12[3].pbs-1.0.2\n\nx", 0).attempt == "12[3].pbs-1.0.2"
    assert one_line(" a\n b\tc\x00d ") == "a b c d"


def test_a_run_of_the_same_name_is_another_thread(tmp_path: Path, house: House) -> None:
    house.message()
    house.flush()
    again = House(tmp_path / "again/r1")
    again.run.events.write_text('{"t": 1}\n')
    again.message()
    again.flush()
    assert house.mails[0].thread != again.mails[0].thread


# ── what can't be sent ────────────────────────────────────────────────────────────────────────────────────────────


def test_what_cannot_be_sent_waits_and_says_why(house: House) -> None:
    name = house.message()
    house.friends.fail = {"mail"}
    assert house.flush() == Outcome(0, 0, ["mail is away"])
    assert house.files == [name, "last-error"]
    assert Outbox(house.run).last_error().endswith(": mail is away")
    assert waiting(house.run) == 1
    house.friends.fail = set()
    assert house.flush().sent == 1
    assert house.files == []


def test_a_channel_that_is_away_does_not_keep_the_others_waiting_nor_tell_them_twice(house: House) -> None:
    house.message(hooks="team")
    house.friends.fail = {"hook-team"}
    for _ in range(3):
        assert house.flush().errors == ["hook-team is away"]
    assert [channel for channel, _ in house.friends.got] == ["mail"]
    house.friends.fail = set()
    house.flush()
    assert [channel for channel, _ in house.friends.got] == ["mail", "hook-team"]
    assert house.files == []


def test_a_channel_that_is_away_is_asked_once_a_flush(house: House) -> None:
    for fingerprint in ("a", "b", "c"):
        house.message(Fingerprint=fingerprint)
    house.friends.fail = {"mail"}
    assert house.flush().errors == ["mail is away"]
    assert waiting(house.run) == 3


def test_a_message_to_nobody_stays(house: House) -> None:
    name = house.message(To="not an address")
    assert "nobody" in house.flush().errors[0]
    assert name in house.files


def test_an_end_in_the_middle_loses_nothing(house: House) -> None:
    name = house.message()

    def dies() -> None:
        raise KeyboardInterrupt

    house.friends.meanwhile = dies
    with pytest.raises(KeyboardInterrupt):
        house.flush()
    assert house.files == [name]


def test_a_file_that_is_no_message_is_left_alone(house: House) -> None:
    for name in ("notes.txt", ".1.mail", "mail.1700.3", "1~Mail.mail"):
        (house.run.path / "outbox" / name).write_text("x")
    (house.run.path / "outbox/1700.link.mail").symlink_to("/etc/hostname")
    assert house.flush() == Outcome(0, 0, [])
    assert house.friends.got == []


def test_a_full_disk_takes_part_in_nothing(house: House) -> None:
    """No byte can be written, and all the same each channel is told once."""
    name = house.message(hooks="team")
    house.friends.fail = {"hook-team"}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        assert house.flush().errors == ["hook-team is away"]
        assert house.files == [name.replace(".mail", "~mail.mail")]
        house.friends.fail = set()
        house.flush()
        house.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [channel for channel, _ in house.friends.got] == ["mail", "hook-team"]
    assert house.sent == [name]


# ── several senders ───────────────────────────────────────────────────────────────────────────────────────────────


def test_what_somebody_is_sending_is_left_to_them(house: House) -> None:
    name = house.message()
    claim = house.run.path / "outbox" / f"{name}.claimed.{int(NOW)}"
    (house.run.path / "outbox" / name).rename(claim)
    house.now += DEAD_S - 1
    assert house.flush() == Outcome(0, 0, [])
    house.now += 2
    assert house.flush().sent == 1  # its sender has died


def test_who_wakes_up_late_does_not_send_what_was_taken_back(house: House) -> None:
    """Its claim is gone, or so old that it may be gone in a moment."""
    house.message(hooks="team")

    def sleeps() -> None:
        house.now += DEAD_S
        house.friends.meanwhile = lambda: None

    house.friends.meanwhile = sleeps
    house.flush()
    assert [channel for channel, _ in house.friends.got] == ["mail"]


def test_many_senders_at_once_send_each_message_once(house: House) -> None:
    for number in range(30):
        house.message(Fingerprint=str(number))
    threads = [Thread(target=house.flush) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    house.flush()
    assert sorted(letter.id for letter in house.mails) == sorted({letter.id for letter in house.mails})
    assert len(house.mails) == 30


# ── not too many ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_the_same_news_one_is_sent_an_hour_and_then_the_rest_together(house: House) -> None:
    for minute in (0, 5, 10):
        house.now = NOW + minute * 60
        house.message(f"crash at minute {minute}", kind="rapid_crash")
        house.flush()
    assert len(house.mails) == 1
    assert waiting(house.run) == 2
    house.now = NOW + 3599
    assert house.flush() == Outcome(0, 2, [])
    house.now = NOW + 3601
    assert house.flush() == Outcome(2, 0, [])
    digest = house.mails[1]
    assert digest.subject == "[outlast] r1: rapid_crash (and 1 before)"
    assert digest.text.startswith("crash at minute 10")
    assert "1 more of the same before:" in digest.body
    assert digest.others[0].endswith("crash at minute 5")


def test_other_news_is_not_held_back(house: House) -> None:
    house.message(kind="rapid_crash")
    house.message(kind="rapid_crash", Fingerprint="exit/2")
    house.message(kind="held")
    house.message(kind="held", Attempt="8.0.1")  # somebody has resumed the run, and it is held again
    assert house.flush().sent == 4
    assert len(house.mails) == 4


def test_what_one_channel_has_holds_the_same_news_back_on_all(house: House) -> None:
    house.friends.fail = {"hook-team"}
    house.message(kind="rapid_crash", hooks="team")
    house.flush()
    house.message(kind="rapid_crash", hooks="team")
    house.flush()
    assert len(house.mails) == 1
    house.now += 3601
    house.flush()
    assert len(house.mails) == 2  # a hook that never answers does not keep mails back for ever


def test_of_those_sent_the_last_hundred_stay(house: House) -> None:
    for number in range(SENT_AT_MOST + 3):
        house.message(Fingerprint=str(number))
    house.flush()
    assert len(house.sent) == SENT_AT_MOST
    assert house.sent[0].endswith(".00004.mail")
