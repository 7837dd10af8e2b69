"""qdel: end jobs, in the order in which they are named."""

from __future__ import annotations

import sys

from standin import client

USAGE = "usage:\n\tqdel [-W force|suppress_email=X] [-x] job_identifier...\n\tqdel --version"


def main(words: list[str]) -> int:
    found, ids = client.options(words, "W:x", USAGE)
    given = dict(found)
    if not ids:
        print(USAGE, file=sys.stderr)
        return 2
    force, erase = given.get("-W") == "force", "-x" in given
    return client.each(ids, lambda job: client.ask("delete", host=client.host(), job_id=job, force=force, erase=erase))
