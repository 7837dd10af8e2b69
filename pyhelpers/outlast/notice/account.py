"""What is the user's own and secret: ~/.config/outlast/mail.toml, or the environment. Never in a job script."""

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outlast import schema
from outlast.notice.message import ADDRESS, HOOK
from outlast.refused import Refused


@dataclass(frozen=True)
class Smtp:
    """A mail server. `security` empty: tls on port 465, else starttls."""

    host: str = ""
    port: int = 587
    security: str = schema.choice("", "starttls", "tls", "none")
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""

    @property
    def mode(self) -> str:
        """starttls, tls or none."""
        return self.security or ("tls" if self.port == 465 else "starttls")


@dataclass(frozen=True)
class Account:
    """The mail server, if there is one, and webhooks by their names."""

    smtp: Smtp = field(default_factory=Smtp)
    hooks: dict[str, str] = field(default_factory=dict, repr=False)


def load(path: Path, env: Mapping[str, str]) -> Account:
    """The account; an empty one where there is no file. OUTLAST_SMTP_PASSWORD beats the file's password.

    Raises: Refused: others can read the file, or something in it is wrong.
    """
    table = _read(path)
    _check_texts(table, path)
    account: Account = schema.record(Account, table, str(path))
    smtp = account.smtp
    secret = env.get("OUTLAST_SMTP_PASSWORD") or smtp.password
    account = Account(Smtp(smtp.host, smtp.port, smtp.security, smtp.user, secret, smtp.sender), account.hooks)
    _check(account, path)
    return account


def _read(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
                raise Refused(f"{path} has passwords, and others can read it; type chmod 600 {path}")
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise Refused(f"{path}: {err}") from err
    except OSError as err:
        raise Refused(f"{path}: {err.strerror}") from err


def _check_texts(table: dict[str, object], path: Path) -> None:
    """What follows would show a value of a wrong type, and these are secret."""
    for section, only in (("smtp", "password"), ("hooks", "")):
        part = table.get(section)
        for name, value in part.items() if isinstance(part, dict) else ():
            if name.startswith(only) and not isinstance(value, str):
                raise Refused(f"{path}: {section}.{name} is a text; put it in quotes")


def _check(account: Account, path: Path) -> None:
    smtp = account.smtp
    if smtp.host and not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9a-fA-F:]+", smtp.host):
        raise Refused(f"{path}: smtp.host {smtp.host!r} is no name of a host; the port goes into smtp.port")
    if not 0 < smtp.port < 65536:
        raise Refused(f"{path}: smtp.port {smtp.port} is no port; 587 and 465 are usual")
    if smtp.sender and not ADDRESS.fullmatch(smtp.sender):
        raise Refused(f"{path}: smtp.sender {smtp.sender!r} is no address such as ada@example.org")
    if smtp.user and not smtp.password:
        raise Refused(f"{path}: smtp.user without a password: add smtp.password, or set OUTLAST_SMTP_PASSWORD")
    if smtp.user and smtp.mode == "none":
        raise Refused(f'{path}: security = "none" would send the password for all to read; use starttls or tls')
    for name, url in account.hooks.items():
        if not HOOK.fullmatch(name):
            raise Refused(f"{path}: hooks.{name} is no name: small letters, digits and - inside, up to 30")
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s\x00-\x1f\x7f]+", url):
            raise Refused(f"{path}: hooks.{name} is no address such as https://…")  # it is secret: not shown
