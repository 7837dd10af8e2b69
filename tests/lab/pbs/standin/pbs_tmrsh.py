"""pbs_tmrsh: run a program on a host of the job. Only its status comes back (facts §5)."""

from __future__ import annotations

import os
import sys

from standin import client, conf, wire

USAGE = "Usage: pbs_tmrsh host [-n][-l username] command [args ...]"


def main(words: list[str]) -> int:
    if len(words) < 2:
        client.fail(USAGE, 255)
    host, argv = words[0], [word for word in words[1:] if word != "-n" or words.index(word) > 1]
    job = os.environ.get("PBS_JOBID", "")
    if not job:
        client.fail("pbs_tmrsh: PBS_JOBID is not set", 255)
    answer = wire.ask("127.0.0.1", conf.MOM_PORT, None, op="spawn", job=job, host=host, argv=argv)
    if not answer["known"]:
        print(f'pbs_tmrsh: host "{host}" is not a node in job <{job}>', file=sys.stderr)
        return 255
    status = int(answer["status"])
    # A remote process that died of a signal: the signal's number, as if it were a code.
    return status - 256 if status > 256 else status
