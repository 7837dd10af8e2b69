"""From a fault to the first step of the next launch: with outlast and a spare, and where Slurm requeues a bare script.

Both train side by side, each in a lab of its own, so both meet the same machine. Needs root, and PYTHONPATH=tests/lab.
`recovery.py WORD...`: only the faults with one of these words.
"""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from commands import Row
from harness import CHECKOUT, Lab, running, wait_for

NODES, HOSTS = 4, 6
# When Slurm misses a host: its own default, which Frontier has as well.
SLURMD_TIMEOUT_S = int(os.environ.get("OUTLAST_BENCH_SLURMD_TIMEOUT", "300"))
REBOOT_S = 20
# Trained before the fault, so that outlast knows the trainer's pace.
BEFORE_S = 60
LIMIT_S = 600

TRAIN = "python3 -u train.py --max_steps 100000 --save_steps 20 --logging_steps 5 --eval_steps 0 --step_time 0.5"

# Its first rank tells of each step when this launch of it began, and when the step was made.
TRAINER = f"""
import sys, time

sys.path.insert(0, {str(CHECKOUT / "pyhelpers")!r})
from outlast.demo import train

began = time.time()


class Trainer(train.Trainer):
    def step(self):
        flags = super().step()
        if self.place.rank == 0:
            with open("steps", "a") as steps:
                print(began, time.time(), file=steps)
        return flags


train.Trainer = Trainer
sys.exit(train.main())
"""

# What people write who have no outlast: from the newest checkpoint, and again if it ends badly.
BARE = f"""#!/bin/bash
#SBATCH --account=abc123 --nodes={NODES} --ntasks-per-node=1 --time=60 --requeue --open-mode=append --output=bare.out
export MASTER_ADDR=$(hostname) MASTER_PORT=$((20000 + SLURM_RESTART_COUNT)) WORLD_SIZE={NODES} PYTHONUNBUFFERED=1
resume=""
[[ -z $(find checkpoints -name trainer_state.json) ]] || resume="--resume_from_checkpoint True"
srun --kill-on-bad-exit=1 bash -c 'RANK=$SLURM_PROCID exec "$@"' rank {TRAIN} --output_dir checkpoints $resume ||
  scontrol requeue "$SLURM_JOB_ID"
"""


@dataclass(frozen=True)
class Fault:
    """Something that befalls a job, on its third host or on its first."""

    what: str
    strike: Callable[[Lab, str], object]
    slot: int = 2


def signal_rank(name: str) -> Callable[[Lab, str], object]:
    """To a host's rank, which is a Python."""
    return lambda lab, host: lab.root(host, "pkill", f"-{name}", "-f", "^[^ ]*python[0-9.]* -u train.py")


def reboot(lab: Lab, host: str) -> None:
    """It loses its power, and is back before Slurm misses it."""
    lab.command("off", host)
    time.sleep(REBOOT_S)
    lab.command("on", host)


FAULTS = (
    Fault("a rank is killed", signal_rank("KILL")),
    Fault("a host is lost", lambda lab, host: lab.command("off", host)),
    Fault("a host is cut off", lambda lab, host: lab.command("cut", host)),
    Fault(f"a host is off and on again in {REBOOT_S} s", reboot),
    Fault("a rank stands still", signal_rank("STOP")),
    Fault("the first host is lost", lambda lab, host: lab.command("off", host), slot=0),
)


def with_outlast(lab: Lab) -> str:
    """The id of a job that trains, with one spare."""
    told = [f"nodes={NODES}", "ranks_per_node=1", "spares=1", "progress.target_step=100000", "walltime_s=3600"]
    told.append("watchdog.idle_s=300")  # what it has come down to when a run has been watched for an hour
    told.append(f"command={TRAIN} --output_dir {{ckpt_dir}} {{resume}}")
    lab.render(*(word for text in told for word in ("--set", text)))
    return lab.submit()


def bare(lab: Lab) -> str:
    """The id of one that has only Slurm."""
    (lab.on_disk(lab.project) / "checkpoints").mkdir()
    os.chown(lab.on_disk(lab.project) / "checkpoints", 61001, 61000)
    lab.write("bare.sh", BARE)
    return lab.submit(script="bare.sh")


def steps(lab: Lab) -> list[tuple[float, float]]:
    """When the launch of each step began, and when it was made."""
    path = lab.on_disk(lab.project) / "steps"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(float(began), float(made)) for began, made in (line.split() for line in lines)]


def recovery_s(fault: Fault, submit: Callable[[Lab], str]) -> float | None:
    """From the fault until training goes on; none: not within LIMIT_S."""
    lab: Lab
    with running(HOSTS) as lab:
        lab.miss_hosts_for(SLURMD_TIMEOUT_S)
        lab.write("train.py", TRAINER)
        job = submit(lab)
        wait_for(lambda: steps(lab) and steps(lab)[-1][1] - steps(lab)[0][1] > BEFORE_S, 2 * BEFORE_S + 60, "steps")
        struck_s = time.time()
        fault.strike(lab, lab.host_of(job, fault.slot))
        while time.time() - struck_s < LIMIT_S:
            again = [made for began, made in steps(lab) if began > struck_s]
            if again:
                return again[0] - struck_s
            time.sleep(0.5)
        return None


def shown(seconds: float | None) -> str:
    """As the table has it."""
    return f"not within {LIMIT_S} s" if seconds is None else f"{seconds:.0f} s"


def row(fault: Fault) -> Row:
    """A line of the table."""
    with ThreadPoolExecutor() as pool:
        ours, theirs = pool.map(lambda submit: recovery_s(fault, submit), (with_outlast, bare))
    ratio = f"{ours / theirs:.2f}" if ours and theirs else "-"
    return fault.what, shown(ours), f"{shown(theirs)}, a requeue", ratio


def main(words: list[str]) -> None:
    """Print a line of the table for each fault."""
    for fault in FAULTS:
        if any(word in fault.what for word in words):
            print("| " + " | ".join(row(fault)) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [""])
