"""pbsdsh: run a program once for each line of the nodefile; status 0 whatever becomes of it (facts §5)."""

from __future__ import annotations

import os
import sys
import threading

from standin import client, conf, wire

USAGE = """usage: pbsdsh [-c copies][-s][-v][-o] -- program [args]...
       pbsdsh [-n nodenumber][-s][-v][-o] -- program [args]...
       pbsdsh --version"""


def run(number: int, host: str, argv: list[str]) -> None:
    answer = wire.ask("127.0.0.1", conf.MOM_PORT, None, op="spawn", job=os.environ["PBS_JOBID"], host=host, argv=argv)
    status = int(answer.get("status", 254))
    if status:
        print(f"pbsdsh: task 0x{number + 1:08x} exit status {status}", flush=True)


def main(words: list[str]) -> int:
    cut = words.index("--") if "--" in words else len(words)
    index: int | None = None
    argv: list[str] = []
    left = list(words[:cut])
    while left:
        word = left.pop(0)
        if word == "-n":
            index = int(left.pop(0))
        elif word in ("-s", "-v", "-o", "-c"):
            continue
        elif word.startswith("-"):
            client.fail(USAGE, 2)
        else:
            argv = [word, *left]
            break
    argv = argv or words[cut + 1 :]
    if not argv:
        client.fail(USAGE, 2)
    lines = wire.ask("127.0.0.1", conf.MOM_PORT, None, op="lines_of", job=os.environ["PBS_JOBID"])["lines"]
    # An index past the end means the first host.
    chosen = lines if index is None else [lines[index] if index < len(lines) else lines[0]]
    tasks = [threading.Thread(target=run, args=(number, host, argv)) for number, host in enumerate(chosen)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    sys.stdout.flush()
    return 0
