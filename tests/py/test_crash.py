"""outlast crash as it is typed, and logs that are hard to read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outlast import commands
from outlast.crash import analyse, names, patterns, scan, source, verdict

ROOT = Path(__file__).parents[2]
BOOK = patterns.load()
STEP = "[titan] 2025-04-08 11:20:51,000 - root - INFO - step: {}  loss:  2.77  grad_norm:  0.38  tps: 2,932\n"
ECC = "[rank17]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def steps(first: int, count: int) -> str:
    return "".join(STEP.format(number) for number in range(first, first + count))


def judged(log: Path, code: int | None = 1) -> verdict.Verdict:
    return analyse.once([log], names.Layout(), BOOK, code, "slurm")


def test_a_host_file_and_ranks_per_node_name_the_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.log").write_text(steps(700, 3) + ECC)
    (tmp_path / "hosts").write_text("gpu-[021-024]\n")
    words = ["--hosts", str(tmp_path / "hosts"), "--ranks-per-node", "8", "--json"]
    assert commands.main(["crash", str(tmp_path / "job.log"), *words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pattern"], told["blame_nodes"], told["blame_ranks"]) == ("gpu_ecc", ["gpu-023"], [17])
    assert told["evidence"][0] == {"file": str(tmp_path / "job.log"), "line": 4, "text": ECC.strip()}


def test_words_for_bash_are_a_line_each_and_what_is_empty_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log").write_text(steps(700, 3) + ECC.replace("\n", "\x1b[31m key=\x07 password=hunter2\n"))
    assert commands.main(["crash", str(tmp_path / "job.log"), "--words"]) == 0
    told = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert (told["pattern"], told["scope"], told["action"]) == ("gpu_ecc", "hardware", "retry")
    assert (told["confidence"], told["line"]) == ("0.70", "4")
    assert "blame" not in told
    assert told["text"].isprintable()
    assert "hunter2" not in told["text"]


def test_a_host_that_is_not_of_the_job_is_not_blamed(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("srun: error: Node failure on login01\n")
    where = names.Layout(given=["n1", "n2"])
    assert analyse.once([tmp_path / "job.log"], where, BOOK, 1, "slurm").blame_nodes == []


def test_what_comes_out_of_a_log_reaches_no_terminal_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log").write_bytes(b"[rank1]: ValueError: \x9b2J\x1b]0;owned\x07 \xe2\x80\xae evil\n")
    assert commands.main(["crash", str(tmp_path / "job.log"), "--explain"]) == 0
    assert all(char.isprintable() or char == "\n" for char in capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nothing.log"], "No such file"), (["."], "is a folder"), (["job.log", "--scheduler", "lsf"], "slurm or pbs")],
)
def test_what_cannot_be_read_is_said_in_one_line(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.log").write_text("")
    assert commands.main(["crash", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_an_empty_log_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("")
    assert judged(tmp_path / "job.log", None).pattern == "unknown"


def test_steps_that_waited_in_a_buffer_behind_a_rank_s_end_do_not_excuse_it(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    bars = "".join(f"\r {n}%|## | {n}/100 [00:02<00:05,  8.02it/s]" for n in range(56, 66))
    log.write_text(
        "0: {'loss': 2.5, 'grad_norm': 1.3}\n3: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        "3: outlast: rank 3 on frontier00002 ended with code 1 at 1796052348\n"
        f"0: {bars}\r\n0: [rank0]: CollectiveError: Connection closed by peer [10.77.0.12]:38210\n"
    )
    assert judged(log).pattern == "gpu_ecc"


def test_the_last_step_told_twice_is_no_training_that_went_on(tmp_path: Path) -> None:
    """By a bar before the end, and by a line without a number that had waited in a buffer."""
    bar = " 75%|#######5  | 75/100 [00:04<00:02,  8.53it/s]"
    late = "n1 0: {'loss': nan, 'grad_norm': nan, 'epoch': 0.0041}\n"
    raised = "n1 1: [rank1]: RuntimeError: loss is NaN at step 75, stopping\n"
    (tmp_path / "job.log").write_text(bar.replace("75/", "74/") + "\n" + raised + bar + "\n" + late)
    assert judged(tmp_path / "job.log").pattern == "loss_nan"


def test_a_failure_that_training_went_on_after_is_over(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(steps(1, 5) + ECC + steps(6, 5) + "IndexError: list index out of range\n")
    assert judged(tmp_path / "job.log").pattern == "python_exception"


def test_our_own_report_in_a_log_is_not_read_as_news(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(steps(1, 5) + ECC)
    report = verdict.told(judged(log), explain=True)
    log.write_text(f"{report}\n" + steps(5, 1))
    assert judged(log, None).pattern == "running"


def test_logs_of_ranks_are_ordered_by_time(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text("2025-12-18 12:10:44,101 [rank0] ncclRemoteError: A call failed\n")
    (tmp_path / "1.log").write_text("2025-12-18 12:10:43,000 [rank1] KeyError: 'b'\n")
    (tmp_path / "2.log").write_text("2025-12-18 12:10:41,000 [rank2] IndexError: a\n")
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    found = analyse.once(logs, names.Layout(), BOOK, 1, "")
    assert (found.blame_ranks, found.evidence[0].file) == ([2], str(tmp_path / "2.log"))


def test_many_logs_are_read_by_few_greps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(1000):
        (tmp_path / f"{rank:04d}.log").write_text(steps(1, 3) + (ECC.replace("17", str(rank)) if rank == 900 else ""))
    assert source.has_grep()
    started = []
    popen = subprocess.Popen

    def counted(*args: object, **kwargs: object) -> subprocess.Popen[bytes]:
        started.append(args)
        return popen(*args, **kwargs)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(source.subprocess, "Popen", counted)
    found = analyse.once(sorted(tmp_path.glob("*.log")), names.Layout(), BOOK, 1, "")
    assert (found.pattern, found.blame_ranks, len(started)) == ("gpu_ecc", [900], 3)


@pytest.mark.parametrize("has_grep", [True, False])
def test_a_line_is_found_with_its_number_behind_lines_of_many_megabytes(
    has_grep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_grep_works", has_grep)
    log = tmp_path / "job.log"
    size = 10_000_000 if has_grep else 500_000
    long = b"\0" * size + b" appears not to match sizes of\n" + b"x" * 300_000
    log.write_bytes(b"a\n" + long + b"\n" + ECC.encode())
    scanner = scan.Scanner(BOOK, names.Layout())
    scanner.add(source.opened(log))
    scanner.read()
    assert [(event.name, event.line) for event in scanner.seen.events] == [("collective_mismatch", 2), ("gpu_ecc", 4)]


def test_a_line_that_grep_cannot_hold_is_read_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    with log.open("wb") as file:
        file.write(b"[rank3]: KeyError: 'a'\n")
        for _ in range(160):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + ECC.encode())
    scanner = scan.Scanner(BOOK, names.Layout())
    scanner.add(source.opened(log))
    scanner.read()
    assert [(event.name, event.line) for event in scanner.seen.events] == [("python_exception", 1), ("gpu_ecc", 3)]


def test_memory_stays_small(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    with log.open("w") as file:
        for rank in range(20_000):
            file.write(f"[rank{rank}]: ncclRemoteError: A call failed possibly due to a network error\n")
            file.write(STEP.format(1) * 9)
    program = """
