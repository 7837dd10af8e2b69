"""One bad node: how long its strikes last, and how bad it is today. lib/badnodes.sh counts alike."""

import re
from dataclasses import dataclass, replace
from datetime import date, timedelta

from outlast.crash import names

# Days by half strikes: 14 for one, each further one doubles them, and 112 are the most.
LASTS = (10, 14, 20, 28, 40, 56, 79, 112)
HALF_LIFE_DAYS = 14.0

_WORD = re.compile(r"[^A-Za-z0-9_.:+-]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STRIKES = re.compile(r"[0-9]{1,4}(\.[0-9]{1,2})?")
_KEY = re.compile(r"([a-z_]+)=(.*)", re.S)


@dataclass(frozen=True)
class Entry:
    """A node, the day (UTC) of its last strike and why; `words` are what else its line says, `comment` its end."""

    host: str
    since: date
    reason: str
    words: tuple[str, ...] = ()
    comment: str = ""

    def value(self, key: str) -> str:
        """The last value of KEY=VALUE on the line; empty: it has none."""
        pairs = [_KEY.fullmatch(word) for word in self.words]
        return next((pair[2] for pair in reversed(pairs) if pair and pair[1] == key), "")

    @property
    def strikes(self) -> float:
        """How often it was to blame; half a strike is a mere suspicion."""
        text = self.value("strikes")
        return (float(text) or 1.0) if _STRIKES.fullmatch(text) else 1.0

    @property
    def ends(self) -> date:
        """The first day on which it counts as good again."""
        halves = min(max(int(2 * self.strikes), 1), len(LASTS))
        try:
            return self.since + timedelta(days=LASTS[halves - 1])
        except OverflowError:
            return date.max

    def is_over(self, today: date) -> bool:
        """Does it count no more?"""
        return today >= self.ends

    def score(self, today: date) -> float:
        """How bad it is: its strikes, halved every 14 days since the last one."""
        return float(self.strikes * 0.5 ** (max(0, (today - self.since).days) / HALF_LIFE_DAYS))

    def with_words(self, **values: str) -> "Entry":
        """The same with these KEY=VALUE; an empty value takes its key away."""
        kept = [word for word in self.words if word.partition("=")[0] not in values]
        return replace(self, words=(*kept, *(f"{key}={value}" for key, value in values.items() if value)))

    def line(self) -> str:
        """As it stands in the file, without the line's end."""
        text = "  ".join((self.host, self.since.isoformat(), self.reason, *self.words))
        return f"{text}  {self.comment}" if self.comment else text


def read(line: str) -> Entry | None:
    """The entry of a line; None: the line has no host, day and reason."""
    before, hash_, after = line.rstrip("\r\n").partition("#")
    words = re.findall(r"[^ \t]+", before)  # as awk does
    if len(words) < 3 or not _DATE.fullmatch(words[1]) or words[0] != words[0].strip():
        return None
    if not (host := names.short(words[0])):
        return None
    try:
        since = date.fromisoformat(words[1])
    except ValueError:
        return None
    return Entry(host, since, words[2], tuple(words[3:]), (hash_ + after).rstrip())


def word(text: str) -> str:
    """A reason as one word: `GPU is lost` is GPU_is_lost."""
    return _WORD.sub("_", text.strip())[:64].strip("_") or "unknown"


def joined(old: Entry | None, new: Entry) -> Entry:
    """What two strikes on a node make: they add up, unless the time of the old one was over. Days never go back."""
    if old is None or old.is_over(new.since):
        return new
    both = replace(new, since=max(old.since, new.since), words=old.words, comment=old.comment)
    if new.comment and new.comment != old.comment:
        both = replace(both, comment=f"{old.comment} {new.comment}".strip())
    told = {pair[1]: pair[2] for text in new.words if (pair := _KEY.fullmatch(text))}
    # Whose strike it was is told of the last one only.
    about = {"job": "", "source": "", "seen": ""} | told
    return both.with_words(**about | {"strikes": f"{old.strikes + new.strikes:g}"})
