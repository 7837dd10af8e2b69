"""From the lines of the logs to what they say: failures, ends, exits and facts, in the order of the lines."""

import re
from dataclasses import dataclass, field

from outlast.crash import cut, exits, names, source, text
from outlast.crash.patterns import Book, Form, Pattern

MOST = 100_000  # events and exits that are kept
TEXT = 400
SHAPES = 20_000
MANY = 8  # more files than this are read together
_FACTS = (
    "Bootstrap", "OOB ", "nranks ", "Terminating", "Job step aborted", "CANCELLED AT", "syslogd@", "=== Crash ",
    "To do:", "=== end", "ttempt", "estart", "elaunch", '  File "', " ranks on ", "orld size", "WORLD_SIZE",
)  # fmt: skip
_BOOTSTRAP = re.compile(
    r"(?P<host>[\w.-]+):\d+:\d+ \[\d+\] NCCL INFO .*?(?:Bootstrap ?: ?Using |OOB )"
    r"\S+?:(?P<address>[\d.]+|[0-9a-f:]+(?:%\w+)?)<\d+>"
)
_COMM = re.compile(r"(?P<host>[\w.-]+):\d+:\d+ \[(?P<gpu>\d+)\] NCCL INFO comm 0x[0-9a-f]+ rank (?P<rank>\d+) nranks")
_SYSLOG = re.compile(r"Message from syslogd@(?P<host>[\w.-]+) at")
_TEARDOWN = re.compile(
    r"srun: (?:error: )?(?:Terminating |Job step aborted|Force Terminated)|STEP \S+ ON \S+ CANCELLED"
)
_BEFORE_TEARDOWN = re.compile(r"TASK FAILURE|FAILED \(non-zero|Terminating StepId|Terminating job step")
_RESTART = re.compile(
    r"(?i)(?:\b(?:attempt|restart|relaunch|try)\b ?#? ?(?:number )?[:=]?\s*(?:[2-9]|1\d)\b|"
    r"restarting (?:worker|process|training|from)|"
    r"[Ww]ill restart worker group|relaunching|resubmitt|=== (?:attempt|restart))"
)
# What differs between lines that say the same; short numbers stay, as they may be part of a word.
_SHAPE = re.compile(r"(?<=ank)[ :=]?\d+|\d{4,}|(?<=[.:-])\d+|0x[0-9a-f]+")
_FRAME = re.compile(r'^\s*File "(?P<path>[^"\n]{1,300})", line \d+, in (?P<where>\S+)')


@dataclass(slots=True)
class Event:
    """A line that a form of a pattern took."""

    pattern: Pattern
    form: Form
    file: int
    line: int
    offset: int
    text: str
    time: float | None = None
    rank: int | None = None
    task: int | None = None
    host: str = ""  # as the line says it
    weak: str = ""
    hosts: list[str] = field(default_factory=list)  # that the line names as the ones that failed
    peer: str = ""
    key: str = ""
    groups: dict[str, str] = field(default_factory=dict)
    frame: str = ""
    count: int = 1

    @property
    def name(self) -> str:
        return self.form.name

    @property
    def tier(self) -> int:
        return self.form.tier


@dataclass
class Seen:
    """What the logs have said so far."""

    layout: names.Layout
    logs: list[source.Log] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ends: list[exits.Exit] = field(default_factory=list)
    teardown: list[tuple[int, int]] = field(default_factory=list)  # file and line, where a launcher ends the others
    restarts: dict[int, list[int]] = field(default_factory=dict)  # lines of each file, in order


