"""Dependencies between jobs (facts §7)."""

from __future__ import annotations

import re
import time

from standin import mail
from standin.book import FINISHED, HELD_BY_DEPENDENCY, QUEUED, WAITING, Job, full_id
from standin.pbs import Pbs

BEFORE = {"after": "before", "afterany": "beforeany", "afterok": "beforeok", "afternotok": "beforenotok"}


def parse(text: str) -> list[tuple[str, str]]:
    """Type and parent's id of each of `afterany:1:2,afterok:3`."""
    found = []
    for part in text.split(","):
        kind, *ids = part.split(":")
        found += [(kind, full_id(word.partition("@")[0])) for word in ids]
    return found


def text(found: list[tuple[str, str]]) -> str:
    """As qstat shows it: each id with its server."""
    return ",".join(f"{kind}:{job_id}@{job_id.partition('.')[2]}" for kind, job_id in found)


def hold(pbs: Pbs, job: Job) -> None:
    """A job with a new `depend`: held, released or dropped, as its parents are now."""
    whole = parse(job.get("depend"))
    waits = [(kind, parent) for kind, parent in whole if kind in BEFORE]
    job.set(depend=text(waits), Hold_Types=holds(job, also="s"))
    job.move("H", HELD_BY_DEPENDENCY)
    for kind, parent_id in whole:
        parent = pbs.book.jobs.get(parent_id)
        if parent is None:
            drop(job, f"Reject reply code=15001 for dependency on job {parent_id}, Unknown Job Id")
            return
        if kind not in BEFORE:
            continue
        if parent.state == "F":
            # In the history: one that has never run counts as ended, and rescues a child (facts §7, A stuck H).
            _settle(job, kind, parent)
        else:
            _note(parent, BEFORE[kind], job.id)


def holds(job: Job, also: str = "", no_more: str = "") -> str:
    """Hold_Types with a letter more or less: `s` of a dependency and `u` of the user stand beside each other."""
    letters = set(job.get("Hold_Types", "n")) | set(also)
    return "".join(letter for letter in "su" if letter in letters - set(no_more)) or "n"


def _note(parent: Job, kind: str, child: str) -> None:
    known = parse(parent.get("depend")) if parent.get("depend") else []
    parent.set(depend=text([*known, (kind, child)]))


def _settle(child: Job, kind: str, parent: Job) -> None:
    good = parent.get("Exit_status", 0) == 0 and parent.substate == FINISHED
    if kind in ("after", "afterany") or (kind == "afterok") == good:
        release(child, parent.id)
    else:
        drop(child, f"Job deleted as result of dependency on job {parent.id}")


def release(child: Job, parent: str) -> None:
    """One parent less; the last one lets it go."""
    left = [found for found in parse(child.get("depend")) if found[1] != parent]
    if left:
        child.set(depend=text(left))
        return
    child.set(depend=None, Hold_Types=holds(child, no_more="s"))
    # One that is held beside it stays in substate 22.
    if child.substate != HELD_BY_DEPENDENCY or child.get("Hold_Types") != "n":
        return
    if child.get("Execution_Time", 0) > time.time():
        child.move("W", WAITING)
    else:
        child.move("Q", QUEUED)


def drop(job: Job, why: str) -> None:
    """It can never be met: F/92, no Exit_status, no comment (facts §2)."""
    job.set(depend=None, Hold_Types="n", comment=None)
    job.move("F", FINISHED)
    mail.send(job, "a", f"Aborted by PBS Server \n{why}")


def _children(pbs: Pbs, parent: Job) -> list[tuple[str, Job]]:
    found = []
    for child in pbs.book.jobs.values():
        if child.state == "H" and child.get("depend"):
            found += [(kind, child) for kind, parent_id in parse(child.get("depend")) if parent_id == parent.id]
    return found


def on_start(pbs: Pbs, parent: Job) -> None:
    """`after` waits for the parent's start only."""
    for kind, child in _children(pbs, parent):
        if kind == "after":
            release(child, parent.id)


def on_end(pbs: Pbs, parent: Job) -> None:
    """For a parent that ran. One deleted before it ran leaves its children held for ever (facts §1, 12)."""
    for kind, child in _children(pbs, parent):
        if kind != "after":
            _settle(child, kind, parent)


def clean(text_of: str) -> str:
    """What `qalter -W depend=` may hold; empty: it may not."""
    return text_of if re.fullmatch(r"[a-z]+(:[^,:]+)+(,[a-z]+(:[^,:]+)+)*", text_of) else ""