import resource, sys
from pathlib import Path
from outlast.crash import analyse, names, patterns
analyse.once([Path(sys.argv[1])], names.Layout(), patterns.load(), 1, "")
print(sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "pyhelpers")}
    done = subprocess.run([sys.executable, "-c", program, log], env=env, capture_output=True, text=True, timeout=110)
    assert int(done.stdout) < 200 << 10, done.stderr


def test_follow_reads_only_what_is_new(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(steps(1, 3) + "[rank17]: RuntimeError: CUDA err")
    told = analyse.growing([log], names.Layout(), BOOK, "slurm")
    first = next(told)
    assert first and first.pattern == "running"
    assert next(told) is None
    with log.open("a") as file:
        file.write("or: uncorrectable ECC error encountered\n")
    second = next(told)
    assert second and (second.pattern, second.evidence[0].line) == ("gpu_ecc", 4)
    assert next(told) is None


def test_follow_begins_anew_when_the_log_was_cut(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(steps(1, 50))
    told = analyse.growing([log], names.Layout(), BOOK, "slurm")
    next(told)
    log.write_text(ECC)
    found = next(told)
    assert found and (found.pattern, found.evidence[0].line) == ("gpu_ecc", 1)


@pytest.mark.parametrize("new", [steps(1, 1), steps(1, 50), "[rank3]: IndexError: list index out of range\n" * 40])
@pytest.mark.parametrize("moved", [False, True])
def test_follow_forgets_what_a_log_said_before_it_was_written_anew(new: str, moved: bool, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(steps(7, 3) + ECC)
    told = analyse.growing([log], names.Layout(), BOOK, "slurm")
    first = next(told)
    assert first and first.pattern == "gpu_ecc"
    if moved:
        log.rename(tmp_path / "old.log")
    log.write_text(new)
    found = next(told)
    assert found and found.pattern == ("python_exception" if "Index" in new else "running")
    assert next(told) is None


def test_no_secret_of_a_log_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_text("0: ValueError: login failed, api_key=0123abcd\n")
    for options in ([], ["--json"], ["--explain"]):
        assert commands.main(["crash", str(log), *options]) == 0
    told = capsys.readouterr().out
    assert "login failed" in told
    assert "0123abcd" not in told
