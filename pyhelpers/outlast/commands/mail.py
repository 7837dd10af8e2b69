"""outlast mail: send what waits in a run's outbox, or try whether mail works."""

import os
import time
from typing import Annotated

import typer

from outlast import commands, rundir, schema, toml
from outlast.commands import _common
from outlast.commands.render import user_file
from outlast.job import Mail
from outlast.notice import flush, letter, senders
from outlast.notice.message import addresses
from outlast.notice.unsent import Unsent
from outlast.refused import Refused
from outlast.rundir import RunDir

VERBS = {
    "test": "Send a message by each way that is set up, and say what happened.",
    "flush": "Send what waits in a run's outbox (jobs and other verbs do).",
}

Limit = Annotated[int, typer.Option(metavar="SEC", min=1, help="Give up after so long.")]
To = Annotated[str, typer.Option("--to", metavar="ADDRESS", help="To whom; otherwise mail.to of config.toml.")]
AnyRun = Annotated[str, typer.Argument(metavar="[RUN]", help="With the settings of this run.")]


def main(argv: list[str]) -> int:
    """Exit status of the verb `argv[0]`."""
    return commands.of_verb("mail", VERBS, argv, lambda verb: {"test": test, "flush": flushed}[verb])


def flushed(run: _common.RunArgument, limit: Limit = int(flush.LIMIT_S)) -> None:
    """Send what waits in a run's outbox (jobs and other verbs do)."""
    found = _mine(run)
    outcome = flush.flush(found, _senders(found.setting("MAIL_COMMAND")), limit)
    held = f", {outcome.held_back} held back for a later mail" if outcome.held_back else ""
    typer.echo(f"mail of {found.name}: {outcome.sent} sent{held}")
    if outcome.errors:
        typer.echo(f"outlast: mail: {'; '.join(outcome.errors)}", err=True)
        raise typer.Exit(75)


def test(run: AnyRun = "", to: To = "") -> None:
    """Send a message by each way that is set up, and say what happened."""
    found = _mine(run) if run else None
    whom, hooks, site = _of_run(found) if found else _of_user()
    whom = _checked(to) if to else whom
    ways = senders.channels(whom, hooks)
    if not ways:
        raise Refused('nobody to tell: type --to ADDRESS, or put to = "ADDRESS" under [mail] in config.toml')
    by = _senders(site)
    told = [_tried(by, channel, _greeting(found, whom)) for channel in ways]
    if not all(told):
        raise typer.Exit(1)


def _mine(typed: str) -> RunDir:
    """The run; its script names a command that is about to run as us."""
    found = _common.find_run(typed)
    rundir.check_owner(found, os.geteuid())
    return found


def _checked(text: str) -> tuple[str, ...]:
    if not addresses(text):
        raise Refused(f"{text!r} is no address such as ada@example.org")
    return addresses(text)


def _of_run(run: RunDir) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    hooks = tuple(run.setting("MAIL_HOOKS").split())
    return addresses(run.setting("MAIL_TO")), hooks, run.setting("MAIL_COMMAND")


def _of_user() -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """As a job would have it that says nothing itself."""
    path = user_file()
    table = toml.read(path, str(path)).get("mail", {}) if path.is_file() else {}
    mail: Mail = schema.record(Mail, table, f"{path}: [mail]")
    return addresses(mail.to), mail.hooks, mail.command


def _greeting(run: RunDir | None, to: tuple[str, ...]) -> letter.Letter:
    now = int(time.time())
    name = run.name if run else "no run"
    text = f"Mail of outlast reaches you.\n\nSent by {_common.user()} on {os.uname().nodename}: outlast mail test"
    return letter.Letter(f"test.{now}.{os.getpid()}", "test", name, "test", now, to, "[outlast] test", text)


def _tried(by: senders.Senders, channel: str, what: letter.Letter) -> bool:
    """Has it gone? Says so."""
    whom = ", ".join(what.to) if channel == senders.MAIL else channel
    try:
        typer.echo(f"{whom}: sent by {by.send(channel, what, flush.LIMIT_S)}")
    except Unsent as err:
        typer.echo(f"{whom}: not sent: {err}", err=True)
        return False
    return True


def _senders(site_command: str) -> senders.Senders:
    return senders.found(user_file().with_name("mail.toml"), os.environ, site_command)
