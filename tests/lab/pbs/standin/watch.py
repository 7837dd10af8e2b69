"""The server's eye on each execution host (facts §6)."""

from __future__ import annotations

import random
import time

from standin import conf, life, wire
from standin.conf import scaled
from standin.pbs import Host, Pbs

# Seconds without an answer. A MoM that was killed on a living host is seen at once: its connection breaks.
SILENT = (58.0, 67.0)
# Seconds after a restart of the server, until then each host is `state-unknown,down` (measured).
UNHEARD = (2.0, 4.3)


def watch(pbs: Pbs, host: Host, restarted: bool) -> None:
    """For ever."""
    time.sleep(random.uniform(*UNHEARD) if restarted else 0)
    silent_s = scaled(random.uniform(*SILENT))
    heard = time.monotonic()
    while True:
        try:
            line = wire.connect(host.name, conf.MOM_PORT, max(1.0, scaled(5)))
            line.sock.settimeout(max(1.0, silent_s))
            while True:
                line.send(op="hello")
                answer = line.receive()
                if answer is None:
                    raise ConnectionResetError
                heard = time.monotonic()
                _is_up(pbs, host)
                time.sleep(max(0.2, scaled(1)))
        except (ConnectionResetError, ConnectionRefusedError, BrokenPipeError):
            _is_down(pbs, host)
        except OSError:
            if time.monotonic() - heard > silent_s:
                _is_down(pbs, host)
        time.sleep(0.2)


def _is_up(pbs: Pbs, host: Host) -> None:
    # That it was away, and knows nothing of its jobs, is not noticed when it is back at once (measured).
    if host.up:
        return
    with pbs.lock:
        host.state, host.comment, host.since = "free", "", time.time()
        pbs.changed()


def _is_down(pbs: Pbs, host: Host) -> None:
    if not host.up or conf.is_held_up("losses"):
        return
    with pbs.lock:
        host.state, host.comment, host.since = "down", "node down: communication closed", time.time()
        life.host_is_down(pbs, host.name)
        pbs.changed()
