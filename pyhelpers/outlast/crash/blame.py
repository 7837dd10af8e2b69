"""Whose fault it is: rule 4."""

from outlast.crash import late, peers
from outlast.crash.case import Case, unique
from outlast.crash.scan import Event


def way(event: Event) -> str:
    """How the pattern of an event blames."""
    return event.form.outcome.get("blame", event.pattern.outcome["blame"])


def blamed(case: Case, first: Event, group: list[Event]) -> tuple[list[str], list[int], str, float]:
    """Nodes and ranks to blame, why, and how sure."""
    how = way(first)
    if how == "peer":
        return _blamed_peer(case, first, group)
    if how == "late":
        return _blamed_late(case, group)
    hosts = unique(host for event in group for host in case.named(event))
    ranks = unique(
        rank
        for event in group
        if (not event.hosts or "rank" in event.groups) and (rank := case.rank(event)) is not None
    )
    if how == "few" and len(hosts) > 1:
        return [], [], f"on {len(hosts)} nodes at once, so none of them is to blame", 0.8
    if case.is_many(len(hosts), "sure" in first.pattern.flags):
        return [], [], f"on {len(hosts)} nodes at once, more than can be bad, so none is to blame", 0.75
    if not hosts and "one_rank" in first.pattern.flags:
        hosts, ranks = _exit_place(case, ranks)
    if "whole" in first.pattern.flags and len(hosts) == 1:
        ranks = case.seen.layout.ranks_of(hosts[0]) or ranks
    if not ranks and len(hosts) == 1 and not any(event.hosts for event in group):
        ranks = _lone_rank(case, hosts[0])
    where = (
        f"on {', '.join(hosts[:4])}"
        if hosts
        else f"by rank {', '.join(map(str, sorted(ranks)[:4]))}"
        if ranks
        else "the log does not tell where"
    )
    return hosts, ranks, f"said {where}" if hosts or ranks else where, 0.9 if hosts and first.tier == 1 else 0.7


def _lone_rank(case: Case, host: str) -> list[int]:
    """The rank of a node that ended badly, if it is one: for lines of a kernel, which knows none."""
    bad = [ended for ended in case.originals if ended.how != "term" and host in map(case.seen.layout.host, ended.hosts)]
    ranks = case.ranks_of(bad)
    return ranks if len(ranks) == 1 else []


def _exit_place(case: Case, ranks: list[int]) -> tuple[list[str], list[int]]:
    """Where the launcher says that a task was the first to be killed, for lines that do not say where."""
    killed = [ended for ended in case.originals if ended.how in ("oom", "kill", "segv", "bus", "abort")]
    hosts = unique(host for ended in killed for host in ended.hosts)
    hosts = [host for name in hosts if (host := case.seen.layout.host(name))]
    return (hosts, ranks or case.ranks_of(killed)) if len(hosts) == 1 else ([], ranks)


def _blamed_peer(case: Case, first: Event, group: list[Event]) -> tuple[list[str], list[int], str, float]:
    told = peers.Accusations()
    for event in group:
        if event.peer:
            told.add(case.host(event), case.seen.layout.host(event.peer), event.peer)
    local = "local_port" in first.pattern.flags
    if local and not told.by_accused and not told.unknown:
        here = unique(host for event in group if (host := case.host(event)))
        if len(here) == 1:
            return here, [], f"only {here[0]} complains", 0.6
    found = peers.judge(told, local)
    return [found.host] if found.host else [], [], found.why, found.confidence


def _blamed_late(case: Case, group: list[Event]) -> tuple[list[str], list[int], str, float]:
    layout = case.seen.layout
    world = len(layout.ranks)
    per_node = max((len(layout.ranks_of(host)) for host in set(layout.ranks.values())), default=0)
    ranks, why, sure = late.ranks(group, world, per_node)
    hosts = unique(host for rank in ranks if (host := layout.of_rank(rank)))
    if len(hosts) > 1 and case.is_many(len(hosts)):
        return [], [], f"{len(ranks)} ranks on {len(hosts)} nodes were late, so none is to blame", 0.5
    who = f"rank {', '.join(map(str, ranks[:4]))}: " if ranks else ""
    return hosts, ranks, who + why, sure
