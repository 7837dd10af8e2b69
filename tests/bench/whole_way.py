"""`whole_way.py COUNT FOLDER`: seconds from the last file until it is durable; the coordinator's CPU in s, and MiB.

It is the real sidecar, coordinator and agent, as in tests/py/sidecar_cluster.py.
"""

import os
import sys
import time
from pathlib import Path

from sidecar_cluster import Cluster

LIMIT_S = 600.0


def main(count: int, folder: Path) -> None:
    """The three figures, on stdout."""
    one = Cluster(folder, 1, SIDECAR_S=5)
    one.start_coordinator()
    try:
        top = one.folder("h0") / "step-20"
        for number in range(count - 1):
            path = top / f"{number // 1000}/part-{number:06d}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(100))
        (top / "last.json").write_text("{}")
        began = time.monotonic()
        while 20 not in one.durable_steps():
            if time.monotonic() - began > LIMIT_S:
                sys.exit(f"not durable within {LIMIT_S:.0f} s")
            time.sleep(0.05)
        took = time.monotonic() - began
        status = Path(f"/proc/{one.processes['h0'].pid}")
        ticks = sum(map(int, (status / "stat").read_text().rpartition(")")[2].split()[11:13]))
        peak = next(line for line in (status / "status").read_text().splitlines() if line.startswith("VmHWM"))
        print(took, ticks / os.sysconf("SC_CLK_TCK"), int(peak.split()[1]) / 1024)
    finally:
        one.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
