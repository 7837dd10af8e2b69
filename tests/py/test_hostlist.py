"""Lists of hosts: what is compressed comes back, and what is no list is refused."""

import random

import pytest

from outlast import hostlist


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("nid[001-003,007],n9", "nid001 nid002 nid003 nid007 n9"),
        ("c[0-1]s[08-09]", "c0s08 c0s09 c1s08 c1s09"),
        ("x[9-11]-gpu", "x9-gpu x10-gpu x11-gpu"),
        (" n01,,n02, n03\n", "n01 n02 n03"),
        ("", ""),
    ],
)
def test_expand_gives_each_host_in_the_order_of_the_list(text: str, hosts: str) -> None:
    assert hostlist.expand(text) == hosts.split()


@pytest.mark.parametrize("text", ["n[1-", "n[]", "n[2-1]", "n[a]", "n]1", "[[1]]", "n[1-999999]", "n[0-99]m[0-9999]"])
def test_expand_refuses_what_is_no_list(text: str) -> None:
    with pytest.raises(hostlist.HostlistError):
        hostlist.expand(text)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ("nid007 nid001 nid002 nid001 nid003", "nid[001-003,007]"),
        ("n9 n10 n11", "n9,n[10-11]"),
        ("x3104c0s1b0n0 x3104c0s1b1n0", "x3104c0s1b0n0,x3104c0s1b1n0"),
        ("n01x n02x", "n01x,n02x"),  # Slurm 22.05 reads no text behind a bracket
        ("login", "login"),
        ("", ""),
    ],
)
def test_compress_writes_what_slurm_reads(hosts: str, text: str) -> None:
    assert hostlist.compress(hosts.split()) == text


def test_expand_undoes_compress() -> None:
    dice = random.Random(4)
    for _ in range(300):
        hosts = {
            dice.choice(["n", "nid", "x1-", "a1b"]) + str(dice.randrange(130)).zfill(dice.choice([1, 3])) + tail
            for tail in dice.choices(["", "", "", "-ib", "c"], k=dice.randrange(40))
        }
        again = hostlist.expand(hostlist.compress(hosts))
        assert len(again) == len(hosts)
        assert set(again) == hosts
