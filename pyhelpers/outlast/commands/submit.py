"""outlast submit: render a job, make its run directory, submit it."""

import argparse
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from outlast import config, driver, rundir, tree
from outlast.commands import _common, render


def submit(
    site: Annotated[str, typer.Argument(metavar="SITE", help="A site; render --list has them.")],
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job of the site, or the path of a job file.")],
    nodes: Annotated[str | None, typer.Option(metavar="N", help="Nodes that train; spares come on top.")] = None,
    walltime: Annotated[str | None, typer.Option(metavar="TIME", help="2:00:00, 90m, 12h.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="Who pays.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="A queue of the site.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key of a job file.")] = None,
    dry_run: _common.DryRun = False,
    as_json: _common.AsJson = False,
) -> None:
    """Render a job, make its run directory and submit it."""
    typed = argparse.Namespace(nodes=nodes, walltime=walltime, account=account, queue=queue, set=set_ or [])
    root = tree.root()
    plan = config.plan(root, site, job, render.user_file(), render.typed(typed))
    script = render.script(plan, root)
    path = Path(rundir.filled(plan.job.runs_dir, plan.job.account, os.environ)) / plan.job.run
    project = Path(plan.job.project_dir or ".").expanduser().resolve()
    by = driver.named(plan.site.scheduler, root)
    if dry_run:
        typer.echo(f"would make {path}, and submit its job.sh to {by.name} from {project}")
        return
    run = rundir.create(path, script, project)
    _tell(run, _submitted(run, by, str(project)), as_json)


def _submitted(run: rundir.RunDir, by: driver.Driver, project: str) -> str:
    try:
        return _common.submit(run, by, project)
    except driver.SchedulerRefused:
        rundir.remove(run)
        raise
    except driver.NoAnswer as err:
        raise driver.NoAnswer(
            f"{err}; it may be submitted or not: in a minute, type outlast resume {run.path}"
        ) from err


def _tell(run: rundir.RunDir, job: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"run": run.name, "job": job, "dir": str(run.path)}))
    else:
        typer.echo(f"job {job} submitted: run {run.name} in {run.path}; type outlast status {run.path}")
