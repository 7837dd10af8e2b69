"""Which checkpoints are whole, over all nodes that hold parts of them."""

import re
from dataclasses import dataclass, field

from outlast.sidecar.settings import Ranks

# torch.distributed.checkpoint: `.metadata` is written last, by one rank, and names every file of the checkpoint.
INDEX = ".metadata"
INDEX_NAMES = r"__[0-9]+_[0-9]+\.distcp"


@dataclass(frozen=True)
class Part:
    """A file, where it is taken from."""

    host: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Entry:
    """What one host has of one checkpoint, and for how long nothing in it had changed at the time `seen_s`."""

    step: int
    files: dict[str, tuple[int, int]]  # path: bytes, time of change in ns
    quiet_s: float
    seen_s: float


@dataclass(frozen=True)
class Rules:
    """How to tell that a checkpoint is whole."""

    complete: str
    quiet_s: float
    sharded: bool
    hosts: tuple[str, ...]  # of the launch, in the order of ranks
    ranks_per_node: int


@dataclass(frozen=True)
class Verdict:
    """What is known of one checkpoint. `torn`: it will not become whole any more unless a node comes back."""

    name: str
    step: int
    whole: bool
    torn: bool
    files: dict[str, Part] = field(default_factory=dict)
    missing: tuple[str, ...] = ()  # what it lacks, in words
    differ: tuple[str, ...] = ()  # paths that several hosts have, with different sizes


def judge(
    name: str,
    entries: dict[str, Entry],  # by host
    named: dict[str, frozenset[str]],  # what each index in it names, by the index's path; not there: not known yet
    rules: Rules,
    ranks: Ranks,
    absent: frozenset[str],  # hosts of the launch that are not there
    late: frozenset[str],  # those of them that will not be waited for
    now: float,
) -> Verdict:
    """The verdict on one checkpoint. The first host in the order of ranks gives a file that several have."""
    files, differ = _union(entries, rules.hosts)
    step = max(entry.step for entry in entries.values())
    over = _have_ended(ranks) and not absent - late  # nobody is left who could still have what is missing
    verdict = Verdict(name, step, False, False, files, (), differ)
    if rules.complete and rules.complete not in files:
        return _unfinished(verdict, over, f"{rules.complete} is missing")
    if not all(_is_quiet(entry, rules, ranks, now) for entry in entries.values()):
        return _unfinished(verdict, over, "it was being written when the ranks ended")
    missing = _missing(files, named, rules)
    if missing:
        return _unfinished(verdict, over, *missing)
    if any(path not in named for path in _indexes(files)):
        return verdict
    if rules.sharded and differ:
        return _unfinished(verdict, over, *(f"{path} differs from node to node" for path in differ))
    # An index tells what there must be. Without one only the nodes can tell, so they must all have been seen.
    silent = absent - entries.keys() if not _indexes(files) else frozenset()
    if rules.sharded and silent & late:
        return _unfinished(verdict, over, *(f"{host} is gone" for host in sorted(silent)))
    if silent - late:
        return verdict
    return Verdict(name, step, True, False, files, (), differ)


def _union(entries: dict[str, Entry], hosts: tuple[str, ...]) -> tuple[dict[str, Part], tuple[str, ...]]:
    rank = {host: number for number, host in enumerate(hosts)}
    files: dict[str, Part] = {}
    differ: set[str] = set()
    for host in sorted(entries, key=lambda host: (rank.get(host, len(rank)), host)):
        for path, (size, mtime_ns) in entries[host].files.items():
            part = files.setdefault(path, Part(host, size, mtime_ns))
            if part.size != size:
                differ.add(path)
    return files, tuple(sorted(differ))


def _have_ended(ranks: Ranks) -> bool:
    return ranks.known and not ranks.running


def _unfinished(verdict: Verdict, over: bool, *missing: str) -> Verdict:
    """If whoever was to finish it is gone, it is torn."""
    return Verdict(verdict.name, verdict.step, False, over, verdict.files, tuple(missing), verdict.differ)


def _is_quiet(entry: Entry, rules: Rules, ranks: Ranks, now: float) -> bool:
    """Has nothing changed for long enough? As lib/checkpoint.sh has it.

    Without a last file quiet is the only proof, and it is one only while the writer lives: what a killed rank was
    writing is quiet for ever. A rank that ended with 0 has written all.
    """
    if rules.complete and _have_ended(ranks):
        return True
    if not rules.complete and not ranks.known:
        return False
    if not rules.complete and _have_ended(ranks):
        if ranks.code == 0:
            return True
        # It must have been quiet for that long already when the ranks ended; the host's own clock does not matter.
        return entry.quiet_s - (entry.seen_s - ranks.ended_s) >= rules.quiet_s
    return entry.quiet_s >= rules.quiet_s


def _indexes(files: dict[str, Part]) -> list[str]:
    return [path for path in files if path.rpartition("/")[2] == INDEX]


def _missing(files: dict[str, Part], named: dict[str, frozenset[str]], rules: Rules) -> list[str]:
    """What the indexes name and nobody has, in words, node by node."""
    absent: dict[str, list[str]] = {}
    for index in _indexes(files):
        folder = index[: -len(INDEX)]
        for name in sorted(named.get(index, frozenset())):
            if folder + name not in files:
                absent.setdefault(_writer(name, rules), []).append(folder + name)
    return [
        f"{host or 'no node'} has not {', '.join(paths[:3])}{f' and {len(paths) - 3} more' if len(paths) > 3 else ''}"
        for host, paths in sorted(absent.items())
    ]


def _writer(name: str, rules: Rules) -> str:
    rank = re.match(r"__([0-9]+)_", name)
    number = int(rank[1]) // rules.ranks_per_node if rank else len(rules.hosts)
    return rules.hosts[number] if number < len(rules.hosts) else ""
