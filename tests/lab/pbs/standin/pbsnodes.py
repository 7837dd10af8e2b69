"""pbsnodes: the execution hosts and their states."""

from __future__ import annotations

import sys
from typing import Any

from standin import client, conf, show, times
from standin.wire import Message

USAGE = "usage: pbsnodes [-a] [-l] [-S] [-j] [-v] [-F json] [host...]"
DOWN = ("down", "offline", "unknown")


def attributes(host: Message) -> dict[str, Any]:
    """As `pbsnodes -a` shows them, in its order."""
    ncpus = conf.load().ncpus
    found: dict[str, Any] = {"Mom": host["mom"], "ntype": "PBS", "state": host["state"], "pcpus": ncpus}
    if host["jobs"]:
        found["jobs"] = ", ".join(f"{job}/0" for job in host["jobs"])
    found["resources_available.arch"] = "linux"
    found["resources_available.host"] = host["name"]
    found["resources_available.ncpus"] = ncpus
    found["resources_available.vnode"] = host["name"]
    found["resources_assigned.ncpus"] = host["used"]
    if host["comment"]:
        found["comment"] = host["comment"]
    return {
        **found,
        "resv_enable": "True",
        "sharing": "force_exclhost",
        "license": "l",
        "last_state_change_time": times.date(host["since"]),
    }


def main(words: list[str]) -> int:
    found, names = client.options(words, "alSjvF:HLs:", USAGE)
    given = dict(found)
    client.not_here(set(given) & {"-S", "-j", "-H", "-L", "-s"})
    hosts = {host["name"]: host for host in client.ask("hosts")["hosts"]}
    if "-l" in given:
        for host in hosts.values():
            if any(word in host["state"] for word in DOWN):
                print(f"{host['name']:20} {host['state']:19} {host['comment']}")
        return 0
    status = 0
    shown = {}
    for name in names or (list(hosts) if "-a" in given else []):
        if name in hosts:
            shown[name] = attributes(hosts[name])
        else:
            print(f"Node: {name},  Error: Unknown node ", file=sys.stderr)
            status = 1
    if given.get("-F") == "json":
        print(show.as_json(nodes={name: show.grouped(values) for name, values in shown.items()}))
    else:
        for name, values in shown.items():
            print("\n".join([name, *(f"     {key} = {value}" for key, value in values.items())]) + "\n")
    return status
