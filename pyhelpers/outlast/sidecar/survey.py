"""What the nodes of the launch have, and what each checkpoint there is: whole, torn, still being written."""

import time
from collections.abc import Mapping

from outlast.checkpoint.format import Scene
from outlast.checkpoint.listing import Snapshot
from outlast.sidecar import disk, judge
from outlast.sidecar.crew import Crew, View
from outlast.sidecar.judge import Beside, Entry, Facts, Rules, Verdict
from outlast.sidecar.pages import Pages, Reading
from outlast.sidecar.settings import Ranks, Settings, State
from outlast.sidecar.tables import Files
from outlast.sidecar.transfer import Journal

GRACE_S = 60.0  # a node that was never there is waited for as long, by a checkpoint that can do without it
GONE_S = 15.0  # a node that was there is waited for as long when nobody writes any more


class Survey:
    """Of one launch after the other: `begin` starts anew."""

    def __init__(self, settings: Settings, state: State, crew: Crew, journal: Journal) -> None:
        self.attempt = -1
        self._settings = settings
        self._state = state
        self._crew = crew
        self._journal = journal
        self._pages = Pages(crew)
        self._known: dict[str, tuple[str, Facts]] = {}
        self._joined: dict[str, tuple[str, Files]] = {}
        self._journaled: dict[str, tuple[frozenset[str], dict[str, Entry]]] = {}
        self._begun_s = time.time()
        self._attempt_s = 0.0
        self._ended: tuple[int, float, str] = (-1, 0.0, "")
        self._ended_seen_s = 0.0

    def begin(self, attempt: int) -> None:
        """A launch begins: what an earlier one had is not of it."""
        self.attempt, self._attempt_s = attempt, time.time()
        self._known, self._joined, self._journaled = {}, {}, {}
        self._pages.forget()

    def absent(self, rules: Rules, ranks: Ranks) -> tuple[frozenset[str], frozenset[str]]:
        """The launch's hosts without an agent, and those of them that will not be waited for."""
        now = time.time()
        absent = frozenset(rules.hosts) - self._crew.present()
        over = ranks.known and not ranks.running
        gone_s = GONE_S if self._state.left_s(now) > 4 * GONE_S else GONE_S / 4
        late = set(absent & self._state.gone())
        for host in absent - late:
            left_s = self._crew.left_s.get(host)
            if left_s is not None:
                waited_s, limit_s = now - max(left_s, self._begun_s), gone_s if over else GRACE_S
            else:
                waited_s, limit_s = now - max(self._attempt_s, self._begun_s), GRACE_S
                if over:
                    waited_s, limit_s = now - max(ranks.ended_s, self._begun_s), gone_s
            if waited_s > limit_s:
                late.add(host)
        return absent, frozenset(late)

    def _entries(self) -> dict[str, dict[str, Entry]]:
        """What hosts have, by checkpoint: also what those had that are gone now.

        One that is not in the launch may have parts of an earlier one's checkpoints, by the same names.
        """
        found: dict[str, dict[str, Entry]] = {}
        for host, view in self._views().items():
            for name, entry in view.entries.items():
                found.setdefault(name, {})[host] = entry
        for key, hosts in self._journal.hosts.items():
            _, _, attempt = key.rpartition(".")
            unseen = frozenset(h for h in hosts if h not in self._crew.views or not self._crew.views[h].looked_s)
            if unseen and attempt == str(self.attempt):
                found.setdefault(key.rpartition(".")[0], {}).update(self._remembered(key, unseen))
        return found

    def _views(self) -> dict[str, View]:
        hosts = self._state.attempt()[1] or self._settings.hosts
        return {host: self._crew.views[host] for host in hosts if host in self._crew.views}

    def _remembered(self, key: str, hosts: frozenset[str]) -> dict[str, Entry]:
        """What the journal knows of hosts that nobody has heard since."""
        if self._journaled.get(key, (frozenset(),))[0] != hosts:
            name, _, _ = key.rpartition(".")
            step = disk.step_of(name, self._settings.prefix)
            found: dict[str, Entry] = {}
            for path, part, _ in self._journal.read(key):
                if part.host in hosts:
                    if part.host not in found:
                        found[part.host] = Entry(step, self._crew.tables.listing(), 1e9, time.time())
                    found[part.host].files.add([(path, part.size, part.mtime_ns)])
            self._journaled[key] = hosts, found
        return self._journaled[key][1]

    def is_fresh(self, ranks: Ranks, drain: str) -> bool:
        """Has every agent that is there looked since the ranks ended, and since this drain was asked for?"""
        views = self._crew.views
        if not ranks.known or ranks.running:
            return True
        ended = self.attempt, ranks.ended_s, drain  # the second in which they ended may be that of an earlier launch
        if ended != self._ended:
            self._ended, self._ended_seen_s = ended, time.time()
        return all(host in views and views[host].looked_s >= self._ended_seen_s for host in self._crew.present())

    def verdicts(self, ranks: Ranks, rules: Rules) -> list[Verdict]:
        """On every checkpoint that is newer than the newest durable one, newest first."""
        durable = self._state.durable_step()
        absent, late = self.absent(rules, ranks)
        around = judge.scene(rules, ranks, time.time())
        beside = {host: view.beside for host, view in self._views().items()}
        found = []
        for name, entries in self._entries().items():
            if not ranks.known or max(entry.step for entry in entries.values()) <= durable:
                continue
            files = self._files(name, entries, rules)
            there = judge.snapshot(name, files, entries, beside)
            facts = self._facts(there, entries, beside, rules, around)
            if facts is not None:
                found.append(judge.judge(facts, there, files, entries, rules, around, absent, late))
            else:
                found.append(Verdict(name, max(entry.step for entry in entries.values()), False, False))
        names = {verdict.name for verdict in found}
        self._known = {name: known for name, known in self._known.items() if name in names}
        self._joined = {name: joined for name, joined in self._joined.items() if name in names}
        return sorted(found, key=lambda verdict: verdict.step, reverse=True)

    def _files(self, name: str, entries: dict[str, Entry], rules: Rules) -> Files:
        """Those of all hosts, joined anew when a host's have changed."""
        sign = repr([_versions(entries), rules.hosts])
        if self._joined.get(name, ("",))[0] != sign:
            self._joined.pop(name, None)  # first: it makes room for the new one
            self._joined[name] = sign, judge.join(self._crew.tables, entries, rules.hosts)
        return self._joined[name][1]

    def _facts(
        self, there: Snapshot, entries: dict[str, Entry], beside: Mapping[str, Beside], rules: Rules, around: Scene
    ) -> Facts | None:
        """What a checkpoint is and must hold; None: not known yet, it is being asked."""
        sign = repr([_versions(entries), beside, around.writer])
        if there.name in self._known and self._known[there.name][0] == sign:
            return self._known[there.name][1]
        order = [*rules.hosts, *sorted(entries)]
        hosts = tuple(host for host in order if host in self._crew.present())
        reading = Reading(self._pages, lambda path: judge.place(path, there.name, entries, beside, hosts))
        facts = judge.facts(there, self._settings.prefix, reading.look, around)
        if reading.is_waiting or facts is None:
            return None
        self._pages.forget(there.name)
        if not reading.has_failed:
            self._known[there.name] = (sign, facts)
        return facts


def _versions(entries: Mapping[str, Entry]) -> list[tuple[str, int, int]]:
    """Alike only where the files are."""
    return sorted((host, entry.version, len(entry.files)) for host, entry in entries.items())
