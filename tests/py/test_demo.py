"""The whole of it: `outlast demo` as a person sees it, with real jobs, real ranks and a real death."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from outlast import ledger
from outlast.rundir import RunDir

ROOT = Path(__file__).parents[2]


def start(checkout: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "OUTLAST_LOCAL_QUEUE": str(checkout / "queue")}
    words = [checkout / "bin/outlast", "demo"]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)


def run_of(checkout: Path) -> RunDir:
    return RunDir(checkout / "demo-runs/demo-1")


@pytest.mark.timeout(400)
def test_the_demo_loses_a_rank_runs_out_of_time_hangs_and_finishes(checkout: Path) -> None:
    demo = start(checkout)
    told, _ = demo.communicate(timeout=360)  # the demo's own limit is shorter, and says why
    assert demo.returncode == 0, told
    assert "demo: kills rank 1" in told
    assert "ended with signal KILL" in told
    assert "demo: stops rank 1" in told
    assert "s in phase steps, limit 6 s): writes down what its processes do" in told
    (stacks,) = run_of(checkout).path.glob("stacks/*/*.txt")
    assert "State: T (stopped)" in stacks.read_text()
    events = ledger.read(run_of(checkout).events)
    assert [e.text("class") for e in events if e.name == "ended"].count("hang") == 1
    run = ledger.fold(events)
    assert run.finished and run.durable_step == 600
    assert len(run.jobs) >= 2
    assert [job.end for job in run.jobs.values()][-1] == "done"
    assert "step 0" in told and str(run_of(checkout).script) in told


@pytest.mark.timeout(300)
def test_ctrl_c_saves_ends_and_says_how_to_go_on(checkout: Path) -> None:
    job = checkout / "sites/local/demo.toml"
    job.write_text(job.read_text().replace("walltime_s = 40\n", "walltime_s = 600\n"))  # no end of its own comes before
    demo = start(checkout)
    deadline = time.monotonic() + 120
    while not ledger.fold(ledger.read(run_of(checkout).events)).step:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.killpg(demo.pid, signal.SIGINT)
    told, _ = demo.communicate(timeout=120)
    assert demo.returncode == 130
    run = ledger.fold(ledger.read(run_of(checkout).events))
    assert [job.end for job in run.jobs.values()] == ["stopped"]
    assert run.durable_step
    assert f"outlast resume {run_of(checkout).path}" in told
