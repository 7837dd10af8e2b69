"""qselect: the ids of the jobs that are so. None: nothing printed, status 0."""

from __future__ import annotations

from standin import client

USAGE = "usage: qselect [-N name] [-q queue] [-s states] [-u user] [-x] [-H]"


def main(words: list[str]) -> int:
    found, _ = client.options(words, "N:q:s:u:xHP:A:l:", USAGE)
    given = dict(found)
    answer = client.ask("status", ids=[], history="-x" in given or "-H" in given)
    for job in answer["jobs"]:
        attributes = job["attributes"]
        checks = {
            "-N": attributes["Job_Name"],
            "-q": attributes["queue"],
            "-u": attributes["Job_Owner"].partition("@")[0],
        }
        fits = all(given[option] == value for option, value in checks.items() if option in given)
        if fits and attributes["job_state"] in given.get("-s", attributes["job_state"]):
            print(job["id"])
    return 0
