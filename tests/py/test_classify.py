"""outlast classify: recorded endings decided again. A change of the decision shows here."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from conftest import OWN_PATTERNS

from outlast import classify, commands

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "tests/fixtures/records"
# Made by the lab's scenarios (docs/testing.md): the row, the class, what follows.
DECIDED = {
    "cancelled": ("signalled", "cancelled", "stop"),
    "checkpoint-that-cannot-be-read": ("checkpoint", "bad_checkpoint", "relaunch"),
    "command-not-there": ("command", "launch", "hold"),
    "crash-by-code-on-pbs": ("crash", "crash", "relaunch"),
    "exit-0-before-the-target": ("zero", "early_exit", "hold"),
    "full-disk-of-a-node": ("storage", "storage", "relaunch"),
    "import-error": ("systemic", "systemic", "hold"),
    "node-given-up": ("signalled", "node", "submit"),
    "segmentation-fault": ("crash", "crash", "relaunch"),
    "stopped": ("asked", "stopped", "hold"),
    "third-job-without-progress": ("crash", "crash", "hold"),
    "wrong-resume": ("asked", "wrong_resume", "hold"),
}


def decide(record: Path) -> classify.Decision:
    return classify.decide(record, ROOT, ROOT / "pyhelpers")


@pytest.fixture
def segv(tmp_path: Path) -> Path:
    """A copy of the record of a segmentation fault, to be changed."""
    return shutil.copytree(RECORDS / "segmentation-fault", tmp_path / "7.0.1")


def fact(record: Path, name: str, value: str) -> None:
    lines = (record / "facts").read_text().splitlines()
    (record / "facts").write_text(
        "\n".join(line for line in lines if not line.startswith(f"{name}=")) + f"\n{name}={value}\n"
    )


def happened(record: Path, seq: int, event: str) -> None:
    """One more event before the ending, its name first."""
    head = f'{{"t":{1796023000 + seq},"run":"train","job":"1","restart":0,"attempt":1,"seq":{seq},"event":'
    with (record / "history.jsonl").open("a") as history:
        history.write(f"{head}{event}}}\n")


def test_every_record_has_its_expectation() -> None:
    assert sorted(DECIDED) == sorted(path.name for path in RECORDS.iterdir())


@pytest.mark.parametrize("name", DECIDED)
def test_an_ending_is_decided_as_it_was(name: str) -> None:
    found = decide(RECORDS / name)
    assert (found.told["row"], found.told["class"], found.told["then"]) == DECIDED[name]
    assert found.is_the_same, found.was


def test_what_the_log_says_now_counts(segv: Path) -> None:
    host = next(line for line in (segv / "facts").read_text().splitlines() if line.startswith("hosts=")).split()[-1]
    with (segv / "log").open("a") as log:
        log.write("2: [rank2]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    found = decide(segv)
    assert (found.told["row"], found.told["class"], found.told["blame"]) == ("hardware", "node", host)
    assert not found.is_the_same
    assert "had decided otherwise: crash, then relaunch" in classify.text(found)


def test_of_a_log_that_was_cut_the_verdict_of_then_is_taken(segv: Path) -> None:
    (segv / "log").write_text("ModuleNotFoundError: No module named 'flash'\n")
    (segv / "log.cut").touch()
    found = decide(segv)
    assert found.told["class"] == "crash"
    assert "kept in part" in found.many["note"][0]


def test_without_an_answer_of_the_parser_the_words_of_the_launcher_stand(segv: Path) -> None:
    (segv / "verdict").unlink()
    found = decide(segv)
    assert found.told["fingerprint"] == "end:signal SEGV/CollectiveError"
    assert found.told["then"] == "relaunch"


def test_guards_are_counted_and_may_say_no(segv: Path) -> None:
    fact(segv, "OUTLAST_STUCK_JOBS", "0")
    found = decide(segv)
    assert (found.told["asks"], found.told["then"]) == ("relaunch", "hold")
    assert "jobs in a row" in found.told["why"]


def test_what_was_tried_before_decides_what_is_tried_next(segv: Path) -> None:
    assert decide(segv).told["rung"].startswith("again: ")
    fact(segv, "OUTLAST_NODES", "3")
    fact(segv, "OUTLAST_NODE_LIST", "frontier00001,frontier00002,frontier00003")
    fact(segv, "hosts", "frontier00001 frontier00002 frontier00003")
    print_ = '"fingerprint":"log:segfault:3a79018b354e"'
    happened(segv, 90, f'"ended","step":50,"durable_step":40,{print_},"then":"relaunch"')
    assert decide(segv).told["rung"] == "move: again, and it may have begun on frontier00002"
    happened(segv, 91, f'"swapped","out":"frontier00003","in":"frontier00002","slot":1,"how":"move",{print_}')
    found = decide(segv)
    assert (found.told["rung"].split(":")[0], found.told["then"]) == ("software", "hold")
    assert "Nobody named: software: place 1 fails on frontier00002" in classify.text(found)


@pytest.mark.parametrize(
    "place", ["OUTLAST_LAUNCH_CODE", "OUTLAST_ATTEMPTS", "checkpoints", "state/durable_step", "verdict"]
)
def test_a_record_is_data_and_is_never_run(segv: Path, tmp_path: Path, place: str) -> None:
    bad = f"PATH[$(>{tmp_path}/ran)]"  # what Bash would run, were it taken for a number
    if place.startswith("OUTLAST_"):
        fact(segv, place, bad)
    elif place == "verdict":
        words = (segv / place).read_text()
        (segv / place).write_text(words.replace("confidence 0.60", f"confidence {bad}"))
        (segv / "log.cut").touch()
    else:
        (segv / "state").mkdir(exist_ok=True)
        (segv / place).write_text(f"{bad} /x\n")
    with contextlib.suppress(classify.RecordError):
        decide(segv)
    assert not (tmp_path / "ran").exists()


def test_the_newest_record_of_a_run_is_found_and_told(segv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = segv.parent / "run"
    shutil.copytree(segv, run / "records/7.0.1")
    assert commands.main(["classify", "--job-dir", str(run)]) == 0
    told = capsys.readouterr().out
    assert "=== How 7.0.1 is decided ===" in told
    assert "not zero         exit code 139" in told
    assert "IT IS crash" in told
    assert commands.main(["classify", "--job-dir", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["class"] == "crash"


def test_where_no_record_is_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["classify", "--job-dir", str(tmp_path)]) == 2
    assert "no record of an ending in it" in capsys.readouterr().err


@pytest.mark.parametrize("left", [0, 10, 600])
def test_facts_that_are_cut_short_decide_nothing(left: int, segv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (segv / "facts").read_bytes()
    assert len(whole) > left
    (segv / "facts").write_bytes(whole[:left])
    assert commands.main(["classify", "--job-dir", str(segv)]) == 2
    told = capsys.readouterr()
    assert f"{segv}/facts is cut short" in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)


def test_the_runs_own_patterns_are_tried_again(segv: Path, tmp_path: Path) -> None:
    record = shutil.copytree(segv, tmp_path / "run/records/7.0.1")
    (tmp_path / "run/patterns.toml").write_text(OWN_PATTERNS.replace("TokenizerServerError", "Segmentation fault"))
    (record / "log").write_text("0: Segmentation fault: unreachable\n")
    assert decide(record).told["fingerprint"].startswith("log:tokenizer_server:")
