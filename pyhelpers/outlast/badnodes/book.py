"""The text of a bad-node file: what people wrote into it stays, byte for byte, where nothing is to be changed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from outlast.badnodes import entry as entries
from outlast.badnodes.entry import Entry

_SILENT = re.compile(r"\s*(#.*)?", re.S)


@dataclass(frozen=True)
class Line:
    """A line with its end, and the entry that it is, if it is one."""

    text: str
    entry: Entry | None = None

    @property
    def is_odd(self) -> bool:
        """Is it neither an entry nor blank nor a comment?"""
        return self.entry is None and not _SILENT.fullmatch(self.text)


def parse(text: str) -> list[Line]:
    """The lines, in order."""
    return [Line(line, entries.read(line)) for line in re.findall(r"[^\n]*\n|[^\n]+", text)]


def text(lines: Iterable[Line]) -> str:
    """The text that these lines are."""
    return "".join(line.text for line in lines)


def odd(lines: list[Line]) -> list[str]:
    """`line 3: node1042` for each line that nobody can read."""
    return [f"line {number}: {line.text.strip()[:60]}" for number, line in enumerate(lines, 1) if line.is_odd]


def nodes(lines: Iterable[Line]) -> dict[str, Entry]:
    """What the file says of each node, over or not. Of several lines about one the strikes add up, in order of days."""
    told = sorted((line.entry for line in lines if line.entry), key=lambda one: one.since)
    found: dict[str, Entry] = {}
    for one in told:
        found[one.host] = entries.joined(found.get(one.host), one)
    return found


def worst(lines: Iterable[Line], today: date, with_over: bool = False) -> list[Entry]:
    """The nodes that are bad today, by score, then the newest, then the name."""
    found = [one for one in nodes(lines).values() if with_over or not one.is_over(today)]
    return sorted(found, key=lambda one: (-one.score(today), -one.since.toordinal(), one.host))


def struck(lines: list[Line], new: Entry) -> list[Line]:
    """The lines after one more strike. The same strike of the same job, told again, is none."""
    old = nodes(lines).get(new.host)
    if old and new.value("job") and new.value("job") == old.value("job"):
        return lines
    return _put(lines, entries.joined(old, new))


def _put(lines: list[Line], new: Entry) -> list[Line]:
    """The node's last line becomes this one, its other lines go; a node without one gets it at the end."""
    places = [at for at, line in enumerate(lines) if line.entry and line.entry.host == new.host]
    if not places:
        last = [Line(f"{lines[-1].text}\n", lines[-1].entry)] if lines and not lines[-1].text.endswith("\n") else []
        return [*(lines[:-1] if last else lines), *last, Line(f"{new.line()}\n", new)]
    end = "\r\n" if lines[places[-1]].text.endswith("\r\n") else "\n"
    return [
        Line(new.line() + end, new) if at == places[-1] else line
        for at, line in enumerate(lines)
        if at not in places[:-1]
    ]


def without(lines: list[Line], hosts: Iterable[str]) -> list[Line]:
    """The lines without those of these nodes."""
    gone = set(hosts)
    return [line for line in lines if not (line.entry and line.entry.host in gone)]


def over(lines: list[Line], today: date) -> list[Entry]:
    """The nodes whose time is over, by name."""
    return sorted((one for one in nodes(lines).values() if one.is_over(today)), key=lambda one: one.host)
