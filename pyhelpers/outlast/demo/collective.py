"""The ranks' meeting, and averages over them, through TCP over IPv4: a star with rank 0 in the middle.

It fails as gloo does: a rank whose peer is gone gets `Connection closed by peer [IP]:port`, rank 0 first and then,
as rank 0 leaves, all others.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MEET_TIMEOUT_S = 300.0
RETRY_S = 0.05
HELLO = struct.Struct("!8sIIQ")  # magic, rank, world size, step it starts from
MAGIC = b"outlast1"
FLAGS = struct.Struct("!I")

Row = NDArray[np.float32]


class CollectiveError(RuntimeError):
    """A peer is gone, silent or not who it should be; the message says which."""


@dataclass(frozen=True)
class Place:
    """Who this process is among how many, and where they meet."""

    rank: int
    world: int
    local_rank: int
    master_addr: str
    master_port: int


def place_from(environ: Mapping[str, str]) -> Place:
    """The place that a launcher has put into the environment as PyTorch reads it; alone by default."""
    return Place(
        rank=int(environ.get("RANK", "0")),
        world=int(environ.get("WORLD_SIZE", "1")),
        local_rank=int(environ.get("LOCAL_RANK", "0")),
        master_addr=environ.get("MASTER_ADDR", "127.0.0.1"),
        master_port=int(environ.get("MASTER_PORT", "29500")),
    )


@dataclass(frozen=True)
class Peer:
    """A connection and the name of its other end, which a socket forgets with the connection."""

    connection: socket.socket
    name: str  # [IP]:port


@dataclass(frozen=True)
class Group:
    """The ranks that have met: on rank 0 every other rank, in their order, elsewhere rank 0 alone."""

    rank: int
    peers: list[Peer]

    def average(self, row: Row, flags: int = 0) -> tuple[Row, int]:
        """The mean of all ranks' rows and all flags or-ed; summed in rank order, so it has the same bits each time.

        Raises: CollectiveError.
        """
        if not self.peers:
            return row, flags
        if self.rank:
            _send(self.peers[0], FLAGS.pack(flags) + row.tobytes())
            return _receive_row(self.peers[0], row)
        total = row.copy()
        for peer in self.peers:
            theirs, their_flags = _receive_row(peer, row)
            total += theirs
            flags |= their_flags
        total /= len(self.peers) + 1
        message = FLAGS.pack(flags) + total.tobytes()
        for peer in self.peers:
            _send(peer, message)
        return total, flags

    def barrier(self) -> None:
        """Return when every rank has come here. Raises: CollectiveError."""
        self.average(np.zeros(1, np.float32))


def meet(place: Place, step: int, timeout_s: float) -> Group:
    """All ranks, met; each later wait for a peer takes timeout_s at most, and the meeting itself 5 minutes.

    Raises: CollectiveError: not all came, or not all start from the same step; OSError: rank 0 can't listen there.
    """
    if place.world == 1:
        return Group(0, [])
    deadline = time.monotonic() + min(timeout_s, MEET_TIMEOUT_S)
    peers = [_join(place, step, deadline)] if place.rank else _gather(place, step, deadline)
    group = Group(place.rank, peers)
    group.barrier()
    for peer in peers:
        peer.connection.settimeout(timeout_s)
    return group


def _join(place: Place, step: int, deadline: float) -> Peer:
    """Rank 0, which may not listen yet."""
    while True:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.settimeout(max(RETRY_S, deadline - time.monotonic()))
        try:
            connection.connect((place.master_addr, place.master_port))
            break
        except OSError as err:
            connection.close()
            if time.monotonic() > deadline:
                where = f"{place.master_addr}:{place.master_port}"
                raise CollectiveError(f"rank {place.rank} found no rank 0 at {where}: {err}") from err
            time.sleep(RETRY_S)
    peer = _peer(connection)
    _send(peer, HELLO.pack(MAGIC, place.rank, place.world, step))
    return peer


def _gather(place: Place, step: int, deadline: float) -> list[Peer]:
    """All others, for rank 0, in rank order."""
    met: dict[int, Peer] = {}
    steps = {0: step}
    with socket.create_server((place.master_addr, place.master_port), backlog=place.world) as server:
        while len(met) < place.world - 1:
            rank, their_step, peer = _accept(server, place, set(range(1, place.world)) - set(met), deadline)
            met[rank], steps[rank] = peer, their_step
    if len(set(steps.values())) > 1:
        raise CollectiveError(f"the ranks start from different steps: {steps}")
    return [met[rank] for rank in sorted(met)]


def _accept(server: socket.socket, place: Place, missing: set[int], deadline: float) -> tuple[int, int, Peer]:
    """The next rank that comes: its number, the step it starts from, its connection. Strangers are sent away."""
    while True:
        server.settimeout(max(RETRY_S, deadline - time.monotonic()))
        try:
            connection, _ = server.accept()
        except TimeoutError as err:
            raise CollectiveError(f"rank 0 waited in vain for ranks {sorted(missing)}") from err
        connection.settimeout(max(RETRY_S, deadline - time.monotonic()))
        with contextlib.suppress(CollectiveError):
            peer = _peer(connection)
            magic, rank, world, step = HELLO.unpack(_receive(peer, HELLO.size))
            if magic == MAGIC and world == place.world and rank in missing:
                return rank, step, peer
        connection.close()


def _peer(connection: socket.socket) -> Peer:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        ip, port = connection.getpeername()
    except OSError as err:
        raise CollectiveError(f"a peer hung up at once: {err}") from err
    return Peer(connection, f"[{ip}]:{port}")


def _send(peer: Peer, message: bytes) -> None:
    try:
        peer.connection.sendall(message)
    except OSError as err:
        raise _lost(peer, err) from err


def _receive(peer: Peer, size: int) -> bytearray:
    """The next `size` bytes."""
    message = bytearray(size)
    view = memoryview(message)
    while view:
        try:
            count = peer.connection.recv_into(view)
        except OSError as err:
            raise _lost(peer, err) from err
        if not count:
            raise _lost(peer, None)
        view = view[count:]
    return message


def _receive_row(peer: Peer, like: Row) -> tuple[Row, int]:
    """The next row, shaped as `like`, and the flags before it."""
    message = _receive(peer, FLAGS.size + like.nbytes)
    (flags,) = FLAGS.unpack_from(message)
    return np.frombuffer(message, dtype=like.dtype, offset=FLAGS.size), flags


def _lost(peer: Peer, err: OSError | None) -> CollectiveError:
    """What gloo would say of this peer."""
    if isinstance(err, TimeoutError):
        waited_ms = 1000 * (peer.connection.gettimeout() or 0)
        return CollectiveError(f"Timed out waiting {waited_ms:.0f}ms for peer {peer.name}")
    return CollectiveError(f"Connection closed by peer {peer.name}")
