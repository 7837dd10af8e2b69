"""Lists of hosts as Slurm writes them: `nid[001-004,007],n9`."""

import itertools
import re
from collections.abc import Iterable, Iterator

from outlast.refused import Refused

MOST = 100_000  # hosts of one list
_ITEM = re.compile(r"(?:[^\[\],\s]|\[[0-9,-]+\])+")
_PART = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})")


class HostlistError(Refused):
    """The text is no list of hosts."""


def expand(text: str) -> list[str]:
    """The hosts of a list, in its order, leading zeros kept. Empty parts count for nothing, as in Slurm.

    Raises: HostlistError.
    """
    found: list[str] = []
    for item in _items(text):
        parts = [_numbers(inside, text) if inside else [plain] for inside, plain in _PART.findall(item)]
        for words in itertools.product(*parts):
            found.append("".join(words))
            if len(found) > MOST:
                raise HostlistError(f"{text[:60]!r} names more than {MOST} hosts")
    return found


def _items(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        if text[at] in ", \t\n":
            at += 1
            continue
        item = _ITEM.match(text, at)
        if item is None or (item.end() < len(text) and text[item.end()] not in ", \t\n"):
            raise HostlistError(f"{text[:60]!r} is no list of hosts such as nid[001-004,007],n9")
        yield item[0]
        at = item.end()


def _numbers(inside: str, text: str) -> list[str]:
    found: list[str] = []
    for part in inside.split(","):
        bounds = _RANGE.fullmatch(part)
        first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (1, 0)
        if bounds is None or last < first:
            raise HostlistError(f"{text[:60]!r}: [{inside}] is no list of numbers such as 001-004,007")
        if last - first + len(found) >= MOST:
            raise HostlistError(f"{text[:60]!r} names more than {MOST} hosts")
        found += [str(number).zfill(len(bounds[1])) for number in range(first, last + 1)]
    return found


def compress(hosts: Iterable[str]) -> str:
    """One text for these hosts, each once, sorted.

    A bracket stands only at the end of a name, with numbers of one width: that is what Slurm before 23 reads.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for host in sorted(set(hosts)):
        numbered = _NUMBERED.fullmatch(host)
        head, digits = (numbered[1], numbered[2]) if numbered else (host, "")
        groups.setdefault((head, len(digits)), []).extend([int(digits)] if digits else [])
    return ",".join(_group(head, width, sorted(numbers)) for (head, width), numbers in sorted(groups.items()))


def _group(head: str, width: int, numbers: list[int]) -> str:
    if not width:
        return head
    if len(numbers) == 1:
        return f"{head}{numbers[0]:0{width}}"
    ranges: list[str] = []
    # In a run of neighbours number and place grow alike.
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        ends = [number for _, number in run]
        ranges.append(f"{ends[0]:0{width}}" + (f"-{ends[-1]:0{width}}" if len(ends) > 1 else ""))
    return f"{head}[{','.join(ranges)}]"