class Scanner:
    """Reads lines that have one of the words, and keeps what they say."""

    def __init__(self, book: Book, layout: names.Layout) -> None:
        self.book = book
        self.seen = Seen(layout)
        self.words = sorted({*book.words(), *exits.WORDS, *_FACTS})
        self._needle = cut.needle_of(self.words)
        self._quiet = re.compile("|".join(f"(?:{noise.regex.pattern})" for noise in book.noise) or r"(?!)")
        self._forms: dict[str, list[tuple[Pattern, Form]]] = {}
        self._first: dict[tuple[str, int, object, str], Event] = {}
        self._files: list[_File] = []

    def add(self, log: source.Log) -> None:
        """Take one more file."""
        self.seen.logs.append(log)
        self._files.append(_File(len(self._files)))

    def read(self, growing: bool = False) -> int:
        """Read what is new in all files; how many lines of it had one of the words."""
        count = 0
        if len(self.seen.logs) > MANY and not growing and source.has_grep():
            for number, found in source.together(self.seen.logs, self.words):
                count += 1
                self._line(self._files[number], found)
            return count
        for number, log in enumerate(self.seen.logs):
            if growing and source.begins_anew(log):
                self._forget(number)
                count += 1
            for found in source.lines(log, self.words, growing):
                count += 1
                self._line(self._files[number], found)
        return count

    def _forget(self, number: int) -> None:
        """The file is another one now: what the old one said is over."""
        seen = self.seen
        seen.events = [event for event in seen.events if event.file != number]
        seen.ends = [ended for ended in seen.ends if ended.file != number]
        seen.teardown = [place for place in seen.teardown if place[0] != number]
        seen.restarts.pop(number, None)
        self._first = {key: event for key, event in self._first.items() if event.file != number}
        self._files[number] = _File(number)

    def _line(self, file: "_File", found: cut.Found) -> None:
        before = None
        short = cut.shorten(found, self._needle)
        for index, part in text.placed(short.raw):
            line = text.read(part, before)
            before = before or line
            if not file.is_report(line):
                self._say(file, line, cut.Found(found.line, short.place(index), b""))

    def _say(self, file: "_File", line: text.Line, found: cut.Found) -> None:
        file.time = line.time or file.time
        self._facts(file, line, found)
        ended = file.exits.read(line, found.line)
        if ended:
            ended.offset = found.offset
            self._note_exit(ended)
        if frame := _FRAME.match(line.text):
            file.frames[_who(line)] = f"{frame['path'].rsplit('/', 1)[-1]}:{frame['where']}"
            if len(file.frames) > MOST:
                file.frames.clear()
        elif match := self._match(line):
            self._note(file, line, found, *match)

    def _facts(self, file: "_File", line: text.Line, found: cut.Found) -> None:
        layout = self.seen.layout
        if line.host:
            layout.learn(line.host, line.rank)
        if "NCCL INFO" in line.whole:
            if match := _BOOTSTRAP.search(line.whole):
                layout.learn(match["host"], address=match["address"])
            elif match := _COMM.search(line.whole):
                layout.learn(match["host"], int(match["rank"]))
        elif "syslogd@" in line.whole and (match := _SYSLOG.search(line.whole)):
            file.syslog_host = match["host"]
            layout.learn(match["host"])
        elif _TEARDOWN.search(line.whole):
            self.seen.teardown.append((file.number, found.line))
        elif _RESTART.search(line.whole):
            self.seen.restarts.setdefault(file.number, []).append(found.line)

    def _note_exit(self, ended: exits.Exit) -> None:
        layout = self.seen.layout
        for host in ended.hosts:
            layout.learn(host, ended.rank if len(ended.hosts) == 1 else None)
        if len(ended.hosts) == 1:
            for task in ended.tasks:
                layout.learned_tasks.setdefault(task, ended.hosts[0])
        if len(self.seen.ends) < MOST:
            self.seen.ends.append(ended)

    def _match(self, line: text.Line) -> tuple[Pattern, Form, re.Match[str]] | None:
        """The first form that takes the line, unless it is noise."""
        forms = self._forms_of(line.whole) if len(line.whole) > TEXT else self._forms_like(line.whole)
        quiet: bool | None = None
        for pattern, form in forms:
            match = form.regex.search(line.text) or (form.regex.search(line.whole) if line.whole != line.text else None)
            if not match:
                continue
            if "noisy" not in form.flags:
                quiet = bool(self._quiet.search(line.whole)) if quiet is None else quiet
                if quiet:
                    continue
            return pattern, form, match
        return None

    def _forms_like(self, whole: str) -> list[tuple[Pattern, Form]]:
        """The forms of a line, looked up by its shape: thousands of ranks say the same."""
        shape = _SHAPE.sub("#", whole)
        forms = self._forms.get(shape)
        if forms is None:
            forms = self._forms_of(whole)
            if len(self._forms) >= SHAPES:
                self._forms.clear()
            self._forms[shape] = forms
        return forms

    def _forms_of(self, whole: str) -> list[tuple[Pattern, Form]]:
        by_word = self.book.by_word
        found = {place: (pattern, form) for word in by_word if word in whole for place, pattern, form in by_word[word]}
        return [found[place] for place in sorted(found)]

    def _note(
        self, file: "_File", line: text.Line, found: cut.Found, pattern: Pattern, form: Form, match: re.Match[str]
    ) -> None:
        groups = {key: value for key, value in match.groupdict().items() if value}
        event = Event(pattern, form, file.number, found.line, found.offset, line.whole[:TEXT])
        event.time, event.rank, event.task, event.host, event.weak = (
            line.time,
            line.rank,
            line.task,
            line.host,
            line.weak,
        )
        event.groups = groups
        if len(line.whole) > TEXT:  # the deciding words may stand at the end of a long line
            start = max(line.whole.find(match[0][:80]) - 80, 0)
            event.text = (
                line.whole[:120] + " … " + line.whole[start : start + TEXT - 120] if start > 120 else event.text
            )
        if "nameless" not in form.flags:
            if "hosts" in groups:
                event.hosts = names.hosts(groups["hosts"])
            elif host := groups.get("host") or groups.get("host2"):
                event.hosts = [host]
            event.peer = next((groups[key] for key in ("peer", "peer2", "peer3") if key in groups), "")
        for key in ("rank", "rank2"):
            if key in groups:
                event.rank = int(groups[key])
        event.key = (groups.get("key") or groups.get("key2") or "").strip()
        if not event.host and file.syslog_host and "kernel" in line.whole[:20]:
            event.host = file.syslog_host
        event.frame = file.frames.get(_who(line), "") if pattern.name == "python_exception" else ""
        self._keep(event)

    def _keep(self, event: Event) -> None:
        """Keep the first of those that say the same of the same rank, and again where much log lies between."""
        key = (event.name, event.file, _of(event), event.peer or ",".join(event.hosts))
        first = self._first.get(key)
        if first and event.form is first.form and "enqueued" not in event.groups and event.name != "clean_exit":
            first.count += 1
            if event.offset - first.offset < source.WINDOW:
                return
        if len(self.seen.events) < MOST:
            self._first[key] = event
            self.seen.events.append(event)


class _File:
    """What must be remembered from line to line of one file."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.exits = exits.Reader(number)
        self.time: float | None = None
        self.frames: dict[object, str] = {}
        self.syslog_host = ""
        self._report_until = 0

    def is_report(self, line: text.Line) -> bool:
        """Is this a line of a report of our own, which quotes what was said before?"""
        if "=== Crash " in line.whole:
            self._report_until = 60
        if not self._report_until:
            return False
        self._report_until -= 1
        if "To do:" in line.whole or "=== end" in line.whole:
            self._report_until = 0
        return True


def _who(line: text.Line) -> object:
    return line.rank if line.rank is not None else (line.task, line.host, line.weak)


def _of(event: Event) -> object:
    if event.rank is not None:
        return event.rank
    return event.task if event.task is not None else event.host or event.weak
