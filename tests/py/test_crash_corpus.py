"""Every labelled log, as it is and as other launchers and terminals would have left it."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import corpus
import pytest

CASES = corpus.cases()
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@by_name
def test_the_verdict_is_the_labels(case: corpus.Case) -> None:
    found = case.verdict()
    fields = ("pattern", "scope", "persistence", "action", "blame_nodes", "blame_ranks")
    wrong = {field: getattr(found, field) for field in fields if not case.is_right(field, getattr(found, field))}
    assert not wrong, f"{found.why} {[(line.line, line.text) for line in found.evidence]}"


@by_name
def test_nobody_innocent_is_named_when_no_layout_is_known(case: corpus.Case) -> None:
    assert not case.wrong_names(case.verdict(with_map=False))


def windows(raw: bytes) -> bytes:
    return raw.replace(b"\n", b"\r\n")


def coloured(raw: bytes) -> bytes:
    return b"".join(b"\x1b[1;31m" + line + b"\x1b[0m\n" for line in raw.split(b"\n")[:-1])


def cut(raw: bytes) -> bytes:
    return raw[:-1]


def with_rubbish(raw: bytes) -> bytes:
    return b"\x00\xff\xfe\x1b]0;title\x07\n" + raw.replace(b"\n", b"\n\x00\xf0\n", 3)


def after_a_long_line(raw: bytes) -> bytes:
    return b"x" * 1_000_000 + b"\n" + raw


@pytest.mark.parametrize("change", [windows, coloured, cut, with_rubbish, after_a_long_line])
def test_the_verdict_does_not_hang_on_how_the_log_is_written(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    changed = tmp_path / "job.log"
    for case in CASES[::2]:
        changed.write_bytes(change(case.log.read_bytes()))
        found = case.verdict(changed)
        assert case.is_right("pattern", found.pattern), case.name
        assert case.is_right("action", found.action), case.name
        assert not case.wrong_names(found), case.name


def test_a_compressed_log_has_the_same_verdict(tmp_path: Path) -> None:
    packed = tmp_path / "job.log.gz"
    for case in CASES[::5]:
        packed.write_bytes(gzip.compress(case.log.read_bytes()))
        found, plain = case.verdict(packed), case.verdict()
        assert (found.pattern, found.blame_nodes) == (plain.pattern, plain.blame_nodes), case.name


def test_the_same_failure_on_other_hosts_has_the_same_fingerprint(tmp_path: Path) -> None:
    changed = tmp_path / "job.log"
    for case in CASES:
        found = case.verdict()
        raw = case.log.read_bytes()
        hosts = set(found.blame_nodes + found.not_blame_nodes)
        for host in sorted(hosts, key=len, reverse=True):
            digits = re.sub(r"\d(?=\D*$)", lambda match: str(9 - int(match[0])), host)
            raw = raw.replace(host.encode(), digits.encode())
        changed.write_bytes(raw.replace(b"2025-", b"2026-"))
        assert case.verdict(changed, with_map=False).fingerprint == case.verdict(with_map=False).fingerprint, case.name
