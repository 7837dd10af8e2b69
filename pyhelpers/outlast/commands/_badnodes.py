"""What the verbs of `outlast badnodes` share: which file, which nodes, which scheduler."""

import glob
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer

from outlast import driver, hostlist, places, tree
from outlast.badnodes import book, store
from outlast.badnodes.book import Line
from outlast.commands import _common, render
from outlast.crash import names
from outlast.refused import Refused

File = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Which file; else $OUTLAST_BAD_NODES.")]
Run = Annotated[str, typer.Option("--run", metavar="RUN", help="The file that this run's jobs read.")]
Hosts = Annotated[list[str], typer.Argument(metavar="HOST…", help="Nodes; lists such as nid[001-004,007] too.")]
Scheduler = Annotated[str, typer.Option("--scheduler", metavar="slurm|pbs", help="Whose; else the one that is here.")]


class BadNodesRefused(Refused):
    """There is no such file, or no such node."""


def file(typed: Path | None, run: str) -> Path:
    """The file that is meant.

    Raises: Refused: it is not clear which.
    """
    if typed is not None:
        return typed.expanduser().absolute()
    if run:
        return _common.find_run(run).bad_nodes
    if named := os.environ.get("OUTLAST_BAD_NODES"):
        return Path(named).expanduser().absolute()
    patterns = places.of_bad_nodes(tree.root(), os.environ, render.user_file())
    there = sorted({path for pattern in patterns for path in glob.glob(pattern)})
    # Where there is none yet, the one folder that it can be in.
    there = there or sorted({path for pattern in patterns for path in _to_be(pattern)})
    if len(there) == 1:
        return Path(there[0])
    what = f"there are {' and '.join(there[:5])}" if there else "no run has been here, so there is no bad_nodes.txt"
    raise BadNodesRefused(f"{what}; type --file FILE or --run RUN")


def _to_be(pattern: str) -> list[str]:
    folder, _, name = pattern.rpartition("/")
    return [f"{path}/{name}" for path in glob.glob(folder)]


def read(path: Path) -> list[Line]:
    """The lines of the file; what nobody can read of them is said on stderr.

    Raises: StoreError.
    """
    lines = store.read(path)
    warn(path, lines)
    return lines


def warn(path: Path, lines: list[Line]) -> None:
    """Name the lines that are left alone because they can't be read."""
    odd = book.odd(lines)
    if odd:
        more = f"; and {len(odd) - 5} more" if len(odd) > 5 else ""
        typer.echo(
            f"outlast: {path}: left alone, for they are not HOST DATE REASON: {'; '.join(odd[:5])}{more}", err=True
        )


def hosts(typed: list[str]) -> list[str]:
    """The nodes that were typed, by their own names, each once.

    Raises: Refused: one is no name of a host, or no list of them.
    """
    found: dict[str, None] = {}
    for name in [host for text in typed for host in hostlist.expand(text)]:
        if not (short := names.short(name)):
            raise BadNodesRefused(f"{name!r} is no name of a host")
        found[short] = None
    if not found:
        raise BadNodesRefused("no host is named; type outlast badnodes VERB HOST…")
    return list(found)


def scheduler(typed: str, run: str) -> driver.Driver:
    """The scheduler that is meant.

    Raises: Refused: there is none of that name, or none here.
    """
    if typed:
        return driver.named(typed, tree.root())
    if run:
        return _common.scheduler(_common.find_run(run))
    by = driver.of_this_machine(tree.root())
    if by is None:
        raise BadNodesRefused("no scheduler is here; type --scheduler slurm or --scheduler pbs")
    return by


def today() -> date:
    """The day that counts everywhere, whatever zone a node is in."""
    return datetime.now(UTC).date()


def told(hosts: list[str]) -> str:
    """Some nodes in a sentence."""
    return hostlist.compress(hosts) if len(hosts) > 3 else " ".join(hosts)
