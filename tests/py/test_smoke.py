"""The smoke job: what its ranks write is a checkpoint, and on this machine it runs as a user runs it, over two jobs."""

import os
import subprocess
from pathlib import Path

import pytest

from outlast import ledger
from outlast.checkpoint import deep, known, listing
from outlast.checkpoint.format import Scene

ROOT = Path(__file__).parents[2]


def test_what_its_ranks_write_is_whole_for_those_who_copy_and_verify_it(tmp_path: Path) -> None:
    program = 'source "$1" && _ol_smoke_save "$2" 20 120'
    subprocess.run(["bash", "-c", program, "test", ROOT / "lib/smoke.sh", tmp_path], check=True, timeout=30)
    (found,) = known.find({"n1": listing.scan(tmp_path)}, "checkpoint-")
    scene = Scene(now=2e9, writer="gone", ended=2e9, marker="trainer_state.json", world=2)
    assert (found.format.NAME, found.step) == ("hf", 20)
    assert known.judge(found, lambda path: (tmp_path / path).open("rb"), scene).state == "complete"
    seen = deep.look(tmp_path / "checkpoint-20")
    assert (seen.problems, seen.tensors) == ([], 1)


@pytest.mark.timeout(240)
def test_a_second_job_resumes_on_node_local_storage_and_finishes(checkout: Path, tmp_path: Path) -> None:
    env = {**os.environ, "OUTLAST_LOCAL_QUEUE": str(checkout / "queue"), "XDG_CONFIG_HOME": str(tmp_path)}
    run = checkout / "runs/smoke"
    # As it is, but for its two minutes.
    short = ["command=ol_smoke {ckpt_dir} --steps 15 {resume}", "deadline.train_at_most_s=12", "guard.max_jobs=0"]
    words = [word for text in [f"runs_dir={run.parent}", *short] for word in ("--set", text)]
    subprocess.run([checkout / "bin/outlast", "submit", "local", "smoke", *words], env=env, check=True, timeout=60)
    told = subprocess.run(
        [checkout / "bin/outlast", "events", run, "--follow"], env=env, capture_output=True, text=True, timeout=200
    ).stdout
    events = ledger.read(run / "events.jsonl")
    # Two jobs, and more where a busy machine takes long to start them.
    *before, last = [event.text("class") for event in events if event.name == "ended"]
    assert (set(before), last) == ({"walltime"}, "done"), told
    assert not [event for event in events if event.name == "checkpoint_torn"], told
    first, *later = [event.number("step") for event in events if event.name == "launched"]
    assert not first and all(later), told
    assert ledger.fold(events).durable_step == 15
    said = "".join(path.read_text() for path in (run / "logs").glob("*.log"))
    assert "smoke: ok resume: " in said and "smoke: ok submit: " in said
    assert "smoke: bad" not in said
