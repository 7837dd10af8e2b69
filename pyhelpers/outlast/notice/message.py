"""A message as a job leaves it (lib/mail.sh): a whole mail, so that any mail command can take it as it is."""

import re
from dataclasses import dataclass

# Plain addresses, and names of users on this machine. Nothing that a mailer, a shell or a scheduler would read as more.
ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+=-]*(@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)?")
HOOK = re.compile(r"[a-z0-9][a-z0-9-]{0,29}")
_ATTEMPT = re.compile(r"[A-Za-z0-9_][\w.\[\]-]*", re.A)
_BREAKS = re.compile(r"[^\S\n]*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")
# Those that come back by themselves; the others end a job, and the next needs a person or a day.
_REPEATS = ("rapid_crash", "not_durable")


@dataclass(frozen=True)
class Message:
    """Who is to be told what. `attempt` is JOB.RESTART.ATTEMPT, `at` UTC seconds since 1970."""

    at: int
    kind: str
    subject: str
    text: str
    fingerprint: str = ""
    attempt: str = ""
    to: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Messages with the same key say the same: of these one an hour is enough."""
        job = "" if self.kind in _REPEATS else self.attempt.partition(".")[0]
        return (self.kind, self.fingerprint, job)


def parse(text: str, at: int) -> Message:
    """The message; what is not there or has not the form of an address, a name or an attempt is left out."""
    head, _, body = text.partition("\n\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\n"))}
    attempt = fields.get("x-outlast-attempt", "")
    return Message(
        at,
        one_line(fields.get("x-outlast-kind", "")),
        one_line(fields.get("subject", "")),
        body,
        one_line(fields.get("x-outlast-fingerprint", "")),
        attempt if _ATTEMPT.fullmatch(attempt) else "",
        addresses(fields.get("to", "")),
        tuple(name for name in fields.get("x-outlast-hooks", "").split() if HOOK.fullmatch(name)),
    )


def addresses(text: str) -> tuple[str, ...]:
    """The addresses in a list with commas, each once."""
    parts = (part.strip() for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if ADDRESS.fullmatch(part)))


def one_line(text: str) -> str:
    """The text without line ends of any kind and control characters: fit for a header."""
    return "".join(char if char.isprintable() else " " for char in _BREAKS.sub(" ", text)).strip()
