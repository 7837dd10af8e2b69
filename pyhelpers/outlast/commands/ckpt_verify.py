"""outlast ckpt verify: is it still what was written?"""

import json
from typing import Annotated, Any

import typer

from outlast.checkpoint import deep as opened
from outlast.checkpoint import verify as verifying
from outlast.checkpoint.shelf import Entry
from outlast.commands import _ckpt, _common

Deep = Annotated[bool, typer.Option("--deep", help="Open the files too: shapes, dtypes, NaN and infinite values.")]
All = Annotated[int | None, typer.Argument(metavar="[STEP]", min=0, help="The step; without it, all of them.")]


def verify(where: _ckpt.Where, step: All = None, deep: Deep = False, as_json: _common.AsJson = False) -> None:
    """Compare checkpoints with their manifests: sizes and hashes."""
    place = _ckpt.place(where)
    _ckpt.pick(place, step)  # refuses where there is none
    # What a trainer writes at this moment was promised to nobody; it counts where it was asked for by its step.
    there = [entry for entry in place.entries() if step in (None, entry.step)]
    counted = [entry for entry in there if entry.state != "writing" or step is not None] or there
    told = {entry.name: checked(entry, deep) for entry in there}
    if as_json:
        typer.echo(json.dumps(list(told.values())))
    else:
        for one in told.values():
            typer.echo(f"{one['name']}  {one['answer']}")
            for line in [*one["problems"], *one.get("bad", [])]:
                typer.echo("  " + "".join(char if char.isprintable() else " " for char in line))
    if any(told[entry.name]["state"] != "whole" for entry in counted):
        raise typer.Exit(1)


def checked(entry: Entry, deep: bool) -> dict[str, Any]:
    """What was found. `state` is whole, damaged, or unknown (it has no manifest)."""
    told: dict[str, Any] = {"name": entry.name, "step": entry.step, "problems": []}
    if entry.manifest is None:
        damaged = entry.state == "damaged"
        told |= {"state": "damaged" if damaged else "unknown", "depth": "none", "problems": [entry.reason] * damaged}
        answer = "damaged" if damaged else f"unknown: it has no manifest ({entry.state}: {entry.reason})"
    else:
        report = verifying.verify(entry.path, entry.manifest)
        told["problems"] = [*verifying.step(entry.manifest, entry.step), *report.problems]
        told |= {"state": "damaged" if told["problems"] else "whole", "depth": report.depth}
        size = f"{report.files} files, {_ckpt.size(report.bytes)}"
        answer = "damaged" if told["problems"] else f"whole: {report.depth} of {size} are as its manifest says"
    if deep:
        answer += _deep(entry, told)
        if told["state"] == "damaged" and not answer.startswith("damaged"):
            answer = f"damaged: {answer.partition(': ')[2]}"
    return {**told, "answer": answer}


def _deep(entry: Entry, told: dict[str, Any]) -> str:
    look = opened.look(entry.path)
    told["problems"] += look.problems
    told |= {"bad": look.bad, "tensors": look.tensors, "values": look.numbers, "dtypes": dict(look.dtypes)}
    told["shapes"] = [dict(zip(("file", "name", "dtype", "shape"), one, strict=True)) for one in look.shapes]
    told |= {"uncounted": look.uncounted, "skipped": look.skipped}
    if look.problems:
        told["state"] = "damaged"
    kinds = ", ".join(f"{count} {dtype}" for dtype, count in look.dtypes.most_common(3))
    text = f"; opened {look.opened} files: {look.tensors} tensors with {look.numbers} values ({kinds or 'none'})"
    text += f", {len(look.bad)} with NaN or infinite values" if look.bad else ""
    text += f", the values of {look.uncounted} could not be looked at" if look.uncounted else ""
    return text + (f"; {len(look.problems)} cannot be opened" if look.problems else "")
