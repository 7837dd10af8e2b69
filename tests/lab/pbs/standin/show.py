"""How qstat writes a job: as text, wrapped; as JSON; in the table."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from standin import conf, times

VERSION = "23.06.06"
WIDTH = 79
DATES = ("ctime", "mtime", "qtime", "stime", "etime", "obittime", "Execution_Time")
ORDER = """Job_Name Job_Owner resources_used.cpupercent resources_used.cput resources_used.mem resources_used.ncpus
 resources_used.vmem resources_used.walltime job_state queue server Account_Name Checkpoint ctime depend Error_Path
 exec_host exec_vnode Execution_Time Hold_Types Join_Path Keep_Files Mail_Points Mail_Users mtime Output_Path Priority
 qtime Rerunable Resource_List stime obittime session_id Shell_Path_List jobdir substate Variable_List comment etime
 umask run_count Stageout_status Exit_status Submit_arguments history_timestamp project tolerate_node_failures
 Submit_Host""".split()

Attributes = dict[str, Any]


def _place(name: str) -> tuple[int, str]:
    known = name if name in ORDER else name.partition(".")[0]
    return (ORDER.index(known) if known in ORDER else len(ORDER), name)


def ordered(attributes: Attributes) -> Attributes:
    """In qstat's order, dates as text."""
    found = {}
    for name in sorted(attributes, key=_place):
        value = attributes[name]
        found[name] = times.date(value) if name in DATES else value
    return found


def text(job_id: str, attributes: Attributes) -> str:
    """`qstat -f`. A long value goes on after a line end and a tab (facts §7)."""
    lines = [f"Job Id: {job_id}"]
    lines += [_wrapped(f"    {name} = ", _flat(value)) for name, value in ordered(attributes).items()]
    return "\n".join(lines) + "\n"


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{k}={_escaped(v)}" for k, v in value.items())
    return str(value)


def _escaped(value: str) -> str:
    return value.replace(",", "\\,")


def _wrapped(start: str, value: str) -> str:
    done, column = start, len(start)
    for piece in re.findall(r"[^,]+,?|,", value):
        if column + len(piece) > WIDTH and column > 8 and done != start:
            done, column = done + "\n\t", 8
        while column + len(piece) >= WIDTH:
            cut = WIDTH - column
            done, column, piece = f"{done}{piece[:cut]}\n\t", 8, piece[cut:]
        done, column = done + piece, column + len(piece)
    return done


def dsv(job_id: str, attributes: Attributes) -> str:
    """`qstat -f -F dsv`: all in one line."""
    return "|".join([f"Job Id: {job_id}", *(f"{name}={_flat(value)}" for name, value in ordered(attributes).items())])


def nested(attributes: Attributes) -> Attributes:
    """In qstat's order, `Resource_List.ncpus` as a member of `Resource_List`."""
    return grouped(ordered(attributes))


def as_json(**members: Any) -> str:
    """`-F json`: a head, then what was asked for."""
    head = {"timestamp": int(time.time()), "pbs_version": VERSION, "pbs_server": conf.load().server}
    return json.dumps({**head, **members}, indent="\t", separators=(",", ":\t"))


def table(jobs: list[tuple[str, Attributes]]) -> str:
    """Plain `qstat`."""
    if not jobs:
        return ""
    lines = [
        "Job id            Name             User              Time Use S Queue",
        "----------------  ---------------- ----------------  -------- - -----",
    ]
    for job_id, attributes in jobs:
        sequence, _, server = job_id.partition(".")
        user = attributes["Job_Owner"].partition("@")[0]
        used = attributes.get("resources_used.cput", 0)
        lines.append(
            f"{_cut(sequence + '.' + conf.short(server), 17):17} {_cut(attributes['Job_Name'], 16):16} "
            f"{_cut(user, 16):16}  {used!s:>8} {attributes['job_state']} {attributes['queue']:16}"
        )
    return "\n".join(lines) + "\n"


def _cut(word: str, width: int) -> str:
    return word if len(word) <= width else word[: width - 1] + "*"


def grouped(attributes: Attributes) -> Attributes:
    """Names with a dot as members of their first part, in the order given."""
    found: Attributes = {}
    for name, value in attributes.items():
        outer, dot, inner = name.partition(".")
        if dot:
            found.setdefault(outer, {})[inner] = value
        else:
            found[name] = value
    return found
