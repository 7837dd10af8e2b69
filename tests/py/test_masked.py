import pytest

from outlast.masked import masked

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
    "AWS_SECRET_ACCESS_KEY=wJalr/abc+x": "AWS_SECRET_ACCESS_KEY=***",
    "AZURE_STORAGE_KEY=abcdefgh==": "AZURE_STORAGE_KEY=***",
    "GET /b?se=1&signature=AbC%2F&x=1": "GET /b?se=1&signature=***&x=1",
    "access_token: 9f8a7b6c5d4e3f2a1b0c": "access_token: ***",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----": (
        "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----"
    ),
    "-----BEGIN PRIVATE KEY-----\nabc": "-----BEGIN PRIVATE KEY-----***",
}

LEFT_ALONE = [
    "num_tokens=4096 tokens/s: 123456.7",
    "eos_token=</s> pad_token_id=50256 tokenizer=gpt2",
    "the password is wrong",
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
