"""outlast ckpt show: one checkpoint."""

import json
import time
from typing import Any

import typer

from outlast.checkpoint.shelf import Entry, look_into
from outlast.commands import _ckpt, _common
from outlast.commands.ckpt_list import as_record


def show(where: _ckpt.Where, step: _ckpt.MaybeStep = None, as_json: _common.AsJson = False) -> None:
    """Tell all that is known about one checkpoint."""
    entry = _ckpt.pick(_ckpt.place(where), step)
    told = facts(entry)
    if as_json:
        typer.echo(json.dumps({**as_record(entry), **told}))
        return
    head = {"path": entry.path, "step": entry.step, "state": f"{entry.state}: {entry.reason}"}
    for key, value in {**head, **told}.items():
        if value not in ("", None, (), [], {}):
            typer.echo(f"{key:<10} {_shown(value)}")


def facts(entry: Entry) -> dict[str, Any]:
    """What its files and its manifest tell."""
    look, found = look_into(entry.path.parent), entry.found
    resume, reshard = found.format.resume(found.snapshot), found.format.reshard(found.snapshot, look)
    told: dict[str, Any] = {
        "format": found.format.NAME,
        "size": f"{_ckpt.size(entry.bytes)} in {len(found.snapshot.paths())} files",
        "loss": entry.loss,
        "ranks": found.format.world(found.snapshot, look),
        "resume": f"{resume.how}: {resume.what}",
        "reshard": f"{reshard.can}: {reshard.why}",
        "pinned": entry.pinned,
        "flagged": entry.flagged,
    }
    if entry.manifest is None:
        return told
    known = entry.manifest
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(known.written)) if known.written else ""
    changed = {True: ", with changes that no commit has", False: "", None: ""}[known.dirty]
    more = {
        "written": made + (f" by job {known.job}, attempt {known.attempt}" if known.job else ""),
        "run": known.run,
        "hashes": known.algorithm or "none: only sizes can be verified",
        "hosts": ", ".join(known.hosts),
        "versions": ", ".join(f"{name} {version}" for name, version in known.versions.items()),
        "trainer": known.commit + changed if known.commit else "",
        "parent": known.parent,
    }
    return {**told, **more, "ranks": known.world_size or told["ranks"]}


def _shown(value: object) -> str:
    return "".join(char if char.isprintable() else " " for char in str(value))
