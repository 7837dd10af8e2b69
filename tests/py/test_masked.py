import subprocess
from pathlib import Path

import pytest

from outlast.masked import masked

ROOT = Path(__file__).parents[2]

HIDDEN = {
    "HF_TOKEN=hf_abcdefghijklmnopqrstuvwx1234": "HF_TOKEN=***",
    "found hf_abcdefghijklmnopqrstuvwx1234 in the cache": "found *** in the cache",
    "WANDB_API_KEY=0123456789012345678901234567890123456789": "WANDB_API_KEY=***",
    'config: {"password": "two words", "user": "ann"}': 'config: {"password": ***, "user": "ann"}',
    "python train.py --password hunter2 --lr 3e-4": "python train.py --password *** --lr 3e-4",
    "python train.py --wandb-api-key=abc --lr 3e-4": "python train.py --wandb-api-key=*** --lr 3e-4",
    "git clone https://ann:pw@host.example/x": "git clone https://ann:***@host.example/x",
    "git clone https://ghp_abcdefghijklmnopqrst1234@github.com/x": "git clone https://***@github.com/x",
    "Authorization: Bearer abcdefgh.ijk": "Authorization: Bearer ***",
    "posted to https://hooks.slack.com/services/T01/B02/abcDEF": "posted to https://hooks.slack.com/***",
    "(https://discord.com/api/webhooks/17/ab-c_D) x": "(https://discord.com/api/webhooks/*** x",
    "'https://acme.webhook.office.com/webhookb2/1@2'": "'https://acme.webhook.office.com/***'",
    "wandb login 0123456789012345678901234567890123456789 && run": "wandb login *** && run",
    "wandb login --host https://w.example local_abcdefghij0123456789": "wandb login --host https://w.example ***",
    "AWS_SECRET_ACCESS_KEY=wJalr/abc+x": "AWS_SECRET_ACCESS_KEY=***",
    "AZURE_STORAGE_KEY=abcdefgh==": "AZURE_STORAGE_KEY=***",
    "GET /b?se=1&signature=AbC%2F&x=1": "GET /b?se=1&signature=***&x=1",
    "access_token: 9f8a7b6c5d4e3f2a1b0c": "access_token: ***",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----": (
        "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----"
    ),
    "-----BEGIN PRIVATE KEY-----\nabc": "-----BEGIN PRIVATE KEY-----***",
    "token hf_abcdefghijklmnopqrstuvwx1234, and hf_abcdefghijklmnopqrstuvwx1234.": "token ***, and ***.",
    "a=glpat-abcdefghijklmnopqrst b=xoxb-abcdefghij c=AKIAABCDEFGHIJKLMNOP": "a=*** b=*** c=***",
    "sk-proj-abcdefghijklmnopqrst eyJhbGciOiJI.eyJzdWIiOiIx.sig": "*** ***",
    "PASSWORD='a b' Password: x a.secret-name=1 a.secret=1": "PASSWORD=*** Password: *** a.secret-name=1 a.secret=***",
    "a_token b_token abcdefgh12345678": "a_token b_token ***",
    "HTTPS://ann:pw@a.example ftp://bob:pw2@b.example": "HTTPS://ann:***@a.example ftp://bob:***@b.example",
    "é password=é": "é password=***",
    "password=*** password=x": "password=*** password=***",
}

LEFT_ALONE = [
    "num_tokens=4096 tokens/s: 123456.7",
    "eos_token=</s> pad_token_id=50256 tokenizer=gpt2",
    "the password is wrong",
    "wandb login failed; see https://hooks.slack.com and https://discord.com/api/docs",
    "PRIMARY_KEY=id",
    "http://tracker.example:8080/runs/17",
    "KeyError: 'optimizer'",
    "rank 12 never arrived at ALLREDUCE 90321",
    "RuntimeError: NCCL error: unhandled system error, NCCL version 2.18.3",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_a_secret_is_hidden(text: str) -> None:
    assert masked(text) == HIDDEN[text]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text


def test_it_may_be_masked_again() -> None:
    for shown in HIDDEN.values():
        assert masked(shown) == shown


def in_bash(*texts: str) -> list[str]:
    """What lib/masked.sh, which needs no Python, makes of them."""
    each = 'for text in "$@"; do ol_masked_text "$text"; printf "%s\\0" "$OUTLAST_MASKED"; done'
    program = 'set -u; source "$1"; shift; ' + each
    words = ["bash", "-c", program, "_", str(ROOT / "lib/masked.sh"), *texts]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.split("\0")[:-1]


def test_the_ledger_s_masking_in_bash_does_the_same() -> None:
    texts = [*HIDDEN, *LEFT_ALONE, *HIDDEN.values(), " ".join(HIDDEN), "", "a * ? [x] \\ 'b' \"c\" $d `e`"]
    assert dict(zip(texts, in_bash(*texts), strict=True)) == {text: masked(text) for text in texts}


def test_a_long_line_is_masked_in_bash_too() -> None:
    line = "x" * 4000 + " token hf_abcdefghijklmnopqrstuvwx1234 " + "secret" * 600
    assert in_bash(line) == [masked(line)]
