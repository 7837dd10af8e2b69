"""A run without a scheduler: the verbs act on a real directory, and a fake driver notes what it is asked."""

import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast import ledger, tree
from outlast.rundir import RunDir

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's `make test &` has it ignored in all that is started
    signal.signal(signal.SIGINT, signal.default_int_handler)

FAKE = """
# Answers lie in files beside this one: state.JOB, find.NAME, submit, each with a status on the first line.
answer() {
  local file=$1 status
  printf '%s\\n' "$2" >>"$HERE/asked"
  [[ -e $HERE/$file ]] || return "$3"
  { read -r status; cat; } <"$HERE/$file"
  return "$status"
}
ol_sched_submit() { answer submit "submit $*" 2; }
ol_sched_state() { answer "state.$1" "state $1" 1; }
ol_sched_find() { answer "find.$1" "find $1" 1; }
ol_sched_cancel() { answer cancel "cancel $*" 0; }
ol_sched_end_time() { answer end_time end_time 2; }
ol_sched_excludes() { [[ -e $HERE/known ]]; }
ol_sched_known_nodes() { answer known "known $*" 2; }
ol_sched_reasons() { answer reasons reasons 2; }
ol_sched_nodes() { answer nodes nodes 2; }
"""


@dataclass
class Fake:
    """A tree with one scheduler, `fake`, whose answers the test writes."""

    root: Path
    runs: Path

    def says(self, question: str, status: int, text: str = "") -> None:
        """From now on the scheduler answers so."""
        (self.root / "lib/scheduler" / question).write_text(f"{status}\n{text}")

    @property
    def asked(self) -> list[str]:
        """What the scheduler was asked to change, in order."""
        file = self.root / "lib/scheduler/asked"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.startswith(("submit", "cancel"))]

    def run(self, name: str = "r1", *events: str) -> RunDir:
        """A run with these events: `JOB NAME KEY=VALUE…`, one second apart."""
        run = RunDir(self.runs / name)
        (run.path / "control").mkdir(parents=True)
        run.path.chmod(0o750)
        run.script.write_text("#!/bin/bash\nOUTLAST_SCHEDULER=fake\nOUTLAST_TARGET_STEP=200\n")
        run.script.chmod(0o700)
        for number, line in enumerate(events, 1):
            ledger.append(run.events, event(number, line))
        return run


def event(number: int, line: str) -> ledger.Event:
    """The event `JOB NAME KEY=VALUE…`; `-` is no job, figures become numbers."""
    job, name, *pairs = line.split(" ")
    fields = dict(pair.split("=", 1) for pair in pairs)
    values: dict[str, ledger.Value] = {
        k: int(v) if v.isdecimal() and k != "successor" else v for k, v in fields.items()
    }
    return ledger.Event(1000.0 + number, "r1", job.strip("-"), 0, 1, number, name, values)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    scheduler = tmp_path / "root/lib/scheduler"
    scheduler.mkdir(parents=True)
    (tmp_path / "root/sites").mkdir()
    for name in ("log.sh", "bounded.sh"):
        (tmp_path / "root/lib" / name).write_text("")
    (scheduler / "fake.sh").write_text(f"HERE={scheduler}\n{FAKE}")
    monkeypatch.setattr(tree, "root", lambda: tmp_path / "root")
    monkeypatch.setenv("OUTLAST_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Fake(tmp_path / "root", tmp_path / "runs")


# A user's own file of patterns.
OWN_PATTERNS = """
[[pattern]]
name = "tokenizer_server"
says = "The tokenizer service is down"
scope = "config"
persistence = "transient"
action = "retry"
blame = "none"
[[pattern.form]]
words = ["TokenizerServerError"]
regex = 'TokenizerServerError: (?P<key>\\w+)'
example = "TokenizerServerError: unreachable"
"""

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of its own, whose jobs meet no others on this machine."""
    for name in ("bin", "lib", "pyhelpers", "sites", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "Makefile").touch()
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    site = tmp_path / "sites/local/site.toml"
    site.write_text(re.sub(r"(?m)^local_dir = .*$", f'local_dir = "{tmp_path}/local"', site.read_text()))
    return tmp_path
