"""How ranks ended, as launchers say it: the last word where nobody else left one."""

import re
from dataclasses import dataclass

from outlast.crash import names
from outlast.crash.text import Line

WORDS = (
    "srun: error:", "xited with", "died from signal", "exited on", "EXIT CODE", "EXIT STRING", "RUNNING AT",
    "KILLED BY SIGNAL", "exitcode", "ended with", "return code", "Killed", "Terminated", "host      :", "rank      :",
    "time      :", "local_rank", "signal ", " code ",
)  # fmt: skip
SIGNALS = {
    1: "hangup", 2: "interrupt", 3: "quit", 4: "illegal", 6: "abort", 7: "bus", 8: "fpe", 9: "kill", 11: "segv",
    15: "term",
}  # fmt: skip
_NAMES = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "SEGV": 11, "TERM": 15,
}  # fmt: skip
_STATES = (
    ("Out Of Memory", "oom"), ("Killed", "kill"), ("Terminated", "term"), ("Segmentation fault", "segv"),
    ("Bus error", "bus"), ("Aborted", "abort"), ("Illegal instruction", "illegal"), ("Floating point", "fpe"),
    ("Hangup", "hangup"), ("Interrupt", "interrupt"),
)  # fmt: skip
OURS = "outlast: rank "  # how lib/shim.sh begins to say it
_HOST = r"[A-Za-z0-9][\w.-]*"
_SRUN = re.compile(r"srun: error: (?P<hosts>[\w.,\[\]-]+): tasks? (?P<tasks>[\d,-]+): (?P<how>.+)")
_PALS = re.compile(
    rf"(?:^|\s)(?P<host>{_HOST}): rank (?P<rank>\d+) (?:exited with code (?P<code>-?\d+)"
    r"|died from signal (?P<signal>\d+))"
)
_OUTLAST = re.compile(
    rf"outlast: rank (?P<rank>\d+) on (?P<host>{_HOST}) ended with (?:code (?P<code>\d+)"
    r"|signal (?P<name>[A-Z]+))(?: at (?P<at>\d+))?"
)
_MPIRUN = re.compile(
    rf"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>{_HOST}) exited on(?: signal (?P<signal>\d+))?"
)
_ON_SIGNAL = re.compile(r"^signal (?P<signal>\d+) \(")
_HYDRA_AT = re.compile(rf"=\s+(?:RANK (?P<rank>\d+) )?PID \d+ RUNNING AT (?P<host>{_HOST})")
_HYDRA_HOW = re.compile(
    r"=\s+(?:EXIT CODE: (?P<code>\d+)|KILLED BY SIGNAL: (?P<signal>\d+))|EXIT STRING: .*\(signal (?P<signal2>\d+)\)"
)
_TORCHRUN = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: \d+\)")
_TABLE = re.compile(r"^\s+(?P<key>time|host|rank|exitcode)\s+: (?P<value>\S+)")
_PLAIN = re.compile(rf"^rank (?P<rank>\d+) host (?P<host>{_HOST}) code (?P<code>-?\d+)")
_SHELL = re.compile(r"^(?P<how>Killed|Terminated|Aborted|Bus error|Segmentation fault)(?: \(core dumped\))?$")
_DEEPSPEED = re.compile(r"exits with return code = (?P<code>-?\d+)")


@dataclass(slots=True)
class Exit:
    """The end of some ranks. `how` is a word of SIGNALS, `oom`, or `code` with the code in `code`."""

    how: str
    code: int
    hosts: list[str]
    tasks: list[int]
    rank: int | None
    time: float | None
    file: int
    line: int
    text: str
    task: int | None = None
    offset: int = 0


def how(code: int | None, signal: int | None) -> tuple[str, int]:
    """An exit code or signal as a word; shells and torchrun write signals as 128+N and -N."""
    if signal:
        return SIGNALS.get(signal, "code"), 128 + signal
    code = code or 0
    number = -code if code < 0 else code - 128
    return (SIGNALS[number], 128 + number) if number in SIGNALS else ("code", code)


