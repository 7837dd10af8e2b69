"""outlast sidecar: it makes a job's checkpoints durable. Jobs start it (lib/coordinator, checkpoint, stage)."""

import os
import sys
import time
from pathlib import Path

USAGE = """Usage: outlast sidecar
       outlast sidecar prune RUN_DIR PREFIX KEEP BEST EVERY GRACE_S JOB GENERATION [STEP ...]
       outlast sidecar branch RUN_DIR PREFIX JOB GENERATION FROM RUNS_DIR local|shared
       outlast sidecar reshard CHECKPOINT
       outlast sidecar judge CHECKPOINT PREFIX MARKER QUIET_S running|done|gone ENDED WORLD

Make a job's checkpoints durable while it trains (jobs start this)."""
LOST = 3  # exit status: the run is another job's


def main(argv: list[str]) -> int:
    """Make a job's checkpoints durable while it trains (jobs start this)."""
    if argv[:1] == ["prune"] and len(argv) >= 9:
        return _prune(argv[1:])
    if argv[:1] == ["branch"] and len(argv) == 8:
        return _branch(argv[1:])
    if argv[:1] == ["reshard"] and len(argv) == 2:
        return _reshard(Path(argv[1]))
    if argv[:1] == ["judge"] and len(argv) == 8:
        return _judge(Path(argv[1]), *argv[2:])
    if argv:
        print(USAGE)
        return 0 if argv[0] in ("-h", "--help") else 2
    from outlast.sidecar import coordinator

    try:
        coordinator.main(dict(os.environ))
    except KeyError as err:
        print(f"outlast: sidecar: no {err.args[0]} in the environment: only jobs start this", file=sys.stderr)
        return 2
    return 0


def _prune(words: list[str]) -> int:
    """What lib/checkpoint.sh asks for where Bash copies; the names of what was taken away go to stdout."""
    from outlast.checkpoint.retention import Policy
    from outlast.sidecar import publish, retain

    run_dir, prefix, keep, best, every, grace_s, job, generation, *steps = words
    run = retain.Run(Path(run_dir), prefix, job, generation)
    policy = Policy(max(1, int(keep)), int(best), int(every))
    try:
        removed = retain.prune(run, policy, float(grace_s), [int(step) for step in steps])
    except publish.LeaseLostError as err:
        print(f"outlast: sidecar: {err}", file=sys.stderr)
        return LOST
    print("\n".join(removed))
    return 0


def _reshard(path: Path) -> int:
    """What lib/stage.sh asks for: can another number of ranks load it? `yes`, `no` or `unknown`, a tab, and why."""
    from outlast.checkpoint import known, shelf
    from outlast.checkpoint.listing import scan, snapshots

    for snapshot in snapshots({shelf.HOST: scan(path.parent, path.name)}):
        found = known.of(snapshot)
        if found and snapshot.name == path.name and snapshot.paths():
            told = found.format.reshard(snapshot, shelf.look_into(path.parent))
            print(f"{told.can}\t{told.why}")
            return 0
    print("unknown\tit is no checkpoint that outlast knows")
    return 0


def _judge(path: Path, prefix: str, marker: str, quiet_s: str, writer: str, ended: str, world: str) -> int:
    """What lib/whole.sh asks for: is it complete? A state of checkpoint/format.py, a tab, and why."""
    from outlast.checkpoint import shelf
    from outlast.checkpoint.format import Scene, Writer

    told: dict[str, Writer] = {"running": "running", "done": "done", "gone": "gone"}
    scene = Scene(time.time(), float(quiet_s), told[writer], float(ended), int(world) or None, marker)
    verdict = shelf.judged(path, prefix, scene)
    print(f"{verdict.state}\t{' '.join(verdict.reason.split())}" if verdict else "unknown\tit is no checkpoint")
    return 0


def _branch(words: list[str]) -> int:
    """What lib/main.sh asks for: `done STEP BYTES linked|copied PATH`, or `no` and why."""
    from outlast.refused import Refused
    from outlast.sidecar import branch, publish, retain

    run_dir, prefix, job, generation, text, runs_dir, storage = words
    other, step = branch.source(text, Path(runs_dir))
    run = retain.Run(Path(run_dir), prefix, job, generation)
    try:
        done = branch.take(run, other, step, storage == "shared")
    except publish.LeaseLostError as err:
        print(f"outlast: sidecar: {err}", file=sys.stderr)
        return LOST
    except (branch.BranchError, Refused) as err:
        print(f"no {err}")
        return 0
    print(f"done {done.step} {done.bytes} {'linked' if done.linked else 'copied'} {done.source}")
    return 0
