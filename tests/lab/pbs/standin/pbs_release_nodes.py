"""pbs_release_nodes: a running job gives hosts back."""

from __future__ import annotations

import os

from standin import client

USAGE = "usage: pbs_release_nodes [-j job_identifier] [-k select] [host_or_resource_list] | -a"


def main(words: list[str]) -> int:
    found, names = client.options(words, "j:ak:", USAGE)
    given = dict(found)
    job = given.get("-j") or os.environ.get("PBS_JOBID")
    if not job:
        client.fail("pbs_release_nodes: No jobid given", 2)
    everything = "-a" in given
    whole = client.job_id(job)
    answer = client.ask("release_hosts", host=client.host(), job_id=whole, names=names, everything=everything)
    if answer.get("code"):
        client.fail(f"pbs_release_nodes: {answer['text']}", answer["code"] & 255)
    return 0
