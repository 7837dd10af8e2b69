"""Ranks as processes: forked from one that has imported all, which takes longer than what they do."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def run(main: Callable[[Path], None]) -> None:
    """Run `ROOT WORLD`: rank R in the folder ROOT/hR of its host, its words in ROOT/hR.log, its end in ROOT/hR.code."""
    root, world = Path(sys.argv[1]), int(sys.argv[2])
    os.environ |= {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    started = {os.fork() or _rank(main, root, rank): rank for rank in range(world)}
    ends = []
    while started:
        pid, status = os.wait()
        ends.append(os.waitstatus_to_exitcode(status))
        (root / f"h{started.pop(pid)}.code").write_text(f"{ends[-1]}\n")
    sys.exit(max(map(abs, ends)))


def _rank(main: Callable[[Path], None], root: Path, rank: int) -> int:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    folder = root / f"h{rank}"
    log = os.open(root / f"h{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        folder.mkdir(parents=True)
        main(folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
