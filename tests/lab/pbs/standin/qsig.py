"""qsig: send a signal to a job's processes on its first host."""

from __future__ import annotations

from standin import client

USAGE = "usage: qsig [-s signal] job_identifier...\n       qsig --version"


def main(words: list[str]) -> int:
    found, ids = client.options(words, "s:", USAGE)
    name = dict(found).get("-s", "TERM")
    if not ids:
        client.fail(USAGE, 2)
    return client.each(ids, lambda job: client.ask("signal", host=client.host(), job_id=job, name=name))
