"""qstat: what the server knows of jobs, and of queues."""

from __future__ import annotations

import sys
from typing import Any

from standin import client, show
from standin.wire import Message

USAGE = """usage: 
qstat [-f] [-J] [-p] [-t] [-x] [-E] [-F format | -w] [-D delim] [ job_identifier... | destination... ]
qstat [-a|-i|-r|-H|-T] [-J] [-t] [-u user] [-n] [-s] [-G|-M] [-1] [-w]
	[ job_identifier... | destination... ]
qstat -Q [-f] [-F format] [-D delim] [ destination... ]
qstat -q [-G|-M] [ destination... ]
qstat -B [-f] [-F format] [-D delim] [ server_name... ]
qstat --version"""  # noqa: W291 # as it is
NO_CONNECTION = 255


def main(words: list[str]) -> int:
    found, ids = client.options(words, "fJptxEF:wD:airHTu:ns1QqB", USAGE)
    given = dict(found)
    client.not_here(set(given) & {"-a", "-i", "-r", "-T", "-n", "-s", "-w", "-p", "-J", "-t", "-E", "-q"})
    if "-F" in given and "-f" not in given and "-Q" not in given and "-B" not in given:
        client.fail(f"qstat: conflicting options.\n{USAGE}", 2)
    if "-Q" in given or "-B" in given:
        return queues("-f" in given)
    history = "-x" in given or "-H" in given
    whole = [client.job_id(word) for word in ids]
    if None in whole:
        return 1
    answer = client.ask("status", connection_status=NO_CONNECTION, ids=whole, history=history)
    jobs = [job for job in answer["jobs"] if "attributes" in job]
    users = given.get("-u", "").split(",") if "-u" in given else []
    jobs = [job for job in jobs if not users or job["attributes"]["Job_Owner"].partition("@")[0] in users]
    write(jobs, given, bool(ids))
    return complain(answer["jobs"])


def write(jobs: list[Message], given: dict[str, str], named: bool) -> None:
    """To stdout, in the form that was asked for."""
    if given.get("-F") == "json":
        # Of several ids only the first one is shown (facts §1, 16).
        shown = jobs[:1] if named else jobs
        members: dict[str, Any] = {job["id"]: show.nested(job["attributes"]) for job in shown}
        print(show.as_json(**({"Jobs": members} if members else {})))
    elif given.get("-F") == "dsv":
        for job in jobs:
            print(show.dsv(job["id"], job["attributes"]))
    elif "-f" in given:
        for job in jobs:
            print(show.text(job["id"], job["attributes"]))
    else:
        print(show.table([(job["id"], job["attributes"]) for job in jobs]), end="")


def complain(jobs: list[Message]) -> int:
    """The status: that of the last job that could not be shown."""
    status = 0
    for job in jobs:
        if job.get("code"):
            status = job["code"] & 255
            unknown = status == 153
            print(
                f"qstat: {job['text']} {job['id']}" if unknown else f"qstat: {job['id']} {job['text']}", file=sys.stderr
            )
    return status


def queues(whole: bool) -> int:
    answer = client.ask("queues", connection_status=NO_CONNECTION)
    for name, settings in answer["queues"].items():
        print(f"Queue: {name}" if whole else name)
        if whole:
            print("".join(f"    {key} = {value}\n" for key, value in settings.items()))
    return 0
