"""What is sent: the newest of some messages that say the same, with its report, and a line for each of the others."""

import hashlib
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path

from outlast import markup
from outlast.crash.verdict import printable
from outlast.masked import masked
from outlast.notice.message import Message, one_line
from outlast.rundir import RunDir

_LISTED = 50
_REPORT = 1 << 16


@dataclass(frozen=True)
class Letter:
    """Plain text, masked, with nothing in it that a terminal or a header would take for more.

    `id` is the same whenever the same message is sent, so that a mailbox can drop one that came twice; `thread` is the
    same for all of a run. `others` are the messages that were held back, a line each.
    """

    id: str
    thread: str
    run: str
    kind: str
    at: int
    to: tuple[str, ...]
    subject: str
    text: str
    report: str = ""
    others: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        """All of it as one text."""
        held = [f"{len(self.others)} more of the same before:\n" + "\n".join(self.others)] if self.others else []
        return "\n\n".join(part.strip("\n") for part in [self.text, self.report, *held] if part) + "\n"


def letter(run: RunDir, messages: list[tuple[str, Message]]) -> Letter:
    """One letter for all of these, which have one key, the newest last; each with its name in the outbox."""
    name, newest = messages[-1]
    thread = _thread(run)
    more = len(messages) - 1
    others = tuple(_line(message) for _, message in messages[:-1])[-_LISTED:]
    return Letter(
        f"{name}.{thread}",
        thread,
        run.name,
        newest.kind,
        newest.at,
        newest.to,
        masked(one_line(newest.subject)) + (f" (and {more} before)" if more else ""),
        _clean(_for_people(newest.text)),
        _report(run, newest.attempt),
        others,
    )


def mail(letter: Letter, sender: str = "") -> EmailMessage:
    """The letter for a mail server, or without a sender for a command that puts its own there."""
    domain = letter.to[0].partition("@")[2] or "localhost"
    new = EmailMessage(policy=SMTP)
    if sender:
        new["From"] = _address(sender)
    new["To"] = tuple(_address(to) for to in letter.to)
    new["Subject"] = letter.subject
    new["Date"] = format_datetime(datetime.fromtimestamp(letter.at, UTC))
    new["Message-ID"] = f"<{letter.id}@{domain}>"
    # No mail has this id: programs for mail put what refers to one that they do not have into one thread all the same.
    new["In-Reply-To"] = new["References"] = f"<{letter.thread}@{domain}>"
    new["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday notice answers
    new.set_content(letter.body)
    new.add_alternative(_html(letter), subtype="html")
    return new


def _address(text: str) -> Address:
    user, _, domain = text.partition("@")
    return Address(username=user, domain=domain)


def _thread(run: RunDir) -> str:
    """Of this run alone: its name may be used again, its first event is not. The path is another on other machines."""
    first = b""
    try:
        with run.events.open("rb") as file:
            first = file.readline(4096)
    except OSError:
        pass
    return hashlib.sha256(run.name.encode() + b"\n" + first).hexdigest()[:20]


def _line(message: Message) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(message.at))
    return _clean(f"{when}  {one_line(_for_people(message.text.strip().partition(chr(10))[0]))}")


def _clean(text: str) -> str:
    return "\n".join(printable(line) for line in masked(text).split("\n"))


def _for_people(text: str) -> str:
    """The message without what the ranks' shim wrote for programs, as story.plain does it with evidence alone."""
    return re.sub(r"\boutlast: (?=rank \d)|(?<=[A-Z0-9]) at \d{10}(?=;|$)", "", text, flags=re.M)


def _report(run: RunDir, attempt: str) -> str:
    """The report of the attempt, where there is one; reports are masked when they are made."""
    path = run.path / "reports" / f"{attempt}.txt"
    try:
        return _clean(_beginning(path)) if attempt else ""
    except OSError:
        return ""


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_REPORT).decode(errors="replace")


def _html(letter: Letter) -> str:
    return markup.html("mail.html.j2", letter=letter)
