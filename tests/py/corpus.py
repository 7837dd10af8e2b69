"""The labelled logs of tests/crash-corpus, and how a verdict is held against a label."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.crash import analyse, names, patterns
from outlast.crash.verdict import Verdict

ROOT = Path(__file__).parents[1] / "crash-corpus"
BOOK = patterns.load()


@dataclass(frozen=True)
class Case:
    """A log and its label."""

    log: Path
    label: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.log.parent.name}-{self.log.stem}"

    def verdict(self, log: Path | None = None, with_map: bool = True) -> Verdict:
        """What outlast says of the log, or of a changed copy of it; without the map as one who knows no layout."""
        ranks = {int(rank): host for rank, host in self.label.get("rank_to_host", {}).items()}
        layout = names.Layout(ranks=ranks if with_map else {}, addresses=self.label.get("ip_to_host", {}))
        code = self.label["exit_code"]
        return analyse.once([log or self.log], layout, BOOK, code, self.label["scheduler"])

    def is_right(self, field: str, value: object) -> bool:
        """Is this the label's value, or one that it accepts?"""
        label = self.label
        if value == label[field] or value in label.get("accept", {}).get(field, []):
            return True
        if field == "persistence":
            return label["action"] in ("done", "none")
        return field.startswith("blame_") and not label["blame_certain"] and value == []

    def wrong_names(self, found: Verdict) -> set[str]:
        """Nodes that are blamed and may not be."""
        accepted = [self.label["blame_nodes"], *self.label.get("accept", {}).get("blame_nodes", [])]
        return set(found.blame_nodes) - {host for hosts in accepted for host in hosts}


def cases() -> list[Case]:
    """All of them."""
    return [Case(log, json.loads(log.with_suffix(".json").read_text())) for log in sorted(ROOT.glob("*/*.log"))]