class Reader:
    """Reads the exits of one file line by line: some launchers take several lines for one."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._table: dict[str, str] = {}
        self._open: Exit | None = None

    def read(self, line: Line, number: int) -> Exit | None:
        """The exit that this line tells, or completes."""
        if "srun: error:" in line.whole and (match := _SRUN.search(line.whole)):
            return self._srun(match, line, number)
        for form in (_OUTLAST, _MPIRUN, _PLAIN):
            if match := form.search(line.text) or form.search(line.whole):
                return self._named(match, line, number)
        if match := _PALS.search(line.whole):
            return self._named(match, line, number)
        return self._table_row(line, number) or self._of_several(line, number) or self._bare(line, number)

    def _new(self, word: str, code: int, line: Line, number: int, host: str = "", rank: int | None = None) -> Exit:
        hosts = [host] if host else []
        return Exit(word, code, hosts, [], rank, line.time, self._file, number, line.whole[:400], line.task)

    def _srun(self, match: re.Match[str], line: Line, number: int) -> Exit:
        word, code = "code", 1
        for start, state in _STATES:
            if match["how"].startswith(start):
                word = state
        if coded := re.search(r"exit code (\d+)", match["how"]):
            word, code = how(int(coded[1]), None)
        found = self._new(word, code, line, number)
        found.hosts = names.hosts(match["hosts"])
        found.tasks = [int(task) for task in names.numbers(match["tasks"])]
        return found

    def _named(self, match: re.Match[str], line: Line, number: int) -> Exit:
        found = match.groupdict()
        signal = int(found["signal"]) if found.get("signal") else _NAMES.get(found.get("name") or "")
        word, code = how(int(found["code"]) if found.get("code") else None, signal)
        made = self._new(word, code, line, number, names.short(match["host"]), int(match["rank"]))
        made.time = float(found["at"]) if found.get("at") else made.time
        if "exited on" in match[0] and not found.get("signal"):
            self._open = made
        return made

    def _table_row(self, line: Line, number: int) -> Exit | None:
        """A row of torchrun's table: the last one of an entry makes the exit."""
        match = _TABLE.match(line.text)
        if not match:
            return None
        if match["key"] == "time":
            self._table = {}
        self._table[match["key"]] = match["value"]
        if match["key"] != "exitcode" or not match["value"].removeprefix("-").isdecimal():
            return None
        word, code = how(int(match["value"]), None)
        rank = self._table.get("rank", "")
        made = self._new(
            word, code, line, number, names.short(self._table.get("host", "")), int(rank) if rank.isdecimal() else None
        )
        made.time = _table_time(self._table.get("time", "")) or made.time
        return made

    def _of_several(self, line: Line, number: int) -> Exit | None:
        """Lines of Hydra's banner and the second line of prterun's sentence."""
        if match := _HYDRA_AT.search(line.whole):
            self._open = self._new("code", 1, line, number, names.short(match["host"]))
            self._open.rank = int(match["rank"]) if match["rank"] else None
            return self._open
        match = _HYDRA_HOW.search(line.whole) or (_ON_SIGNAL.match(line.text) if self._open else None)
        if not match or not self._open:
            return None
        found = match.groupdict()
        signal = found.get("signal") or found.get("signal2")
        code = int(found["code"]) if found.get("code") else None
        # Hydra writes a signal as its exit code, as well.
        if code in SIGNALS and code != 1 and code != 2:
            code, signal = None, str(code)
        self._open.how, self._open.code = how(code, int(signal) if signal else None)
        return None

    def _bare(self, line: Line, number: int) -> Exit | None:
        """What a shell says of its child, under a label that says which."""
        match = _SHELL.match(line.text)
        if match and (line.task is not None or line.rank is not None):
            word = next(state for start, state in _STATES if match["how"].startswith(start))
            return self._new(word, 1, line, number, line.host, line.rank)
        if match := _TORCHRUN.search(line.whole) or _DEEPSPEED.search(line.whole):
            word, code = how(int(match["code"]), None)
            return self._new(word, code, line, number, line.host or line.weak, line.rank)
        return None


def _table_time(value: str) -> float | None:
    from outlast.crash import text

    return text.time_of(value)


def originals(bad: list[Exit], teardown: list[tuple[int, int]]) -> list[Exit]:
    """Of bad exits those that were no answer to another one: before the launcher ended the rest, and bad in themselves.

    `teardown`: file and line of where a launcher says that it does so.

    *Killed* beats *Terminated*: a launcher that ends the others first sends TERM.
    """
    outlast = [ended for ended in bad if "outlast: rank" in ended.text]
    if outlast:
        outlast = sorted(outlast, key=lambda ended: (ended.how == "term", ended.time or 0.0))
        return outlast[:1]
    timed = [ended for ended in bad if ended.time is not None and ended.how != "term" and ended.rank is not None]
    if len(timed) > 1 and len(timed) == len(
        [ended for ended in bad if ended.rank is not None and ended.time is not None]
    ):
        return sorted(timed, key=lambda ended: ended.time or 0.0)[:1]
    oom = [ended for ended in bad if ended.how == "oom"]
    if oom:
        return oom
    cuts = {file: min(line for place, line in teardown if place == file) for file in {place for place, _ in teardown}}
    before = [ended for ended in bad if ended.how != "term" and ended.line < cuts.get(ended.file, 1 << 60)]
    rest = before or [ended for ended in bad if ended.how != "term"]
    hard = [ended for ended in rest if ended.how in ("segv", "bus", "illegal", "fpe")]
    return hard or rest
