"""Secrets out of text that people will read or send on: logs, environment dumps, command lines, URLs.

Forms of tokens are those that their issuers document (GitHub, GitLab, Hugging Face, OpenAI, Anthropic, Slack, AWS,
Google, Weights & Biases, JSON Web Tokens, PEM). A name that says what stands behind it hides any value.
"""

import re

MASK = "***"

TOKENS = re.compile(
    r"\b(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|sk-[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{35}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[\w-]{30,}|local-[0-9a-f]{40}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
PEM = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s/@]+(?=@)", re.I)
BARE_USERINFO = re.compile(r"(\bhttps?://)[A-Za-z0-9_-]{16,}(?=@)", re.I)
BEARER = re.compile(r"\b((?:authorization['\"]?\s*[:=]\s*['\"]?\s*)?(?:bearer|basic)\s+)[\w.~+/=-]{8,}", re.I)
# Whoever has the address may post there: Slack, Discord, Teams.
_POST = re.compile(
    r"(\bhttps?://(?:hooks\.slack\.com/|(?:[\w-]+\.)?discord(?:app)?\.com/api/webhooks/|[\w.-]+\.webhook\.office\.com/))"
    r"[^\s'\"<>]+",
    re.I,
)
_LOGIN = re.compile(r"(\bwandb\s+login\s+(?:(?:-|https?://)\S+\s+)*)[\w-]{20,}", re.I)
_SECRET = (
    r"(?:pass(?:word|wd|phrase)|secret|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|auth[_-]?key|signature)"
)
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s'"&,;}]+)"""
# NAME=VALUE, "name": "value", --name VALUE. A sentence (`the password is wrong`) has none of these forms.
_NAMED = re.compile(rf"(\b[\w.-]*{_SECRET}\w*['\"]?\s*[:=]\s*|--[\w-]*{_SECRET}[\w-]*[ =]){_VALUE}", re.I)
_KEY = re.compile(rf"(\b[A-Z0-9_]+_(?:KEY|PASS)=)(?=\S{{8}}){_VALUE}")
# What `token` counts and names in a trainer's log is no secret (num_tokens=4096, eos_token=</s>), so behind it only
# what looks random is hidden.
_TOKEN = re.compile(
    r"(\b[\w.-]*token['\"]?(?:\s*[:=]\s*|\s+)['\"]?)(?=[\w.~+/=-]*\d)(?=[\w.~+/=-]*[A-Za-z])[\w.~+/=-]{12,}", re.I
)


def masked(text: str) -> str:
    """The text with `***` in place of each secret."""
    text = PEM.sub(rf"\1{MASK}\2", text)
    for form in (USERINFO, BARE_USERINFO, BEARER, _POST, _LOGIN, _NAMED, _KEY, _TOKEN):
        text = form.sub(rf"\1{MASK}", text)
    return TOKENS.sub(MASK, text)
