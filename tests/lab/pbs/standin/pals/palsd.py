"""palsd: on each execution host, gives mpiexec a shepherd."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys

from standin import wire
from standin.pals import PORT
from standin.wire import Line, Message


def launch(line: Line, message: Message) -> None:
    """The shepherd has the connection from now on, as the user who asks."""
    who = pwd.getpwnam(message["user"])
    folder = os.path.dirname(os.path.realpath(sys.argv[0]))
    shepherd = subprocess.Popen(
        [os.path.join(folder, "shepherd"), str(line.sock.fileno())],
        stdin=subprocess.PIPE,
        pass_fds=[line.sock.fileno()],
        user=who.pw_uid,
        group=who.pw_gid,
        extra_groups=os.getgrouplist(who.pw_name, who.pw_gid),
        start_new_session=True,
    )
    assert shepherd.stdin
    shepherd.stdin.write(json.dumps(message).encode())
    shepherd.stdin.close()
    # Ours is one of two ends of it: only when both are closed mpiexec hears that the shepherd is gone.
    os.close(line.sock.detach())
    shepherd.wait()


def main(_words: list[str]) -> None:
    wire.serve(PORT, launch)
