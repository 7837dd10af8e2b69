"""outlast submit: render a job, make its run directory, submit it."""

import argparse
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from outlast import config, driver, inline, rundir, tree
from outlast import job as jobs
from outlast import site as sites
from outlast.commands import _common, render
from outlast.refused import Refused


def submit(
    site: Annotated[str, typer.Argument(metavar="SITE", help="A site; render --list has them.")],
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job of the site, or the path of a job file.")],
    nodes: Annotated[str | None, typer.Option(metavar="N", help="Nodes that train; spares come on top.")] = None,
    walltime: Annotated[str | None, typer.Option(metavar="TIME", help="2:00:00, 90m, 12h.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="Who pays.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="A queue of the site.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key of a job file.")] = None,
    site_dir: Annotated[list[Path] | None, typer.Option(metavar="DIR", help="A folder of sites of your own.")] = None,
    dry_run: _common.DryRun = False,
    as_json: _common.AsJson = False,
) -> None:
    """Render a job, make its run directory and submit it."""
    typed = argparse.Namespace(nodes=nodes, walltime=walltime, account=account, queue=queue, set=set_ or [])
    root, outside = tree.root(), sites.outside(site_dir or [], os.environ)
    plan = config.plan(root, site, job, render.user_file(), render.typed(typed), outside)
    new = prepared(plan, root)
    render.tell(plan, "outlast")
    if jobs.end_date_has_come(end := plan.job.guard.end_date, datetime.now()):
        hint = "the first job will hold the run; type --set guard.end_date=DAY with a later one"
        typer.echo(f"outlast: guard.end_date {end} has come: {hint}", err=True)
    if dry_run and as_json:
        answer = {"run": new.path.name, "dir": str(new.path), "project": str(new.project), "by": new.by.name}
        typer.echo(json.dumps(answer))
    elif dry_run:
        typer.echo(f"would make {new.path}, and submit its job.sh to {new.by.name} from {new.project}")
    else:
        _tell(*start(new), as_json)


@dataclass(frozen=True)
class New:
    """A run that is not there yet."""

    path: Path
    script: str
    project: Path
    by: driver.Driver


def prepared(plan: config.Plan, root: Path) -> New:
    """All that the run is made from; nothing is written yet.

    Raises: Refused: the site doesn't take the job.
    """
    plan = config.placed(plan, Path.cwd())
    script = render.script(plan, root)
    path = Path(rundir.filled(plan.job.runs_dir, plan.job.account, os.environ)) / plan.job.run
    project = Path(rundir.filled(plan.job.project_dir, plan.job.account, os.environ)).resolve()
    for where in (path, project):
        if inline.CONTROL.search(str(where)):
            raise Refused(f"{str(where)!r} has a line end or a control character")
    return New(path, script, project, driver.named(plan.site.scheduler, root))


def start(new: New) -> tuple[rundir.RunDir, str]:
    """The run, made, and its first job, submitted. A refused job leaves no run behind.

    Raises: RunDirError, SchedulerRefused, NoAnswer.
    """
    run = rundir.create(new.path, new.script, new.project)
    try:
        return run, _common.submit(run, new.by, str(new.project))
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
