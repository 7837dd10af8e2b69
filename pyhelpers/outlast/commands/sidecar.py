"""outlast sidecar: what makes a job's checkpoints durable; lib/coordinator.sh starts it, nobody types it."""

import os
import sys


def main(argv: list[str]) -> int:
    """Make a job's checkpoints durable while it trains (jobs start this)."""
    from outlast.sidecar import coordinator

    if argv:
        print("Usage: outlast sidecar\n\nMake a job's checkpoints durable while it trains (jobs start this).")
        return 0 if argv[0] in ("-h", "--help") else 2
    try:
        coordinator.main(dict(os.environ))
    except KeyError as err:
        print(f"outlast: sidecar: no {err.args[0]} in the environment: only jobs start this", file=sys.stderr)
        return 2
    return 0
