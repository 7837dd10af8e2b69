"""Where a job's output goes (facts §8)."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from typing import IO, Any

from standin import conf

SPOOL = conf.HOME / "spool"


class NoFolder(OSError):
    """The file cannot be there: its folder is missing."""


def target(job: dict[str, Any], stream: str) -> Path:
    """The file that `-o` or `-e` means; a folder gets `<jobid>.OU` or `.ER`. `stream` is `o` or `e`."""
    path = Path(job["attributes"]["Output_Path" if stream == "o" else "Error_Path"].partition(":")[2])
    if str(job["attributes"]["Output_Path" if stream == "o" else "Error_Path"]).endswith("/") or path.is_dir():
        return path / f"{job['id']}.{'OU' if stream == 'o' else 'ER'}"
    return path


def open_all(job: dict[str, Any]) -> dict[str, IO[bytes]]:
    """The files for stdout and stderr, `o` and `e`, as the job's processes write them.

    Raises: NoFolder: with `-k doe` the file is the final one, written live, and its folder is not there (facts §1, 13).
    """
    join = job["attributes"].get("Join_Path", "n")
    streams = {"oe": "o", "eo": "e"}.get(join)
    found: dict[str, IO[bytes]] = {}
    for stream in "oe":
        source = streams or stream
        found[stream] = found[source] if source in found else _open(job, source)
    return found


def is_live(job: dict[str, Any], stream: str) -> bool:
    keep = str(job["attributes"].get("Keep_Files", "n"))
    return keep.startswith("d") and stream in keep[1:]


def _open(job: dict[str, Any], stream: str) -> IO[bytes]:
    who = pwd.getpwnam(job["user"])
    path = target(job, stream) if is_live(job, stream) else spooled(job["id"], stream)
    if not path.parent.is_dir():
        raise NoFolder(f"no folder {path.parent}")
    # An existing file is appended to, and keeps its mode; a requeued run goes on in the first one's.
    existed = path.exists()
    file = open(path, "ab", buffering=0)  # noqa: SIM115 # the job's processes have it
    if not existed:
        os.fchown(file.fileno(), who.pw_uid, who.pw_gid)
        os.fchmod(file.fileno(), 0o666 & ~umask(job))
    return file


def umask(job: dict[str, Any]) -> int:
    """077 unless `-W umask` says otherwise (facts §1, 14)."""
    return int(str(job["attributes"].get("umask", "77")), 8)


def spooled(job_id: str, stream: str) -> Path:
    """Where output waits on the first host until the job's end."""
    return SPOOL / f"{job_id}.{'OU' if stream == 'o' else 'ER'}"


def deliver(job: dict[str, Any]) -> bool:
    """Brings spooled files to where they belong, over what is there. False: one could not be brought."""
    whole = True
    who = pwd.getpwnam(job["user"])
    removed = str(job["attributes"].get("Remove_Files", ""))
    for stream in "oe":
        source = spooled(job["id"], stream)
        if not source.exists() or stream in removed:
            continue
        goal = target(job, stream)
        if not goal.parent.is_dir():
            shutil.move(source, conf.HOME / "undelivered" / source.name)
            whole = False
            continue
        goal.unlink(missing_ok=True)
        shutil.copyfile(source, goal)
        os.chown(goal, who.pw_uid, who.pw_gid)
        goal.chmod(0o666 & ~umask(job))
        source.unlink()
    return whole
