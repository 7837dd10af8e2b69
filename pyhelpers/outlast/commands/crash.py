"""outlast crash: what failed, whose fault it is, what to do."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from outlast.commands import _common
from outlast.crash import analyse, patterns, verdict

POLL_S = 2.0

Logs = Annotated[list[Path], typer.Argument(metavar="LOG…", help="stdout and stderr of the job: one file, or many.")]
Hosts = Annotated[Path | None, typer.Option("--hosts", metavar="FILE", help="The job's hosts, in the order of ranks.")]
PerNode = Annotated[int, typer.Option("--ranks-per-node", metavar="N", min=0, help="With --hosts: ranks a node.")]
RankMap = Annotated[
    Path | None, typer.Option("--rank-map", metavar="JSON", help='{"0": "HOST", …} instead of --hosts.')
]
IpMap = Annotated[Path | None, typer.Option("--ip-map", metavar="JSON", help='{"10.0.0.1": "HOST", …}.')]
Scheduler = Annotated[str, typer.Option(metavar="slurm|pbs", help="Who ran it.")]
ExitCode = Annotated[int | None, typer.Option("--exit-code", metavar="N", help="What the launch returned, if known.")]
Own = Annotated[Path | None, typer.Option("--patterns", metavar="TOML", help="Your own patterns, tried first.")]
Follow = Annotated[bool, typer.Option("--follow", help="Go on reading; tell the verdict whenever it changes.")]
Words = Annotated[bool, typer.Option("--words", help="For Bash: KEY VALUE, a line each (jobs ask so).")]
Explain = Annotated[bool, typer.Option("--explain", help="All evidence, and who was left alone.")]


def crash(
    logs: Logs,
    hosts: Hosts = None,
    ranks_per_node: PerNode = 0,
    rank_map: RankMap = None,
    ip_map: IpMap = None,
    scheduler: Scheduler = "",
    exit_code: ExitCode = None,
    own: Own = None,
    as_json: _common.AsJson = False,
    as_words: Words = False,
    follow: Follow = False,
    explain: Explain = False,
) -> None:
    """Say from its logs what ended a job, whose fault it is and what to do."""
    if scheduler not in ("", "slurm", "pbs", "local"):
        raise analyse.LayoutError(f"--scheduler {scheduler!r}: it is slurm or pbs")
    where = analyse.layout(hosts, ranks_per_node, rank_map, ip_map)
    book = patterns.load(own)

    def tell(found: verdict.Verdict) -> None:
        if as_json:
            typer.echo(json.dumps(found.fields()))
        else:
            typer.echo(verdict.words(found) if as_words else verdict.told(found, explain))

    if not follow:
        tell(analyse.once(logs, where, book, exit_code, scheduler))
        return
    for found in analyse.growing(logs, where, book, scheduler):
        if found:
            tell(found)
        time.sleep(POLL_S)
