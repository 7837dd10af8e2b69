"""qalter: change a job's attributes."""

from __future__ import annotations

import getopt
import sys
from typing import Any

from standin import client, depends, times
from standin.submission import Options, Wrong

ATTRIBUTES = {"-N": "Job_Name", "-o": "Output_Path", "-m": "Mail_Points", "-M": "Mail_Users", "-A": "Account_Name"}


def main(words: list[str]) -> int:
    options = Options()
    try:
        if "depend=" in words:
            raise Wrong(2, "qalter: illegal -W value")
        ids = options.read(words)
    except getopt.GetoptError as err:
        print(f"qalter: invalid option -- '{err.opt}'", file=sys.stderr)
        return 2
    except Wrong as wrong:
        print(wrong.text.replace("qsub:", "qalter:"), file=sys.stderr)
        return wrong.status
    changes: dict[str, Any] = {
        attribute: options.single[option] for option, attribute in ATTRIBUTES.items() if option in options.single
    }
    if "-a" in options.single:
        changes["Execution_Time"] = int(times.begin(options.single["-a"]) or 0)
    if "-r" in options.single:
        changes["Rerunable"] = "True" if options.single["-r"] == "y" else "False"
    if "-p" in options.single:
        changes["Priority"] = int(options.single["-p"])
    for word in ("tolerate_node_failures", "umask"):
        if word in options.words:
            changes[word] = options.words[word]
    depend = depends.clean(options.words["depend"]) if "depend" in options.words else None
    fields: dict[str, Any] = {"attributes": changes, "resources": options.resources, "depend": depend}
    return client.each(ids, lambda job: client.ask("alter", host=client.host(), job_id=job, **fields))
