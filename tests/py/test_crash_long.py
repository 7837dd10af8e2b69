"""Logs whose lines are long: a progress bar writes a whole day with carriage returns and not one line feed."""

import gzip
from pathlib import Path

import pytest

from outlast.crash import analyse, cut, names, patterns, scan, source, verdict

BOOK = patterns.load()
ECC = b"[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
BAR = b" 12%%|# | %d/700000 [00:10<05:20, 3.2it/s, loss=2.3]"
MANY = 60_000  # updates, 3 MB


def bar(count: int, update: bytes = BAR) -> bytes:
    return b"\r".join(update % number for number in range(count))


def judged(log: Path) -> verdict.Verdict:
    return analyse.once([log], names.Layout(), BOOK, 1, "slurm")


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("has_grep", [True, False])
def test_a_failure_at_the_end_of_a_long_progress_bar_is_the_end(
    has_grep: bool, is_packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_packed and not has_grep:
        pytest.skip("grep is needed to read a compressed log")
    monkeypatch.setattr(source, "_grep_works", has_grep)
    log = tmp_path / "job.log"
    raw = bar(MANY) + b"\r" + ECC + b"\n"
    log.write_bytes(gzip.compress(raw) if is_packed else raw)
    found = judged(log)
    assert (found.pattern, found.blame_ranks, found.evidence[0].line) == ("gpu_ecc", [1], 1)


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_failure_that_a_progress_bar_goes_on_after_is_over(end: bytes, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(bar(MANY) + b"\r" + ECC + end + b"\r" + bar(MANY) + b"\rIndexError: list index out of range\n")
    assert judged(log).pattern == "python_exception"


def test_updates_that_a_launcher_held_back_until_the_lines_end_are_no_news(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    died = b"2: outlast: rank 2 on n2 ended with signal SEGV at 1796023072\n"
    echo = b"0: [rank0]: demo.CollectiveError: Connection closed by peer [10.77.0.12]:51142\n"
    log.write_bytes(died + b"0: " + bar(9) + b"\r[rank0]: Traceback (most recent call last):\n" + echo)
    assert judged(log).pattern == "segfault"


def test_an_error_at_the_end_of_a_progress_bar_came_late_not_at_the_start(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(bar(500) + b"\rIndexError: list index out of range\n")
    late = judged(log)
    log.write_bytes(b"IndexError: list index out of range\n")
    assert (late.persistence, judged(log).persistence) == ("unknown", "systemic")


@pytest.mark.parametrize("has_grep", [True, False])
def test_a_word_in_every_update_of_a_bar_hides_no_failure(
    has_grep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_grep_works", has_grep)
    log = tmp_path / "job.log"
    noisy = BAR + b" RuntimeError=0 "
    log.write_bytes(bar(5000, noisy) + b"\r" + ECC + b"\r" + b"x" * 5000 + b"\n")
    assert judged(log).pattern == "gpu_ecc"


@pytest.mark.parametrize("before", [0, 3000, cut.LINE - 30, cut.LINE - 1000, 3 * cut.LINE - 5])
@pytest.mark.parametrize("has_grep", [True, False])
def test_a_place_in_a_long_line_is_known_to_the_byte(
    has_grep: bool, before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_grep_works", has_grep)
    log = tmp_path / "job.log"
    log.write_bytes(b"first\n" + b"x" * before + b"\r" + ECC + b"\r" + b"y" * 300_000 + b"\n")
    scanner = scan.Scanner(BOOK, names.Layout())
    scanner.add(source.opened(log))
    scanner.read()
    told = [(event.name, event.offset, event.text) for event in scanner.seen.events]
    assert told == [("gpu_ecc", len(b"first\n") + before + 1, ECC.decode())]


def test_a_growing_line_is_not_read_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(bar(MANY))
    told = analyse.growing([log], names.Layout(), BOOK, "slurm")
    next(told)
    monkeypatch.setattr(cut, "down", None)
    with log.open("ab") as file:
        file.write(b"\r" + bar(MANY))
    next(told)
