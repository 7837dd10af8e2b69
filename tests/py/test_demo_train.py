"""Real ranks: processes that meet through TCP, as a launcher starts them."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast.demo import checkpoint
from outlast.demo.progress import bar

Rank = subprocess.Popen[bytes]
started: list[Rank] = []
PACKAGE = Path(__file__).parents[2] / "pyhelpers"


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    """Kill the ranks that a failed test would leave."""
    yield
    while started:
        rank = started.pop()
        rank.kill()
        rank.communicate()


def free_port() -> int:
    """One that the kernel gives to nobody who asks for any, before the ranks have it."""
    while True:
        port = random.SystemRandom().randrange(10000, 20000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def launch(folder: Path, words: str, world: int = 1, environ: dict[str, str] | None = None) -> list[Rank]:
    shared = os.environ | {
        "PYTHONPATH": str(PACKAGE),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    command = [sys.executable, "-u", "-m", "outlast.demo.train", *words.split()]
    pipe = subprocess.PIPE
    ranks = [
        subprocess.Popen(
            command, cwd=folder, env=shared | {"RANK": str(rank)} | (environ or {}), stdout=pipe, stderr=pipe
        )
        for rank in range(world)
    ]
    started.extend(ranks)
    return ranks


def ended(ranks: list[Rank]) -> tuple[list[int], list[str], list[str]]:
    """Exit codes, stdout and stderr, in rank order."""
    texts = [rank.communicate(timeout=60) for rank in ranks]
    return [rank.returncode for rank in ranks], [out.decode() for out, _ in texts], [err.decode() for _, err in texts]


def order(folder: Path, **fault: object) -> None:
    (folder / "faults.json").write_text(json.dumps(fault))


def history(folder: Path, step: int) -> list[dict[str, float]]:
    state = json.loads((folder / f"checkpoints/checkpoint-{step}/trainer_state.json").read_text())
    entries: list[dict[str, float]] = state["log_history"]
    return entries


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_deaf(rank: Rank) -> bool:
    """Does it ignore TERM?"""
    (mask,) = re.findall(r"SigIgn:\s*(\w+)", Path(f"/proc/{rank.pid}/status").read_text())
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


def test_a_resumed_run_has_the_losses_of_an_uninterrupted_one_to_the_bit(tmp_path: Path) -> None:
    words = "--max_steps 12 --save_steps 5 --logging_steps 1 --eval_steps 4"
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    for folder in (whole, parted):
        folder.mkdir()
    order(parted, kind="kill", rank=1, step=7)
    assert ended(launch(whole, words, world=2))[0] == [0, 0]
    assert ended(launch(parted, words, world=2))[0] == [1, -signal.SIGKILL]
    (parted / "faults.json").unlink()
    resume = " --resume_from_checkpoint checkpoints/checkpoint-5"
    assert ended(launch(parted, words + resume, world=2))[0] == [0, 0]
    assert history(parted, 12) == history(whole, 12)
    for name in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = (folder / "checkpoints/checkpoint-12" / name for folder in (parted, whole))
        assert ours.read_bytes() == theirs.read_bytes()


def test_the_model_learns(tmp_path: Path) -> None:
    ended(launch(tmp_path, "--max_steps 150 --eval_steps 50"))
    tests = [entry["eval_loss"] for entry in history(tmp_path, 150) if "eval_loss" in entry]
    assert tests == sorted(tests, reverse=True)
    assert tests[-1] < 2.9


def test_when_a_rank_dies_the_others_name_the_connection_and_exit_1(tmp_path: Path) -> None:
    order(tmp_path, kind="segv", rank=1, step=3)
    codes, _, errors = ended(launch(tmp_path, "--max_steps 50", world=3))
    assert codes == [1, -signal.SIGSEGV, 1]
    assert "[rank0]: " in errors[0]
    assert "Connection closed by peer [127.0.0.1]:" in errors[0]
    assert "Connection closed by peer [127.0.0.1]:" in errors[2]


def test_a_rank_can_stay_after_another_has_died(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text('[{"kind": "kill", "rank": 1, "step": 3}, {"kind": "stay", "rank": 2}]')
    ranks = launch(tmp_path, "--max_steps 50", world=3)
    assert ranks[0].wait(timeout=60) == 1
    until(lambda: is_deaf(ranks[2]))
    with pytest.raises(subprocess.TimeoutExpired):
        ranks[2].wait(timeout=1)
    ranks[2].terminate()  # deaf
    with pytest.raises(subprocess.TimeoutExpired):
        ranks[2].wait(timeout=0.5)
    ranks[2].kill()
    assert ended(ranks)[0] == [1, -signal.SIGKILL, -signal.SIGKILL]


def test_a_silent_peer_is_given_up_in_time(tmp_path: Path) -> None:
    order(tmp_path, kind="hang", rank=1, step=3)
    ranks = launch(tmp_path, "--max_steps 50 --ddp_timeout 3", world=2)
    assert ranks[0].wait(timeout=60) == 1
    ranks[1].kill()
    assert "Timed out waiting 3000ms for peer" in ended(ranks)[2][0]


def test_ranks_that_start_from_different_steps_do_not_train(tmp_path: Path) -> None:
    ended(launch(tmp_path, "--max_steps 4"))
    order(tmp_path, kind="fresh_start", rank=1)
    ranks = launch(tmp_path, "--max_steps 8 --resume_from_checkpoint True", world=2)
    codes, _, errors = ended(ranks)
    assert codes == [1, 1]
    assert "different steps: {0: 4, 1: 0}" in errors[0]


def test_a_rank_killed_in_a_save_leaves_no_complete_checkpoint(tmp_path: Path) -> None:
    order(tmp_path, kind="slow_save", seconds=60)
    (rank,) = launch(tmp_path, "--max_steps 5")
    folder = tmp_path / "checkpoints/checkpoint-5"
    until((folder / "rng_state.json").exists)
    rank.kill()
    rank.communicate()
    assert (folder / "model.safetensors").exists()
    assert not (folder / "trainer_state.json").exists()
    with pytest.raises(checkpoint.CheckpointError, match="Can't find a valid checkpoint"):
        checkpoint.load(folder)


def test_a_full_disk_fails_all_ranks(tmp_path: Path) -> None:
    order(tmp_path, kind="enospc")
    codes, _, errors = ended(launch(tmp_path, "--max_steps 5", world=2))
    assert codes == [1, 1]
    assert "[Errno 28] No space left on device" in errors[0]
    assert not (tmp_path / "checkpoints/checkpoint-5/trainer_state.json").exists()


def stopped_at(folder: Path, ranks: list[Rank]) -> int:
    """The step of the one checkpoint, after all ranks have ended well."""
    assert ended(ranks)[0] == [0] * len(ranks)
    (only,) = checkpoint.found(folder / "checkpoints")
    return checkpoint.load(only).progress.step


def test_the_stop_file_saves_and_ends_all_ranks_with_0(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    order(tmp_path, kind="slow_start", seconds=0, once="started")  # markers tell that the ranks are up
    ranks = launch(
        tmp_path,
        "--max_steps 1000 --save_steps 0 --step_time 0.05",
        world=2,
        environ={"OUTLAST_STOP_FILE": str(stop)},
    )
    until((tmp_path / "started.1").exists)
    stop.touch()
    assert 0 < stopped_at(tmp_path, ranks) < 1000


def test_term_to_one_rank_saves_and_ends_all_ranks_with_0(tmp_path: Path) -> None:
    ranks = launch(tmp_path, "--max_steps 1000 --save_steps 0 --step_time 0.05 --logging_steps 1", world=2)
    assert ranks[0].stdout
    ranks[0].stdout.readline()  # the first log line: the ranks have met
    ranks[1].terminate()
    assert 0 < stopped_at(tmp_path, ranks) < 1000


def test_term_again_and_again_does_not_spoil_the_0(tmp_path: Path) -> None:
    (rank,) = launch(tmp_path, "--max_steps 1000 --save_steps 0 --step_time 0.05 --logging_steps 1")
    assert rank.stdout
    rank.stdout.readline()
    while rank.poll() is None:
        rank.terminate()
        time.sleep(0.001)
    assert 0 < stopped_at(tmp_path, [rank]) < 1000


def test_usr1_saves_and_goes_on(tmp_path: Path) -> None:
    (rank,) = launch(tmp_path, "--max_steps 60 --save_steps 0 --step_time 0.02 --logging_steps 1")
    assert rank.stdout
    rank.stdout.readline()
    rank.send_signal(signal.SIGUSR1)
    assert ended([rank])[0] == [0]
    first, last = checkpoint.found(tmp_path / "checkpoints")
    assert first.name != last.name == "checkpoint-60"


def test_who_ignores_signals_ignores_the_stop_file_too(tmp_path: Path) -> None:
    order(tmp_path, kind="ignore_signals")
    (tmp_path / "stop").touch()
    ranks = launch(tmp_path, "--max_steps 20", environ={"OUTLAST_STOP_FILE": str(tmp_path / "stop")})
    assert stopped_at(tmp_path, ranks) == 20


def test_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    ended(launch(tmp_path, "--max_steps 12 --save_steps 2 --save_total_limit 2"))
    assert [path.name for path in checkpoint.found(tmp_path / "checkpoints")] == ["checkpoint-10", "checkpoint-12"]


def test_it_prints_as_the_trainer_does_and_takes_its_other_arguments(tmp_path: Path) -> None:
    _, (out,), (err,) = ended(launch(tmp_path, "--max_steps 10 --bf16 --gradient_checkpointing True"))
    assert out.startswith("{'loss': ")
    assert "'learning_rate': " in out
    assert "without meaning here: --bf16 --gradient_checkpointing True" in err
    assert err.index("\r  0%|          | 0/10 [") < err.index("\r100%|##########| 10/10 [")


def test_plain_lines_have_step_and_loss(tmp_path: Path) -> None:
    _, (out,), (err,) = ended(launch(tmp_path, "--max_steps 10 --plain --eval_steps 10"))
    first, second, _ = out.splitlines()
    assert first.split()[:3] == ["step", "10", "loss"]
    assert second.split()[:3] == ["step", "10", "eval"]
    assert "\r" not in err


def test_the_bar_is_tqdms() -> None:
    assert bar(120, 1000, passed_s=10, steps_made=120) == " 12%|#2        | 120/1000 [00:10<01:13, 12.00it/s]"
    assert bar(0, 1000, passed_s=0, steps_made=0) == "  0%|          | 0/1000 [00:00<?, ?it/s]"
