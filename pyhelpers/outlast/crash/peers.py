"""Who is meant when ranks complain about each other: the one that all name and that itself is silent."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Accusations:
    """Pairs of who says it and of whom; a name that could not be resolved is in `unknown`."""

    by_accused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unknown: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    accusers: set[str] = field(default_factory=set)

    def add(self, accuser: str, accused: str, raw: str) -> None:
        """`accuser` complains about `accused`, which the line writes as `raw`."""
        if accuser:
            self.accusers.add(accuser)
        if accused and accused != accuser:
            self.by_accused[accused].add(accuser or f"?{len(self.by_accused[accused])}")
        elif not accused:
            self.unknown[raw].add(accuser or f"?{len(self.unknown[raw])}")


@dataclass(frozen=True)
class Finding:
    """The host to blame, or nobody; why; how sure."""

    host: str
    why: str
    confidence: float


def judge(all_of_them: Accusations, local_port: bool) -> Finding:
    """The silent one that is named. `local_port`: a single host that accuses several others is itself suspect."""
    accused = all_of_them.by_accused
    if not accused or len(all_of_them.unknown) > len(accused):
        return Finding(
            "", "the address of the peer belongs to no known host" if all_of_them.unknown else "no peer is named", 0.5
        )
    if local_port and len(accused) > 1 and len(all_of_them.accusers) == 1:
        host = next(iter(all_of_them.accusers))
        return Finding(host, f"only {host} complains, about {len(accused)} others: its own port", 0.7)
    silent = [host for host in accused if host not in all_of_them.accusers]
    ranked = sorted(accused, key=lambda host: len(accused[host]), reverse=True)
    if len(silent) == 1:
        host = silent[0]
        most = len(accused[ranked[0]])
        if len(accused[host]) * 2 >= most:
            count = len([one for one in accused[host] if not one.startswith("?")]) or 1
            said = f"{count} hosts name {host}" if count > 1 else f"{host} is named"
            return Finding(
                host, f"{said} as the peer that went, and it said nothing itself", 0.85 if count > 1 else 0.6
            )
    first, second = ranked[0], ranked[1] if len(ranked) > 1 else ""
    if len(accused[first]) >= 2 and (not second or len(accused[first]) >= 2 * len(accused[second])):
        return Finding(first, f"{len(accused[first])} hosts name {first} as the peer that went", 0.65)
    return Finding("", "they name each other, so nobody can be told apart", 0.6)
