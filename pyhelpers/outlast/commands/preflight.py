"""outlast preflight: ask the nodes of this allocation, or this machine, how they are."""

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from outlast import config, tree
from outlast import preflight as asked
from outlast import site as sites
from outlast.commands import _common, launch, render

# Below everything else, as for `launch`: an allocation of one's own needs no job.
BASIS = 'summary = "a look at the nodes"\nwalltime_s = 3600\naccount = "interactive"\ncommand = "true"\n'
MANY = 8  # from so many nodes on, answers that are as they should be are only counted


def preflight(
    site: Annotated[str, typer.Argument(metavar="[SITE]", help="Left out: the site that this host belongs to.")] = "",
    job: Annotated[str, typer.Option(metavar="JOB", help="Ask what this job would ask.")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key of a job file.")] = None,
    site_dir: Annotated[list[Path] | None, typer.Option(metavar="DIR", help="A folder of sites of your own.")] = None,
    show_all: Annotated[bool, typer.Option("--all", help=f"From {MANY} nodes on: good answers as well.")] = False,
    as_json: _common.AsJson = False,
) -> None:
    """Ask the nodes of this allocation, or this machine, how they are."""
    answers = asked.ask(_plan(site, job, set_ or [], site_dir or []), tree.root())
    nodes = {answer.node for answer in answers}
    if as_json:
        typer.echo(json.dumps([asdict(answer) for answer in answers]))
    else:
        shown = answers if show_all or len(nodes) < MANY else [a for a in answers if a.ruled != "ok"]
        typer.echo(asked.table(shown), nl=False)
        counts = ", ".join(f"{sum(a.answer == word for a in answers)} {word}" for word in ("ok", "bad", "unknown"))
        typer.echo(f"outlast: {len(nodes)} node{'s' * (len(nodes) != 1)}: {counts}", err=True)
    if not all(answer.is_well for answer in answers):
        raise typer.Exit(1)


def _plan(site: str, job: str, typed: list[str], site_dirs: list[Path]) -> config.Plan:
    root, outside = tree.root(), sites.outside(site_dirs, os.environ)
    name = site or launch.guessed(root, outside)
    values = render.typed(argparse.Namespace(set=typed, nodes=None, account=None, queue=None, walltime=None))
    if job:
        return config.plan(root, name, job, render.user_file(), values, outside)
    with tempfile.NamedTemporaryFile("w", suffix=".toml", prefix="preflight-") as basis:
        basis.write(BASIS)
        basis.flush()
        return config.plan(root, name, basis.name, render.user_file(), values, outside)
