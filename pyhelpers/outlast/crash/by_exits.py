"""The verdict by the exits of ranks alone: rule 5."""

from outlast import story
from outlast.crash import verdict
from outlast.crash.case import Case, unique
from outlast.crash.exits import Exit
from outlast.crash.verdict import Verdict

EVIDENCE = 8

_BY_HOW = {
    "oom": "host_oom",
    "kill": "process_killed",
    "segv": "segfault",
    "bus": "bus_error",
    "illegal": "illegal_instruction",
    "fpe": "floating_point_exception",
}


def by_exits(case: Case) -> Verdict | None:
    """The verdict by the exits of ranks alone."""
    bad = case.ends
    if not bad:
        return None
    if all(ended.how == "term" for ended in bad):
        return _terminated(case, bad)
    first = case.originals
    if not first:
        return None
    name = _BY_HOW.get(first[0].how, "unknown")
    first = [ended for ended in first if ended.how == first[0].how]
    hosts = [
        host
        for name_ in unique(host for ended in first for host in ended.hosts)
        if (host := case.seen.layout.host(name_))
    ]
    ranks = case.ranks_of(first)
    found = Verdict(name, "unknown", "unknown", "retry", confidence=0.6)
    if pattern := next((one for one in case.book.patterns if one.name == name), None):
        found.scope, found.persistence, found.action = (
            pattern.outcome[key] for key in ("scope", "persistence", "action")
        )
    lone = len(hosts) == 1 and (len(ranks) <= 1 or first[0].how in ("oom", "kill"))
    if lone and name != "unknown":
        found.blame_nodes = hosts
    if len(ranks) == 1 or (lone and name != "unknown"):
        found.blame_ranks = ranks
    if name == "unknown":
        found.confidence = 0.3
    said = story.plain(first[0].text.strip())
    found.why = f"{case.book.says(name) or 'No line says why'}: it began with {said[:120]!r}"
    found.evidence = [case.evidence(ended) for ended in first[:EVIDENCE]]
    found.fingerprint = verdict.fingerprint(name, first[0].how, str(first[0].code))
    return found


def _terminated(case: Case, bad: list[Exit]) -> Verdict:
    found = Verdict("sigterm_external", "scheduler", "unknown", "none", confidence=0.6)
    found.why = "All ranks got TERM and nothing failed before: only the scheduler's record tells who sent it"
    found.evidence = [case.evidence(ended) for ended in bad[:3]]
    found.fingerprint = verdict.fingerprint("sigterm_external")
    return found
