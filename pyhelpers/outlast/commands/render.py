"""outlast render: print a job script.

It parses its options with argparse, unlike the other verbs: importing typer would take as long as all the rest.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outlast import config, places, schema, tree
from outlast import site as sites
from outlast.commands import _usage
from outlast.refused import Refused


def main(argv: list[str]) -> int:
    """Exit status: 0 printed or written, 2 refused, with one line on stderr."""
    try:
        return _answer(_parser().parse_args(argv))
    except Refused as err:
        print(f"render: {err}", file=sys.stderr)
        return err.status
    except BrokenPipeError:  # `render ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = _usage.Parser("render", description="Print a job script for SITE and JOB.", allow_abbrev=False)
    parser.add_argument("site", metavar="SITE", nargs="?", help="a folder of sites/, or one of your own")
    parser.add_argument("job", metavar="JOB", nargs="?", help="a job of that site, or a path to a job file")
    parser.add_argument("--nodes", metavar="N", help="nodes that train; spares come on top")
    parser.add_argument("--walltime", metavar="TIME", help="2:00:00, 90m, 12h")
    parser.add_argument("--account", metavar="NAME", help="who pays")
    parser.add_argument("--queue", metavar="NAME", help="a queue of the site")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="any key of the job file")
    add_site_dir(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write here, whole or not at all")
    parser.add_argument("--list", action="store_true", help="list sites and their jobs")
    parser.add_argument("--json", action="store_true", help="with --list: for programs")
    parser.add_argument("--explain", action="store_true", help="tell where each value comes from")
    return parser


def add_site_dir(parser: argparse.ArgumentParser) -> None:
    """Sites from outside: the same option for each verb that renders."""
    text = "a folder of sites of your own; they come first, then those of OUTLAST_SITES"
    parser.add_argument("--site-dir", metavar="DIR", action="append", default=[], type=Path, help=text)


def _answer(options: argparse.Namespace) -> int:
    root, outside = tree.root(), sites.outside(options.site_dir, os.environ)
    if options.json and not options.list:
        raise Refused("--json goes with --list")
    if options.list:
        text = _listing(root, outside, options.site, options.json)
    elif not options.site or not options.job:
        raise Refused("it takes SITE and JOB; type render --list to see them")
    else:
        plan = config.plan(root, options.site, options.job, user_file(), typed(options), outside)
        plan = config.placed(plan, Path.cwd())
        text = _explained(plan) if options.explain else script(plan, root)
        tell(plan, "render")
    _write(text, options.output)
    return 0


def typed(options: argparse.Namespace) -> schema.Flat:
    """The keys that the command line sets; an option of its own beats --set."""
    values = config.assignments(options.set)
    for name in ("nodes", "account", "queue"):
        if getattr(options, name) is not None:
            values |= [config.assignment(f"{name}={getattr(options, name)}", f"--{name}")]
    if options.walltime is not None:
        values["walltime_s"] = config.duration_s(options.walltime)
    return values


def user_file() -> Path:
    """Where the user keeps what is personal: account, mail address."""
    return places.user_file(os.environ)


def script(plan: config.Plan, root: Path) -> str:
    """The job script, for this installation.

    Raises: Refused: as render.script.
    """
    from outlast import render, settings  # jinja2 is most of the start-up time: only a script needs it

    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return render.script(plan, root, settings.Install(python, sys.executable, str(root)))


def tell(plan: config.Plan, who: str) -> None:
    """What a person should hear of a plan, on stderr, from `who`."""
    if plan.remark:
        print(f"{who}: {plan.remark}", file=sys.stderr)


def _explained(plan: config.Plan) -> str:
    values = schema.flattened(plan.job)
    width = max(map(len, values))
    rows = [f"{key:{width}}  {_shown(value)}  <- {plan.origins.get(key, 'default')}\n" for key, value in values.items()]
    return "".join(rows)


def _shown(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _listing(root: Path, outside: Sequence[Path], only: str | None, as_json: bool) -> str:
    names = [only] if only else sites.names(root, outside)
    rows = [_row(root, name, sites.home(root, name, outside)) for name in names]
    if as_json:
        return _shown(rows) + "\n"
    return "".join(f"{row['site']}: {', '.join(row['jobs'])}{_origin(row)}\n" for row in rows)


def _row(root: Path, name: str, folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"site": name, "jobs": sites.jobs_in(folder)}
    return row if folder.parent == root / "sites" else {**row, "folder": str(folder)}


def _origin(row: dict[str, Any]) -> str:
    return f" ({row['folder']})" if "folder" in row else ""


def _write(text: str, path: Path | None) -> None:
    """Print the text, or put it whole into a file that keeps its old text if anything fails.

    Raises: Refused: the file can't be written.
    """
    if path is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.chmod(0o755 & ~_umask())
        os.replace(new, path)
    except OSError as err:
        new.unlink(missing_ok=True)
        raise Refused(f"{path}: {err.strerror}") from err


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
