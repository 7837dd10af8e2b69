"""By the user's own mail server: encrypted, its certificate checked."""

import os
import smtplib
import ssl
from contextlib import suppress

from outlast.masked import masked
from outlast.notice.account import Smtp
from outlast.notice.letter import Letter, mail
from outlast.notice.limit import limit
from outlast.notice.message import one_line
from outlast.notice.unsent import Unsent


def send(account: Smtp, letter: Letter, limit_s: float) -> str:
    """Where it went.

    Raises: Unsent.
    """
    where = f"smtp {account.host}:{account.port}"
    try:
        with limit(limit_s):
            refused = _send(account, letter, limit_s)
    except (OSError, smtplib.SMTPException) as err:
        raise Unsent(f"{where}: {_why(err)}") from err
    return where + (f" (not to {', '.join(refused)}: refused)" if refused else "")


def _send(account: Smtp, letter: Letter, limit_s: float) -> list[str]:
    """The addresses that the server refused; it took the others."""
    server = _connected(account, limit_s)
    try:
        if account.user:
            server.login(account.user, account.password)
        sender = account.sender or (account.user if "@" in account.user else letter.to[0])
        refused = server.send_message(mail(letter, sender), sender, letter.to)
        # It has the mail. What happens to a farewell does not matter.
        with suppress(OSError, smtplib.SMTPException):
            server.quit()
        return list(refused)
    finally:
        server.close()


def _connected(account: Smtp, limit_s: float) -> smtplib.SMTP:
    secure = ssl.create_default_context()
    # Without a name of its own smtplib asks the DNS for one, which may take minutes.
    me = os.uname().nodename
    if account.mode == "tls":
        return smtplib.SMTP_SSL(account.host, account.port, me, timeout=limit_s, context=secure)
    server = smtplib.SMTP(account.host, account.port, me, timeout=limit_s)
    if account.mode == "starttls":
        server.starttls(context=secure)
    return server


def _why(err: Exception) -> str:
    if isinstance(err, smtplib.SMTPRecipientsRefused):
        return "; ".join(f"{to}: {_answer(code, text)}" for to, (code, text) in err.recipients.items())
    if isinstance(err, smtplib.SMTPResponseException):
        return _answer(err.smtp_code, err.smtp_error)
    return masked(one_line(getattr(err, "strerror", None) or str(err)))


def _answer(code: int, text: bytes | str) -> str:
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"{code} {masked(one_line(said))[:200]}"
