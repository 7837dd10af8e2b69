"""What an agent of the sidecar does for one checkpoint, as a process of its own: agent_copy.py SOURCE INTO.

It is asked as the coordinator asks it, share by share. Prints the seconds that it took, and its peak memory in MiB.
"""

import resource
import sys
import time
from pathlib import Path
from queue import Queue

from outlast.sidecar import agent, disk, transfer
from outlast.sidecar.judge import Part


def main(source: Path, into: Path) -> None:
    """Copy the checkpoint SOURCE to the folder INTO."""
    agent.tame()
    said: Queue[agent.Message] = Queue()
    name = source.name
    listed, _ = disk.listing(str(source.parent), name)
    files = {path: Part("here", size, mtime_ns) for path, size, mtime_ns in listed}
    whole = transfer.Transfer(name, 1, f"{name}.1", ".incoming", files, 0.0)
    at_work = agent.Agent(agent.Place(str(into), str(source.parent), "step-", str(into)), said.put)
    begun = time.monotonic()
    while left := whole.left():
        share = transfer.share(whole, left["here"])
        rows = [[path, files[path].size, files[path].mtime_ns] for path in share]
        question = {"m": "copy", "id": 1, "name": name, "key": "none", "into": ".incoming", "files": rows}
        at_work.take({**question, "hash": "xxh3_128" if disk.has_xxh3() else "blake2b", "rate": 0})
        while (answer := said.get())["m"] != "done":
            for path, _, digest in answer["files"]:
                whole.has(path, digest)
        if "error" in answer:
            raise SystemExit(f"agent_copy: {answer}")
    seconds = time.monotonic() - begun
    print(f"{seconds:.3f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
