"""What a scheduler says of its bad nodes: `sinfo -R`, `pbsnodes -l`, and the comments in `pbsnodes -a`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from outlast import hostlist
from outlast.badnodes import book
from outlast.badnodes import entry as entries
from outlast.badnodes.book import Line
from outlast.badnodes.entry import Entry
from outlast.crash import names

_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{5,8}"
# `sinfo -R`: REASON USER TIMESTAMP NODELIST; with -l a STATE before the last.
_SLURM = re.compile(rf"(?P<why>\S.*?)\s+\S+\s+(?P<time>{_TIME}|Unknown|None|N/A)\s+(?:\S+\s+)?(?P<nodes>\S+)\s*")
_STATE = r"(?:offline|down|state-unknown|unknown|stale|unresolvable|maintenance|provisioning)"
_PBS = re.compile(rf"(?P<node>\S+)\s+(?P<state>{_STATE}(?:,[a-z-]+)*)\s*(?P<why>.*?)\s*")
_OF_NODE = re.compile(r"\s+(state|comment) = (.*?)\s*")
# Work on the machine, after which the node is as good as before.
_PLANNED = re.compile(r"maint|reboot|upgrade|updat|reserv|schedul|planned|benchmark|dst\b", re.I)


@dataclass(frozen=True)
class Fact:
    """A node that the scheduler calls bad; `seen` is when, in the site's own time, empty where it does not say."""

    host: str
    why: str
    seen: str = ""

    @property
    def is_planned(self) -> bool:
        """Is it out for work that was planned?"""
        return bool(_PLANNED.search(self.why))


def facts(text: str) -> list[Fact]:
    """The facts in such an output, each node once: its last line counts."""
    found: dict[str, Fact] = {}
    for fact in [*_lines(text), *_blocks(text)]:
        found[fact.host] = fact
    return list(found.values())


def _lines(text: str) -> Iterable[Fact]:
    for line in text.splitlines():
        slurm, pbs = _SLURM.fullmatch(line), _PBS.fullmatch(line)
        if slurm:
            seen = slurm["time"] if re.fullmatch(_TIME, slurm["time"]) else ""
            yield from (Fact(host, slurm["why"], seen) for host in _hosts(slurm["nodes"]))
        elif pbs:
            yield from _of_pbs(pbs["node"], pbs["state"], pbs["why"])


def _blocks(text: str) -> Iterable[Fact]:
    """`pbsnodes -a`: a name at the left, what is said of it further in."""
    host, said = "", {"state": "", "comment": ""}
    for line in [*text.splitlines(), "end"]:
        inside = _OF_NODE.fullmatch(line)
        if inside:
            said[inside[1]] = inside[2]
        elif line and not line[0].isspace():
            yield from _of_pbs(host, said["state"], said["comment"])
            host, said = line.strip(), {"state": "", "comment": ""}


def _of_pbs(node: str, state: str, why: str) -> Iterable[Fact]:
    # A server that was restarted has not heard of any node yet, and says so without a comment.
    unheard = "state-unknown" in state and not why
    if (host := names.short(node)) and re.match(_STATE, state) and not unheard:
        yield Fact(host, why or state)


def _hosts(written: str) -> list[str]:
    try:
        return [host for host in map(names.short, hostlist.expand(written)) if host]
    except hostlist.HostlistError:
        return []


def taken(lines: list[Line], told: Iterable[Fact], today: date) -> tuple[list[Line], list[Entry]]:
    """The lines with these facts, and what was new of them.

    A node that is in the file already gets one more strike only for what began after its last one.
    """
    new: list[Entry] = []
    there = book.nodes(lines)
    for fact in told:
        old = there.get(fact.host)
        if old and not old.is_over(today) and fact.seen <= (old.value("seen") or f"{old.since}T99"):
            continue
        words = ("source=import", *([f"seen={fact.seen}"] if fact.seen else []))
        one = Entry(fact.host, today, entries.word(fact.why), words)
        lines = book.struck(lines, one)
        new.append(one)
    return lines, new
