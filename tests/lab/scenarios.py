"""docs/scenarios.md: which scenario is played on which scheduler, as pytest's collection and its marks have it."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

HEAD = """\
# Scenarios

Which of the lab's scenarios are played where. Slurm is Debian 12's (22.05) or Debian 13's (24.11); PBS is our stand-in,
which needs nothing installed, or an OpenPBS on this machine. [testing.md](testing.md) says how each is chosen, and what
CI plays. *By hand* are those that CI leaves out, on the stand-in because the same lines decide as on Slurm, on both
because it takes long or its like is played: `make test-lab ALL=1`. This page is written by `make golden` from the
scenarios themselves.
"""
COLUMNS = {"Slurm 22.05": "slurm", "Slurm 24.11": "slurm", "PBS stand-in": "pbs", "OpenPBS": "pbs"}


def scheduler_of(item: pytest.Item) -> str:
    """What a test is played on."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    return str(params.get("lab") or params.get("world") or "pbs")


def why_not(item: pytest.Item) -> str:
    """Why a scenario has no meaning on its scheduler; empty: it has one."""
    marker = item.get_closest_marker("only")
    return str(marker.args[1]) if marker and marker.args[0] != scheduler_of(item) else ""


def extra(value: object) -> Any:
    """A value of a scenario's parameter that is played by hand only."""
    return pytest.param(value, marks=pytest.mark.extra)


def is_by_hand(item: pytest.Item) -> bool:
    """Does CI leave a scenario out: on PBS, as its scheduler has no say in it, or everywhere?"""
    seldom = scheduler_of(item) == "pbs" and item.get_closest_marker("seldom") is not None
    return seldom or item.get_closest_marker("extra") is not None


def page(items: list[pytest.Item]) -> str:
    """The whole page. A scenario is a test that has a lab of its own."""
    parts = [HEAD]
    for module in sorted({item.module for item in items}, key=lambda module: str(module.__name__)):
        found: dict[str, list[pytest.Item]] = {}
        for item in items:
            if item.module is module and {"lab", "pbs_lab"} & set(item.fixturenames):
                found.setdefault(item.originalname, []).append(item)
        if found:
            head = f"| {' | '.join(['scenario', *COLUMNS, 'why not'])} |\n|{' --- |' * (len(COLUMNS) + 2)}\n"
            parts.append(f"## {module.__doc__}\n\n{head}{''.join(map(_row, found, found.values()))}")
    return "\n".join(parts)


def _row(name: str, items: list[pytest.Item]) -> str:
    why = {why_not(item): None for item in items}
    if "lab" not in items[0].fixturenames:
        why["what only PBS does"] = None
    cells = [_cell([item for item in items if scheduler_of(item) == scheduler]) for scheduler in COLUMNS.values()]
    for column, scheduler in [("PBS stand-in", "pbs"), ("Slurm 22.05", "slurm")]:
        played = [item for item in items if scheduler_of(item) == scheduler and not why_not(item)]
        if played and all(map(is_by_hand, played)):
            cells[list(COLUMNS).index(column)] += ", by hand"
    words = name.removeprefix("test_").replace("_", " ")
    return f"| {words} | {' | '.join(cells)} | {'; '.join(filter(None, why))} |\n"


def _cell(items: list[pytest.Item]) -> str:
    played = [item for item in items if not why_not(item)]
    if len(played) == len(items):
        return "yes" if items else "no"
    return ", ".join(item.callspec.id.partition("-")[2] for item in played) or "no"


class Stop:
    """Makes the page of what has been collected."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.text = page(session.config.stash[ALL])


ALL = pytest.StashKey[list[pytest.Item]]()


def collected() -> str:
    """The page, of the scenarios in this folder."""
    stop = Stop()
    with redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", str(Path(__file__).parent)], plugins=[stop])
    return stop.text
