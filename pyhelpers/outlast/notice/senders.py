"""The ways on which a letter can leave: one try each, the first that works."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outlast.notice import command, hook, smtp
from outlast.notice.account import Account, load
from outlast.notice.letter import Letter
from outlast.notice.unsent import Unsent
from outlast.refused import Refused

MAIL = "mail"
TRY_S = 10.0


def channels(to: tuple[str, ...], hooks: tuple[str, ...]) -> list[str]:
    """Who has to be told, each by itself: the mailboxes, and each webhook."""
    return [MAIL] * bool(to) + [f"hook-{name}" for name in hooks]


@dataclass(frozen=True)
class Senders:
    """What this machine and this user have. `wrong`: why the user's own file can't be used."""

    account: Account
    commands: list[str]
    wrong: str = ""

    def send(self, channel: str, letter: Letter, left_s: float) -> str:
        """By what the letter went; it takes no longer than that.

        Raises: Unsent: with what each way answered.
        """
        if channel == MAIL:
            return self._mail(letter, left_s)
        name = channel.removeprefix("hook-")
        if name not in self.account.hooks:
            raise Unsent(self.wrong or f"webhook {name}: mail.toml has no such hook")
        return hook.send(name, self.account.hooks[name], letter, min(left_s, TRY_S))

    def _mail(self, letter: Letter, left_s: float) -> str:
        failed = [self.wrong] if self.wrong else []
        ways = len(self.commands) + bool(self.account.smtp.host)
        for way in range(ways):
            try:
                return self._way(way, letter, min(left_s / ways, TRY_S))
            except Unsent as err:
                failed.append(str(err))
        raise Unsent("; ".join(failed) or "no mail server in mail.toml, and this machine has no mail command")

    def _way(self, number: int, letter: Letter, limit_s: float) -> str:
        if self.account.smtp.host:
            if number == 0:
                return smtp.send(self.account.smtp, letter, limit_s)
            number -= 1
        return command.send(self.commands[number], letter, limit_s)


def found(file: Path, env: Mapping[str, str], site_command: str) -> Senders:
    """What there is; `file` is the user's mail.toml."""
    commands = command.known(site_command, env)
    try:
        return Senders(load(file, env), commands)
    except Refused as err:
        return Senders(Account(), commands, str(err))
