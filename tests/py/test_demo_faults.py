import time
from pathlib import Path

import pytest

from outlast.demo import faults


def written(folder: Path, text: str, rank: int = 0) -> faults.Faults:
    path = folder / "faults.json"
    path.write_text(text)
    return faults.Faults(path, rank)


def test_a_fault_waits_for_its_step_and_its_rank(tmp_path: Path) -> None:
    mine = written(tmp_path, '{"kind": "kill", "rank": 0, "step": 30}')
    assert not mine.due("kill", step=29, made=29)
    assert mine.due("kill", step=30, made=1)
    assert not faults.Faults(mine.path, rank=1).due("kill", step=30, made=1)


def test_after_counts_the_steps_of_this_launch(tmp_path: Path) -> None:
    mine = written(tmp_path, '[{"kind": "exit", "after": 5}]')
    assert not mine.due("exit", step=100, made=4)
    assert mine.due("exit", step=101, made=5)


def test_a_fault_with_a_marker_happens_once_in_a_chain(tmp_path: Path) -> None:
    text = f'{{"kind": "kill", "rank": 0, "once": "{tmp_path}/done"}}'
    assert written(tmp_path, text).due("kill")
    assert not written(tmp_path, text).due("kill")
    assert (tmp_path / "done").exists()


def test_without_a_rank_each_rank_suffers_it_once(tmp_path: Path) -> None:
    text = f'{{"kind": "exit0", "once": "{tmp_path}/done"}}'
    assert [bool(written(tmp_path, text, rank).due("exit0")) for rank in (0, 1, 0, 1)] == [True, True, False, False]


def test_a_file_that_comes_later_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(faults, "leave", left.append)
    mine = faults.Faults(tmp_path / "faults.json", 0)
    (tmp_path / "faults.json").write_text('{"kind": "exit", "code": 9}')
    for made in range(faults.READ_EVERY_STEPS + 1):
        mine.between_steps(made, made)
    assert left == [9]


def looks_of(mine: faults.Faults, monkeypatch: pytest.MonkeyPatch, asked_at: int, gone_at: int) -> int:
    """How often who waits looks around: it is asked for something behind one look, the file is gone behind another."""
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == gone_at and mine.path:
            mine.path.unlink()

    monkeypatch.setattr(time, "sleep", sleep)
    mine.between_steps(30, 30, lambda: len(looks) >= asked_at)
    return len(looks)


WAIT = '{"kind": "wait", "rank": 0, "step": 30}'


def test_who_waits_goes_on_when_the_file_no_longer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks_of(written(tmp_path, WAIT), monkeypatch, asked_at=9, gone_at=2) == 2


def test_who_waits_goes_on_when_asked_and_waits_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = written(tmp_path, WAIT)
    assert [looks_of(mine, monkeypatch, asked_at=2, gone_at=9) for _ in range(2)] == [2, 2]


def test_who_waits_is_as_deaf_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults.Faults, "deaf", True)
    assert looks_of(written(tmp_path, WAIT), monkeypatch, asked_at=2, gone_at=9) == 9


@pytest.mark.parametrize("text", ['{"kind": "explode"}', '{"kind": "exit", "when": 3}'])
def test_what_nobody_can_suffer_is_refused(text: str) -> None:
    with pytest.raises(faults.FaultError, match="called"):
        faults.parse(text)


def test_a_torn_file_is_left_for_the_next_reading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert written(tmp_path, '[{"kind": "ki').list == []
    assert "next reading" in capsys.readouterr().err


def test_an_empty_name_means_no_faults() -> None:
    assert faults.path_from({"OUTLAST_DEMO_FAULTS": ""}) is None
    assert faults.path_from({}) == Path("faults.json")
