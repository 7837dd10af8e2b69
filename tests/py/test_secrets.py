"""What of a job's values is a secret, and what only looks a little like one."""

import re
from pathlib import Path

import pytest
import trees

from outlast import secrets
from outlast.refused import Refused

HF = "hf_abcdefghijklmnopqrstuvwxyz123456"

REFUSED = {
    f"command=python3 t.py --hub_token {HF} {{resume}}": "hf_…",
    f"command=python3 t.py --hub_token={HF}": "hf_…",
    "command=python3 t.py --hub-token abcd": "--hub-token",
    "command=python3 t.py hub.token=abcd": "hub.token",
    "command=python3 t.py --db_password 'a b'": "--db_password",
    'command=python3 t.py --config \'{"api_key": "abc"}\'': "api_key",
    "command=git clone https://ann:pw@host.example/x": "in an address, before the @",
    "command=git clone https://abcdefghijklmnopqrst@host.example/x": "in an address, before the @",
    'setup=["export hf_token=abc"]': "hf_token",
    'setup=["true", "export HF_TOKEN=hf_abc"]': "HF_TOKEN",
    "setup=export WANDB_APIKEY=abc": "WANDB_APIKEY",
    "setup=export DB_PASS=abc": "DB_PASS",
    "setup=PGPASSWORD='abc' psql": "PGPASSWORD",
    "setup=export SOME_KEY=abc": "SOME_KEY",
    "setup=wandb login 0123456789012345678901234567890123456789": "wandb login",
    "setup=export all_proxy=http://ann:pw@proxy.example:3128": "in an address, before the @",
    "prepare=curl -H 'Authorization: Bearer abcdefghij' https://host.example": "behind Bearer or Basic",
    "pins.commands=curl -H API_KEY=x": "API_KEY",
    f"checkpoint.on_durable=upload --token {HF}": "hf_…",
    f"directives=--comment={HF}": "hf_…",
    f"mail.command=send {HF}": "hf_…",
    f"launch=--export={HF}": "hf_…",
    f"env.X={HF}": "hf_…",
    "env.PROXY=http://ann:pw@host.example": "in an address, before the @",
}

TAKEN = [
    "command=python3 t.py --tokenizer gpt2 --tokenizer_name=x/y --max_tokens 2048 MAX_TOKENS=2048 --num-token 4096",
    "command=python3 t.py --eos_token </s> --pad_token=[PAD] model.bos_token=x --use_auth_token true --token=True",
    "command=python3 t.py --use_auth_token --lr 3e-4 --token {run} --passes 3 --bypass=x --label_key text",
    "command=bash -c 'exec python3 t.py --hub_token \"$HF_TOKEN\" --password=${PW} --x `cat y`'",
    "command=python3 t.py --data s3://bucket/a@b --url https://host.example:8080/a@b --key x --token /home/me/token",
    'command=x --fsdp_config {"min":1} --passphrase-file x --secret-dir y --password_file=/z',
    "setup=source ~/.config/outlast/secrets.sh",
    'setup=export HF_TOKEN=$(cat ~/.hf) PASSWORD=`cat x` API_KEY="$K"',
    "setup=export PASSES=3 N_PASS=2 GIT_ASKPASS=/bin/echo SSH_KEY_FILE=x HF_TOKEN_PATH=/x PRIVATE_KEY=~/.ssh/id",
    "setup=git clone https://$USER:$PW@host.example/x && git clone git@host.example:x/y",
    "setup=export http_proxy=http://proxy.example:3128 no_proxy=localhost",
    "setup=unset HF_TOKEN; echo no password is wanted",
    "env.TOKENIZERS_PARALLELISM=false",
    "env.MAX_TOKENS=2048",
    "env.PASSES=3",
    "env.BYPASS=1",
    "progress.step_regex=tokens: ([0-9]+)",
]


def check(tmp_path: Path, assignment: str) -> None:
    secrets.check(trees.plan(trees.make(tmp_path), assignment).job)


@pytest.mark.parametrize("assignment", REFUSED)
def test_a_secret_is_refused_and_not_repeated(tmp_path: Path, assignment: str) -> None:
    message = f"{assignment.partition('=')[0]} looks like it holds a secret ({REFUSED[assignment]}): scripts are"
    with pytest.raises(Refused, match=re.escape(message)) as refused:
        check(tmp_path, assignment)
    assert not any(secret in str(refused.value) for secret in ("\n", HF, "abcd", "pw@"))


@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY", "WANDB_APIKEY", "db_password", "DB_PASS", "PASS"])
def test_a_variable_with_the_name_of_a_secret_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match=f"env.{name} looks like a secret: .*setup = "):
        check(tmp_path, f"env.{name}=1")


@pytest.mark.parametrize("assignment", TAKEN)
def test_what_is_none_is_taken(tmp_path: Path, assignment: str) -> None:
    check(tmp_path, assignment)
