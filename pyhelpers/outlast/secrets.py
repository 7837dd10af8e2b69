"""Secrets among a job's values: a script is a file that others read, so `render` refuses them."""

import re

from outlast import masked, schema
from outlast.job import Job
from outlast.refused import Refused

_ELSEWHERE = (
    "scripts are readable by others, so put it in a file that only you can read, "
    'and in the job: setup = ["source ~/.config/outlast/secrets.sh"]'
)
_VARIABLE = re.compile(r"(TOKEN|_KEY|APIKEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|(^|_)PASS|CREDENTIALS?)$")
_KINDS = (
    r"(?:token|secret|password|passwd|passphrase|(?<![a-z])pass|credentials?"
    r"|(?:api|access|private|secret|auth|account|storage|signing|encryption)[_-]?key)"
)
# NAME=VALUE, "name": "value", --name VALUE. What a shell or outlast fills in ($X, `x`, {x}) is not in the script.
_VALUE = r"""["']?(?P<value>[^\s"'$`{][^\s"'`,;}&]*)"""
_NAMED = (
    re.compile(rf"(?P<name>[\w.-]*{_KINDS})(?:['\"]\s*:\s*|=){_VALUE}", re.I),
    re.compile(rf"(?<!\S)(?P<name>--?[\w.-]*{_KINDS})\s+(?!-){_VALUE}", re.I),
    re.compile(rf"(?P<name>\b[A-Z0-9_]+_KEY)={_VALUE}"),
    re.compile(r"\b(?P<name>wandb login)\s+(?:-\S+\s+)*(?P<value>[0-9A-Za-z]{20,})"),
)
# What a tokenizer calls so: --eos_token </s>, PAD_TOKEN=0.
_OF_A_TOKENIZER = re.compile(
    r"(?:^|[_.-])(?:bos|eos|pad|unk|sep|cls|mask|image|audio|video|special|start|stop|end|prefix|suffix|additional"
    r"|(?:max|min|num|per|first|last|next|n)(?:_new)?)[_-]token$",
    re.I,
)
_NO_SECRET = re.compile(r"true|false|yes|no|none|null|[0-9]{1,3}|(?:~|\.{1,2})?/[\w./@%+-]*|[<\[|].*", re.I)
# Of an address the shell may fill in the password; a token at its beginning has no `:`.
_IN_ADDRESS = re.compile(rf"{masked.USERINFO.pattern}|{masked.BARE_USERINFO.pattern}", re.I)


def check(job: Job) -> None:
    """Nothing, if no value of the job looks like a secret, or like a line that sets one.

    Raises: Refused: one does. The message has its key and its name, and not the secret.
    """
    for name in job.env:
        if _VARIABLE.search(name.upper()):
            raise Refused(f"env.{name} looks like a secret: {_ELSEWHERE}")
    for key, value in schema.flattened(job).items():
        lines = value if isinstance(value, tuple) else (value,)
        # Of a command each word stands alone, and an option's value is the next one.
        for text in (*lines, " ".join(map(str, lines))):
            if what := found(str(text)):
                raise Refused(f"{key} looks like it holds a secret ({what}): {_ELSEWHERE}")


def found(text: str) -> str:
    """What of the text looks like a secret, in words without it; empty: nothing does."""
    if token := masked.TOKENS.search(text):
        return f"{token[0][:3]}…"
    if masked.PEM.search(text):
        return "a private key"
    if any("$" not in address[0] and "{" not in address[0] for address in _IN_ADDRESS.finditer(text)):
        return "in an address, before the @"
    if any("$" not in header[0] for header in masked.BEARER.finditer(text)):
        return "behind Bearer or Basic"
    for form in _NAMED:
        for named in form.finditer(text):
            name = named["name"]
            if not _NO_SECRET.fullmatch(named["value"]) and not _OF_A_TOKENIZER.search(name):
                return name
    return ""
