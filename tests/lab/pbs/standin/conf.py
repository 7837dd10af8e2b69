"""This lab: its hosts, its server, and how fast time passes.

PBS takes minutes to see that a host died. `scaled` makes all of PBS's own delays shorter by one factor, so that tests
are quick; walltimes of jobs stay as they are. What a job has to end in, from TERM to KILL, has a factor of its own.

A state that passes in a second then is too short for a test that must do something in it: it can be held up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LAB = Path("/etc/lab")
HOME = Path("/var/spool/pbs")
SERVER_PORT = 15001
MOM_PORT = 15002


@dataclass(frozen=True)
class Conf:
    """`hosts`: short name and full name of each execution host; the first part of a PBS host name is its short name."""

    server: str
    scale: float
    kill_scale: float
    ncpus: int
    hosts: dict[str, str]


@cache
def load() -> Conf:
    """What `lab up` wrote."""
    return Conf(**json.loads((LAB / "pbs.json").read_text()))


def scaled(seconds: float) -> float:
    """How long that takes here."""
    return seconds * load().scale


def kill_scaled(seconds: float) -> float:
    """How long a job is given here from TERM to KILL."""
    return seconds * load().kill_scale


def is_held_up(what: str) -> bool:
    """Has a test stopped this for a while? `starts`: no job is said to run; `losses`: no host is found to be dead."""
    return (LAB / f"held-up-{what}").exists()


def short(name: str) -> str:
    """The name by which PBS knows a host."""
    return name.partition(".")[0]
