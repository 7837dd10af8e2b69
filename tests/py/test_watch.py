"""`outlast watch` with real commands that really hang."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]


def start(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "outlast", "watch", "--stacks", str(tmp_path), *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "pyhelpers")}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env, cwd=tmp_path)


def watch(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    done = start(tmp_path, *words)
    out, err = done.communicate(timeout=100)
    return done.returncode, out, err


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def pids(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()]


def test_output_and_exit_code_are_the_commands(tmp_path: Path) -> None:
    assert watch(tmp_path, "--", "bash", "-c", "echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")


def test_a_death_by_a_signal_is_told_as_a_shell_tells_it(tmp_path: Path) -> None:
    assert watch(tmp_path, "--", "bash", "-c", "kill -SEGV $$")[0] == 128 + signal.SIGSEGV


def test_all_output_of_a_command_that_has_ended_is_passed_on(tmp_path: Path) -> None:
    code, out, _ = watch(tmp_path, "--", sys.executable, "-c", "print('x' * 3_000_000)")
    assert (code, len(out)) == (0, 3_000_001)


def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    code, out, _ = watch(tmp_path, "--", "bash", "-c", "sleep 300 & echo $!")
    os.kill(int(out), signal.SIGKILL)
    assert code == 0


def test_one_that_hangs_is_ended_with_all_its_processes_and_that_is_124(tmp_path: Path) -> None:
    # A child that ignores TERM, and one with a session of its own.
    script = """trap '' TERM
bash -c 'trap "" TERM; echo $$ >>pids; exec sleep 300' &
setsid bash -c 'echo $$ >>pids; exec sleep 300' &
echo $$ >>pids; until [[ $(wc -l <pids) == 3 ]]; do echo; sleep 0.1; done
echo started; while :; do sleep 300; done"""
    code, out, err = watch(tmp_path, "--idle", "2", "--grace", "1", "--", "bash", "-c", script)
    assert (code, out.strip()) == (124, "started")
    assert "hangs, try 1 of 1: no output for 2 s" in err
    assert len(pids(tmp_path / "pids")) == 3
    assert all(map(gone, pids(tmp_path / "pids")))
    (stacks,) = tmp_path.glob("outlast-watch.*.1.txt")
    assert stacks.read_text().count("sleep 300") >= 2
    assert "waits in" in stacks.read_text()


def test_no_secret_of_a_command_line_is_in_the_stacks(tmp_path: Path) -> None:
    words = ["bash", "-c", "sleep 300; :", "train", "--api-key", "hunter2"]
    assert watch(tmp_path, "--idle", "1", "--grace", "1", "--", *words)[0] == 124
    (stacks,) = tmp_path.glob("outlast-watch.*.1.txt")
    assert "train --api-key ***" in stacks.read_text()
    assert "hunter2" not in stacks.read_text()


def test_it_is_tried_again_and_the_try_that_works_counts(tmp_path: Path) -> None:
    script = "echo turn >>turns; [[ $(wc -l <turns) -gt 1 ]] || sleep 300; exit 7"
    code, _, err = watch(tmp_path, "--idle", "1", "--retries", "3", "--", "bash", "-c", script)
    assert code == 7
    assert "trying again in 5 s" in err
    assert (tmp_path / "turns").read_text() == "turn\n" * 2


def test_chat_is_no_progress_where_steps_are_asked_for(tmp_path: Path) -> None:
    script = "for i in 1 2 3; do echo step $i; sleep 0.5; done; while echo heartbeat; do sleep 0.1; done"
    code, out, err = watch(tmp_path, "--idle", "2", "--step-regex", "step ([0-9]+)", "--", "bash", "-c", script)
    assert code == 124
    assert "no new step for 2 s" in err
    assert out.count("heartbeat") > 5


def test_dots_without_a_line_end_are_output(tmp_path: Path) -> None:
    script = "for i in {1..12}; do printf .; sleep 0.5; done"
    assert watch(tmp_path, "--idle", "3", "--", "bash", "-c", script) == (0, "." * 12, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_passed_on_and_the_command_decides(number: signal.Signals, tmp_path: Path) -> None:
    script = f"trap 'echo told; exit 9' {number.name}; echo ready; while :; do sleep 0.1; done"
    watching = start(tmp_path, "--retries", "3", "--", "bash", "-c", script)
    assert watching.stdout and watching.stdout.readline() == "ready\n"
    watching.send_signal(number)
    assert watching.stdout.readline() == "told\n"
    assert watching.wait(60) == 9


def test_a_signal_between_two_tries_ends_it(tmp_path: Path) -> None:
    watching = start(tmp_path, "--idle", "0.5", "--retries", "3", "--grace", "0.1", "--", "sleep", "300")
    assert watching.stderr
    until(lambda: watching.stderr and "trying again" in watching.stderr.readline())
    watching.terminate()
    assert watching.wait(60) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), 2, "no command; type outlast watch"),
        (("--step-regex", "step", "--", "true"), 2, "takes one group"),
        (("--idle", "0", "--", "true"), 2, "takes seconds, such as 600, not '0'"),
        (("--retries", "٣", "--", "true"), 2, "takes a number, such as 3, not '٣'"),
        (("--", "no-such-program"), 127, "no-such-program: No such file or directory"),
        (("--", "/etc"), 126, "/etc: Permission denied"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(words: tuple[str, ...], status: int, said: str, tmp_path: Path) -> None:
    code, out, err = watch(tmp_path, *words)
    assert (code, out) == (status, "")
    assert said in err
