"""Ask the nodes of an allocation how they are, as a job does: lib/preflight.sh, from outside a job."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from outlast import config, rundir, settings
from outlast.refused import Refused

LIMIT_S = 180  # above the 120 s that lib/preflight.sh takes at most, and what a login shell needs

LIBS = "log bounded ledger environment nodecheck nodegpu nodenet nodehost nodejudge reach preflight"
# As in a job: the settings, the site's modules, the driver. What is asked is shown, and nothing follows from it.
PROGRAM = """
for name in {libs} "scheduler/$2"; do source "$1/lib/$name.sh" || exit; done
source "$3" || exit
OUTLAST_STATE=$(mktemp -d) || exit
trap 'rm -rf "$OUTLAST_STATE"' EXIT
mapfile -t OUTLAST_HOSTS < <(ol_sched_nodes)
((${{#OUTLAST_HOSTS[@]}} > 0)) || {{
  echo "this is no allocation; for this machine alone: outlast preflight local" >&2
  exit 3
}}
hosts=$(IFS=, && printf '%s' "${{OUTLAST_HOSTS[*]}}")
OUTLAST_RUN_DIR='' OUTLAST_JOB_ID=''
ol_preflight_look "$hosts" || {{ tail -n 1 "$OUTLAST_STATE/preflight.err" >&2; exit 4; }}
cat "$OUTLAST_STATE/preflight"
[[ -z $OL_PREFLIGHT_FAILED ]] ||
  printf '%s\\tmodules\\tbad\\tone did not load\\t-\\tsite\\n' "${{OUTLAST_HOSTS[0]}}"
"""


class PreflightError(Refused):
    """Nobody could be asked."""

    status = 1


@dataclass(frozen=True)
class Answer:
    """One node's answer to one check; `ruled` is what a job would make of it (lib/nodejudge.sh)."""

    node: str
    check: str
    answer: str
    seen: str
    expected: str
    ruled: str

    @property
    def is_well(self) -> bool:
        """Would a job go on as if nothing were?"""
        return self.ruled in ("ok", "pass")


def ask(plan: config.Plan, root: Path) -> list[Answer]:
    """The answers of all nodes of this allocation, by check.

    Raises: PreflightError: this is no allocation, or its launcher brought no answer.
    """
    install = settings.Install(sys.executable, sys.executable, str(root))
    reads = _existing(Path(rundir.filled(plan.job.runs_dir, plan.job.account, os.environ)))
    program = settings.block(plan, install) + settings.functions(plan) + PROGRAM.format(libs=LIBS)
    words = [str(root), plan.site.scheduler, str(plan.folder / "env.sh")]
    try:
        done = subprocess.run(
            ["bash", "-l", "-c", program, "outlast", *words],
            env={**os.environ, "OUTLAST_PREFLIGHT_READS": str(reads)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as err:
        raise PreflightError(f"no answer within {LIMIT_S} s") from err
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"status {done.returncode}"]
        raise PreflightError(f"nobody could be asked: {said[-1].strip()}")
    return parse(done.stdout)


def _existing(path: Path) -> Path:
    """The path, or what there is of it: nothing is made for a look."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def parse(text: str) -> list[Answer]:
    """What lib/nodejudge.sh prints, a line an answer."""
    rows = (line.split("\t") for line in text.splitlines())
    return [Answer(*row) for row in rows if len(row) == 6]


def table(answers: list[Answer]) -> str:
    """The answers in columns, a line each."""
    head = ("NODE", "CHECK", "ANSWER", "SEEN", "EXPECTED")
    rows = [head, *((a.node, a.check, _word(a), a.seen, a.expected) for a in answers)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head) - 1)]
    lines = (
        "  ".join([*(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _word(answer: Answer) -> str:
    if answer.ruled == "site":
        return f"{answer.answer} (site)"
    return f"{answer.answer} ({answer.ruled})" if answer.answer == "unknown" else answer.answer
