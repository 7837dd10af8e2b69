"""qmgr -c LINE: root sets a queue's attribute. It is forgotten when the server ends."""

from __future__ import annotations

import sys

from standin import client

USAGE = "usage: qmgr -c directive"


def main(words: list[str]) -> int:
    found, _ = client.options(words, "c:", USAGE)
    if not found:
        client.fail(USAGE, 1)
    answer = client.ask("manage", line=found[-1][1])
    if answer.get("code"):
        print(f"qmgr obj= svr=default: {answer['text']}", file=sys.stderr)
        return int(answer["code"]) & 255
    return 0
