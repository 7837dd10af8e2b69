"""How an ending is decided from its record: by the job's own Bash functions (lib/classify.sh), nothing is done."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from outlast.refused import Refused

LIMIT_S = 180
LAST = "job_left_s"  # the last line of the facts, as lib/record.sh writes them
MANY = ("not", "guard", "note")


class RecordError(Refused):
    """There is no record, or nothing comes of it."""


@dataclass(frozen=True)
class Decision:
    """What the functions say: `told` by key, `many` of those keys that may stand more than once.

    `was` is the job's own `ended` event, empty where it is not kept.
    """

    record: Path
    told: dict[str, str]
    many: dict[str, list[str]] = field(default_factory=dict)
    was: dict[str, object] = field(default_factory=dict)

    @property
    def is_the_same(self) -> bool:
        """Is it what the job had decided?"""
        return all(self.told.get(key) == self.was[key] for key in ("class", "then") if key in self.was)

    def fields(self) -> dict[str, object]:
        """As --json prints it."""
        return {"record": str(self.record), **self.told, **self.many, "was": self.was}


def find(typed: Path) -> Path:
    """The record: the folder itself, or the newest one of a run's folder.

    Raises: RecordError: there is none.
    """
    if (typed / "facts").is_file():
        return typed
    kept = [path.parent for path in typed.glob("records/*/facts")]
    if not kept:
        raise RecordError(f"{typed}: no record of an ending in it; name one of RUN/records/, or the run's folder")
    return max(kept, key=lambda path: (path / "facts").stat().st_mtime)


def decide(record: Path, root: Path, package: Path) -> Decision:
    """What follows of a record. `root` is the tree with lib/, `package` where this package lies.

    Raises: RecordError: the record is cut short, or the functions do not come to an end.
    """
    _check(record)
    program = 'set -uo pipefail; for f in "$1"/lib/*.sh; do [[ $f == */env.sh ]] || source "$f"; done; ol_classify "$2"'
    with tempfile.TemporaryDirectory(prefix="outlast-classify-") as state:
        env = {**os.environ, "OUTLAST_STATE": state, "OUTLAST_PYTHON": sys.executable, "PYTHONPATH": str(package)}
        try:
            done = subprocess.run(
                ["bash", "-c", program, "outlast", str(root), str(record.resolve())],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
                env=env,
                cwd="/",
            )
        except subprocess.TimeoutExpired as err:
            raise RecordError(f"{record}: no decision within {LIMIT_S} s") from err
    told, many = dict[str, str](), {key: list[str]() for key in MANY}
    for line in done.stdout.splitlines():
        key, _, text = line.partition(" ")
        if key in many:
            many[key].append(text)
        else:
            told[key] = text
    if "then" not in told:
        said = done.stderr.strip().splitlines()
        raise RecordError(f"{record}: no decision comes of it{f' ({said[-1]})' if said else ''}")
    return Decision(record, told, many, _ended(record))


def _check(record: Path) -> None:
    """Nothing, if the facts are whole: without them everything counts as 0, and some decision follows of that, too."""
    facts = (record / "facts").read_text(errors="replace")
    if not facts.endswith("\n") or LAST not in {line.partition("=")[0] for line in facts.splitlines()}:
        raise RecordError(
            f"{record}/facts is cut short ({len(facts)} characters, no {LAST}): nothing can be decided from it; name "
            "another record"
        )


def _ended(record: Path) -> dict[str, object]:
    try:
        was = json.loads((record / "ended.json").read_text(errors="replace"))
    except (OSError, ValueError):
        return {}
    return was if isinstance(was, dict) else {}


def text(decision: Decision) -> str:
    """The decision for a person: the row, what was not the case, the guards, what follows."""
    told, lines = decision.told, [f"=== How {decision.record.name} is decided ==="]
    for row in decision.many["not"]:
        name, _, why = row.partition(": ")
        lines.append(f"  not {name:<12} {why}")
    lines += [f"  IT IS {told.get('row', '?'):<10} {told.get('evidence', '')}", ""]
    rows = [
        ("Class", told.get("class", "")),
        ("Fingerprint", told.get("fingerprint", "")),
        ("Blame", told.get("blame", "")),
        ("Nobody named", told.get("rung", "")),
    ]
    rows += [("Asks for", told.get("asks", "")), *(("Guard", guard) for guard in decision.many["guard"])]
    rows += [("Then", told["then"] + (f": {told['why']}" if told.get("why") else ""))]
    rows += [("Note", note) for note in decision.many["note"]]
    if decision.was and not decision.is_the_same:
        rows.append(("The job", f"had decided otherwise: {decision.was.get('class')}, then {decision.was.get('then')}"))
    lines += [f"{head + ':':<14}{said}" for head, said in rows if said]
    return "\n".join(lines)
