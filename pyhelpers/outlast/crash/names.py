"""Which host is meant: names, host lists, addresses, ranks and tasks."""

import re
from dataclasses import dataclass, field

from outlast import hostlist

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")
_FABRIC = re.compile(r"-(?:hsn|ib|eth|hsi|opa|roce)\d*$")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|[0-9a-fA-F]*:[0-9a-fA-F:]+")
MOST = 100_000  # hosts and ranks of one list
NOT_HOSTS = {"localhost", "node", "host", "rank", "unknown"}


def short(name: str) -> str:
    """The node's own name: without domain and fabric interface; empty for what is no name of a host.

    x4512c6s3b0n0.hostmgmt2512.cm.example.org, x4512c6s3b0n0-hsn0 and x4512c6s3b0n0 are one node.
    """
    if _ADDRESS.fullmatch(name):
        return ""
    label = _FABRIC.sub("", name.strip().split(".", 1)[0])
    return label if _NAME.fullmatch(label) and label.lower() not in NOT_HOSTS else ""


def hosts(written: str) -> list[str]:
    """The hosts of a Slurm host list: `gpu-[001-003,007],n9`. One that is no list gives none."""
    if len(written) > 50_000:
        return []
    try:
        return [name for name in map(short, hostlist.expand(written)) if name]
    except hostlist.HostlistError:
        return []


def numbers(written: str) -> list[str]:
    """`001-003,7` as 001 002 003 7, leading zeros kept."""
    found: list[str] = []
    for part in written.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            continue
        end = int(last) if dash else int(first)
        if end - int(first) + len(found) > MOST:
            return found
        found += [str(number).zfill(len(first)) for number in range(int(first), end + 1)]
    return found


@dataclass
class Layout:
    """What is known of the job's hosts: from the caller, and from the log where that is silent."""

    ranks: dict[int, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    learned_ranks: dict[int, str] = field(default_factory=dict)
    learned_tasks: dict[int, str] = field(default_factory=dict)
    learned_addresses: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def known(self) -> set[str]:
        """The hosts of the job, as far as anybody said."""
        return set(self.given) | set(self.ranks.values())

    def learn(self, name: str, rank: int | None = None, address: str = "") -> None:
        """Note a host that the log names where nothing else can stand, and a rank or address of it."""
        host = short(name)
        if not host or len(self.seen) > MOST:
            return
        self.seen.add(host)
        if rank is not None:
            self.learned_ranks.setdefault(rank, host)
        if address:
            self.learned_addresses.setdefault(address, host)

    def host(self, name: str) -> str:
        """The node of this name or address; empty if it is none of the job's, or not known."""
        name = name.strip("[]()")
        if _ADDRESS.fullmatch(name):
            name = self.addresses.get(name) or self.learned_addresses.get(name) or ""
        host = short(name)
        known = self.known()
        if not known or host in known:
            return host
        # JUWELS writes the InfiniBand name of jwb0001 as jwb0001i.
        return host[:-1] if host[:-1] in known and host.endswith("i") else ""

    def weak(self, name: str) -> str:
        """The node of this name if it is known from elsewhere: the word may be no host at all."""
        host = self.host(name)
        return host if host and (host in self.known() or host in self.seen or _ADDRESS.fullmatch(name)) else ""

    def of_rank(self, rank: int) -> str:
        """The node of a rank; empty if not known."""
        learned = self.learned_ranks.get(rank, "")
        if not learned and self.tasks_are_ranks():
            learned = self.learned_tasks.get(rank, "")
        return self.ranks.get(rank) or self.host(learned)

    def of_task(self, task: int) -> str:
        """The node of a launcher's task: its number is a rank only where every rank is a task."""
        if task in self.learned_tasks:
            return self.host(self.learned_tasks[task])
        return self.of_rank(task) if self.tasks_are_ranks() else ""

    def tasks_are_ranks(self) -> bool:
        """Does what the launcher says about tasks fit what is known of ranks?"""
        if not self.ranks:
            # One task a node: a torchrun that starts the ranks.
            return len(set(self.learned_tasks.values())) < len(self.learned_tasks)
        both = [task for task in self.learned_tasks if task in self.ranks]
        return all(self.host(self.learned_tasks[task]) == self.ranks[task] for task in both)

    def ranks_of(self, host: str) -> list[int]:
        """All ranks of a node, where the layout is known."""
        return sorted(rank for rank, name in self.ranks.items() if name == host)

    def size(self) -> int:
        """How many nodes the job has; 0 if not known."""
        return len(self.known()) or len({self.host(name) for name in self.seen} - {""})
