"""To a webhook. Chats that take JSON over HTTP are spoken to here; apprise, if it is there, knows a hundred others."""

import html
import json
import urllib.error
import urllib.parse
import urllib.request
from email.message import Message as Headers
from http.client import HTTPException
from typing import IO

from outlast.masked import masked
from outlast.notice.letter import Letter
from outlast.notice.limit import limit
from outlast.notice.message import one_line
from outlast.notice.unsent import Unsent

_SLACK = 3000  # characters; a chat is no place for more
_DISCORD = 2000  # Discord's own limit: https://discord.com/developers/docs/resources/webhook


def send(name: str, url: str, letter: Letter, limit_s: float) -> str:
    """Where it went. The address of a webhook is a secret: no message has it.

    Raises: Unsent.
    """
    where = f"webhook {name}"
    try:
        with limit(limit_s):
            if url.startswith(("http://", "https://")):
                _post(url, letter, limit_s)
            else:
                _apprise(url, letter)
    except urllib.error.HTTPError as err:
        raise Unsent(f"{where}: answers {err.code}") from err
    except (OSError, HTTPException, ValueError) as err:
        why = getattr(err, "reason", None) or getattr(err, "strerror", None) or err
        raise Unsent(f"{where}: {masked(one_line(str(why))).replace(url, '***')}") from err
    except Unsent as err:
        raise Unsent(f"{where}: {err}") from err
    return where


class _Stay(urllib.request.HTTPRedirectHandler):
    """What an address of somebody's choice says must not lead us to another."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Headers, newurl: str
    ) -> None:
        return None


def _post(url: str, letter: Letter, limit_s: float) -> None:
    asked = urllib.request.Request(
        url,
        json.dumps(body(url, letter)).encode(),
        {"Content-Type": "application/json", "User-Agent": "outlast", "Idempotency-Key": letter.id},
    )
    with urllib.request.build_opener(_Stay).open(asked, timeout=limit_s) as answer:
        answer.read(1 << 16)


def body(url: str, letter: Letter) -> dict[str, object]:
    """What this kind of webhook takes. Nothing in it calls anybody by name (@channel)."""
    host = urllib.parse.urlsplit(url).hostname or ""
    text = f"{letter.subject}\n{letter.body}"
    if host == "hooks.slack.com":  # https://docs.slack.dev/messaging/formatting-message-text: &, < and > are its own
        return {"text": html.escape(_cut(text, _SLACK), quote=False)}
    if host in ("discord.com", "discordapp.com"):
        return {"content": _cut(text, _DISCORD), "allowed_mentions": {"parse": []}}
    # `text` is what Mattermost, Rocket.Chat, Zulip (Slack-compatible) and Google Chat read.
    return {"text": text, "subject": letter.subject, "run": letter.run, "kind": letter.kind, "id": letter.id}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _apprise(url: str, letter: Letter) -> None:
    try:
        import apprise
    except ImportError as err:
        raise Unsent("only apprise knows such addresses; type pip install apprise, where outlast runs") from err
    to = apprise.Apprise()
    if not to.add(url):
        raise Unsent("apprise does not know such an address")
    if not to.notify(title=letter.subject, body=letter.body):
        raise Unsent("apprise could not send")
