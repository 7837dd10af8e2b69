"""outlast pins: is what a run trains with still what its first launch found? Jobs ask it before each launch."""

import time
from pathlib import Path
from typing import Annotated

import typer

from outlast import pins as pinning
from outlast import rundir
from outlast.checkpoint.hashing import HashError
from outlast.commands import _common
from outlast.pins import Pins

LIMIT_S = 3600.0  # for a person, who can interrupt it

Job = Annotated[str, typer.Option(help="Write pins.toml where there is none, for this job (jobs do).")]
Files = Annotated[list[str], typer.Option("--file", help="With --job: a file or a folder that is pinned.")]
Commands = Annotated[list[str], typer.Option("--command", help="With --job: a command whose output is pinned.")]
Outputs = Annotated[Path, typer.Option(help="With --job: a folder with these outputs, 0, 1, …")]
Git = Annotated[bool, typer.Option("--git", help="With --job: the trainer's commit is pinned.")]
Limit = Annotated[float, typer.Option("--limit-s", help="With --job: take at most so long.")]


def pins(
    run: _common.RunArgument,
    job: Job = "",
    file: Files = [],  # noqa: B006 # typer's way of a list
    command: Commands = [],  # noqa: B006
    outputs: Outputs = Path(),
    git: Git = False,
    limit_s: Limit = LIMIT_S,
) -> None:
    """Say whether what a run trains with is still what its first launch found."""
    found = _common.find_run(run)
    try:
        known = pinning.read(found.pins)
        if not job:
            _tell(found, known)
            return
        said = {text: _said(outputs / str(number)) for number, text in enumerate(command)}
        now = pinning.look(file, _project(found), known, limit_s, git, said)
    except (pinning.PinsError, HashError) as err:
        raise rundir.RunDirError(str(err)) from err
    _compare(found, known, now, job)


def _project(run: rundir.RunDir) -> Path:
    return Path(_common.project_of(run) or ".")


def _said(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "backslashreplace")


def _tell(run: rundir.RunDir, known: Pins | None) -> None:
    """To a person. What commands say depends on the job's environment, so only jobs compare that."""
    if known is None:
        typer.echo(f"{run.name} has no pins.toml: nothing is pinned, or it has not been launched")
        return
    now = pinning.look(known.files, _project(run), known, LIMIT_S, bool(known.commit), {})
    count, size = known.count()
    lines = pinning.differences(known, now)
    if not lines:
        typer.echo(f"same: {count} files, {size} bytes" + (f", commit {known.commit[:12]}" if known.commit else ""))
    for line in lines:
        typer.echo(_shown(line))


def _compare(run: rundir.RunDir, known: Pins | None, now: Pins, job: str) -> None:
    """To a job: the first line is `written`, `same` or `differs`, what differs follows."""
    lines = [f"{name} is missing" for name in pinning.missing(now)]
    if known:
        lines = sorted({*lines, *pinning.differences(known, now)})
    if lines:
        typer.echo("\n".join(["differs", *map(_shown, lines)]))
        return
    if now != known:
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        try:
            rundir.write(run.pins, pinning.render(now, when, job), 0o640)
        except OSError as err:
            raise rundir.RunDirError(f"{run.pins}: {err.strerror}") from err
    typer.echo("same" if known else "written")


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
