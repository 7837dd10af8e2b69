"""outlast classify: how an ending was decided, once more and with reasons."""

import json
from pathlib import Path
from typing import Annotated

import typer

from outlast import classify as made
from outlast import tree
from outlast.commands import _common
from outlast.crash.verdict import printable
from outlast.masked import masked

Record = Annotated[
    Path, typer.Option("--job-dir", metavar="DIR", help="A record of an ending (RUN/records/…), or a run's folder.")
]


def classify(job_dir: Record, as_json: _common.AsJson = False) -> None:
    """Decide a recorded ending once more, and say why it was no other."""
    package = Path(made.__file__).parents[1]
    decision = made.decide(made.find(job_dir), tree.root(), package)
    if as_json:
        typer.echo(json.dumps(decision.fields()))
        return
    typer.echo("\n".join(printable(masked(line)) for line in made.text(decision).splitlines()))
