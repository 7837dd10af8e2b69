"""One node's part of the sidecar: it looks, links aside, copies and hashes, as the coordinator says.

This file runs alone, brought to the node, on whatever Python 3.6 or newer is there: it imports nothing of outlast.

    OUTLAST_AGENT_TOKEN=... agent.py ADDRESS PORT HOST LOCAL_DIR CHECKPOINT_DIR PREFIX RUN_CHECKPOINTS

Wire: JSON lines, docs/sidecar.md. Paths on it are relative; what they are relative to stands on this command line, so
that nobody who takes the coordinator's port can name other files. Both sides prove that they know the token.
It ends when LOCAL_DIR is gone (the job has ended), or when no coordinator was there for ORPHAN_S seconds.
"""

import base64
import contextlib
import errno
import hashlib
import hmac
import json
import os
import queue
import shutil
import signal
import socket
import stat
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Tuple

PIECE = 1 << 20  # it is read, hashed and written while it is in the cache of a core
SMALL = 1 << 20  # smaller files are copied several at once, and flushed together
LINE_MAX = 1 << 20
BATCH = 500
FUSE = 0x65735546  # FUSE_SUPER_MAGIC, linux/magic.h
READ = 9 << 16  # as text shorter than a line may be, and whole blocks of pages.py
BESIDE = 100  # plain files around the checkpoints: `latest`, a tracker
ORPHAN_S = 120.0
SILENT_S = 60.0
VERSION = 1
LEFT_OUT = ("MANIFEST.json", "MANIFEST.json.new")  # outlast's own

Message = Dict[str, Any]
File = Tuple[str, int, int]  # path in the checkpoint, bytes, time of the last change in ns


class Stopped(Exception):
    """The coordinator is gone, or wants something else."""


class Changed(Exception):
    """The trainer has changed or removed a file while it was copied."""


class WireError(Exception):
    """The other side does not speak as it should."""


# ── the wire ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode(message: Message) -> bytes:
    """The message as a line. Raises: WireError: it would be too long."""
    line = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
    if len(line) > LINE_MAX:
        raise WireError("a line of {} bytes".format(len(line)))
    return line


class Lines:
    """Lines out of pieces of a stream."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, piece: bytes) -> List[Message]:
        """The messages that are whole now. Raises: WireError: a line is too long, or no JSON object."""
        self._rest += piece
        whole = self._rest.split(b"\n")
        self._rest = whole.pop()
        if len(self._rest) > LINE_MAX:
            raise WireError("a line has no end")
        try:
            messages = [json.loads(line.decode("ascii")) for line in whole]
        except ValueError as err:
            raise WireError(str(err))
        if not all(isinstance(message, dict) for message in messages):
            raise WireError("no object")
        return messages


def proof(token: str, side: str, nonce: str) -> str:
    """What only somebody who knows the token can say to this nonce."""
    return hmac.new(token.encode(), (side + ":" + nonce).encode(), hashlib.sha256).hexdigest()


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_inside(path: str) -> bool:
    """Does a relative path stay below the folder that it is relative to?"""
    return bool(path) and not path.startswith("/") and "\0" not in path and ".." not in path.split("/")


def step_of(name: str, prefix: str) -> int:
    """The step in a checkpoint's name; -1: it is none."""
    if not name.startswith(prefix):
        return -1
    digits = ""
    for letter in name[len(prefix) :]:
        if letter not in "0123456789":
            break
        digits += letter
    return int(digits) if digits else -1


def listing(root: str, name: str) -> Tuple[List[File], int]:
    """The regular files of a checkpoint, sorted, and when anything in it changed last (ns).

    A checkpoint that is a file has itself as its only file. A link to a file counts as that file; one to a folder as
    nothing.
    """
    top = os.path.join(root, name)
    info = os.lstat(top)
    if stat.S_ISLNK(info.st_mode):
        return [], 0
    if not stat.S_ISDIR(info.st_mode):
        return [(name, info.st_size, info.st_mtime_ns)], info.st_mtime_ns
    files: List[File] = []
    newest = info.st_mtime_ns
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(os.path.join(top, folder)) as entries:
            for entry in entries:
                if not folder and entry.name in LEFT_OUT:
                    continue
                path = folder + entry.name
                try:
                    info = entry.stat()
                except FileNotFoundError:
                    continue  # a link to nothing, or just removed
                newest = max(newest, entry.stat(follow_symlinks=False).st_mtime_ns)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path + "/")
                elif stat.S_ISREG(info.st_mode):
                    files.append((path, info.st_size, info.st_mtime_ns))
    return sorted(files), newest


def checkpoints(root: str, prefix: str) -> Iterator[Tuple[str, int]]:
    """Name and step of what looks like a checkpoint."""
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return
    for name in names:
        step = step_of(name, prefix)
        if step >= 0:
            yield name, step


def plain_files(root: str, prefix: str) -> List[File]:
    """Those of the folder that are no checkpoints: a file that says which is the latest. Not all of too many."""
    found: List[File] = []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if step_of(entry.name, prefix) < 0 and not entry.name.startswith(".") and len(found) < BESIDE:
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(info.st_mode):
                        found.append((entry.name, info.st_size, info.st_mtime_ns))
    except FileNotFoundError:
        pass  # just removed
    return sorted(found)


def taken(*folders: str) -> int:
    """The bytes of all files below these folders, each once: some are links to others."""
    found: Dict[Tuple[int, int], int] = {}
    for folder in folders:
        for top, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):  # just removed
                    info = os.lstat(os.path.join(top, name))
                    found[info.st_dev, info.st_ino] = info.st_blocks * 512
    return sum(found.values())


def has_xxh3() -> bool:
    """Has this Python the fast hash?"""
    try:
        import xxhash  # noqa: F401
    except ImportError:
        return False
    return True


def new_hash(name: str) -> Any:
    """A hash object, as in outlast/checkpoint/hashing.py. Raises: ValueError: this Python has it not."""
    if name == "blake2b":
        return hashlib.blake2b(digest_size=32)
    if name == "xxh3_128" and has_xxh3():
        import xxhash

        return xxhash.xxh3_128()
    raise ValueError("this Python has no " + name)


def write_all(fd: int, piece: memoryview, at: int) -> None:
    """Write all of it at that place: a write may take only a part."""
    while len(piece):
        done = os.pwrite(fd, piece, at)
        if done <= 0:
            raise OSError(errno.EIO, "write took nothing")
        at += done
        piece = piece[done:]


def read_full(source: BinaryIO, into: memoryview) -> int:
    """How many bytes were read: fewer than there is room for only at the end of the file."""
    got = 0
    while got < len(into):
        count = source.readinto(into[got:])  # type: ignore[attr-defined]
        if not count:
            break
        got += count
    return got


class Copier:
    """Copies files and hashes them as they pass; `gate(bytes)` is asked before each piece and may wait or raise."""

    def __init__(self, algorithm: str, gate: Callable[[int], None]) -> None:
        self.algorithm = algorithm
        self._gate = gate
        self._buffers = [bytearray(PIECE) for _ in range(3)]
        self._hasher = ThreadPoolExecutor(1)
        self._writer = ThreadPoolExecutor(1)

    def copy(self, source: str, dest: str, size: int, mtime_ns: int) -> str:
        """The hash of the copy, in hex. Of what lies there already is kept what is the same.

        Raises: Changed: the source is not what was listed; OSError; Stopped.
        """
        with open(source, "rb", buffering=0) as file:
            self._check(file, size, mtime_ns)
            fd = os.open(dest, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
            try:
                digest = self._small(file, fd, size) if size <= SMALL else self._big(file, fd, size)
                if os.fstat(fd).st_size != size:
                    os.ftruncate(fd, size)
                if size > SMALL:
                    os.fsync(fd)
            finally:
                os.close(fd)
            self._check(file, size, mtime_ns)
        return digest

    @staticmethod
    def _check(file: BinaryIO, size: int, mtime_ns: int) -> None:
        info = os.fstat(file.fileno())
        if info.st_size != size or info.st_mtime_ns != mtime_ns:
            raise Changed("changed while it was copied")

    def _small(self, file: BinaryIO, fd: int, size: int) -> str:
        self._gate(size)
        room = bytearray(size)
        if read_full(file, memoryview(room)) != size:
            raise Changed("ended early")
        digest = new_hash(self.algorithm)
        digest.update(room)
        write_all(fd, memoryview(room), 0)
        return str(digest.hexdigest())

    def _big(self, file: BinaryIO, fd: int, size: int) -> str:
        digest = new_hash(self.algorithm)
        have = os.fstat(fd).st_size
        at = 0
        busy: List[Future[Any]] = []
        turn = 0
        try:
            while at < size:
                self._gate(min(PIECE, size - at))
                # Three buffers in turn: one is read while the one before is hashed and written.
                room = memoryview(self._buffers[turn % 3])[: min(PIECE, size - at)]
                turn += 1
                if read_full(file, room) != len(room):
                    raise Changed("ended early")
                for future in busy:
                    future.result()
                busy = [self._hasher.submit(digest.update, room)]
                if at + len(room) <= have and os.pread(fd, len(room), at) == room:
                    pass  # from an earlier try
                else:
                    have = 0
                    busy.append(self._writer.submit(write_all, fd, room, at))
                at += len(room)
            for future in busy:
                future.result()
        finally:
            for future in busy:  # nobody may write to the file any more when it is closed
                future.exception()
        return str(digest.hexdigest())

    def close(self) -> None:
        """End its threads."""
        self._hasher.shutdown()
        self._writer.shutdown()


def flush(folder: int, paths: List[str]) -> None:
    """What was written below the open folder is on its disk. Raises: OSError.

    One syncfs for all of it where the kernel tells of errors: since 5.8, for a folder opened before the writes.
    """
    if paths:
        try:
            release = tuple(int(word) for word in os.uname().release.split("-")[0].split(".")[:2])
        except ValueError:
            release = (0, 0)
        if release < (5, 8) or not _syncfs(folder):
            with ThreadPoolExecutor(16) as pool:
                for _ in pool.map(_fsync, paths):
                    pass
    os.fsync(folder)


def _syncfs(fd: int) -> bool:
    """Did the kernel ask the file system to write all that it has? Those in user space (FUSE) it does not ask."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    kind = ctypes.create_string_buffer(256)  # struct statfs begins with it, a long
    if not hasattr(libc, "syncfs") or libc.fstatfs(fd, kind) or ctypes.c_long.from_buffer(kind).value == FUSE:
        return False
    if libc.syncfs(fd):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return True


def _fsync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# ── the agent ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Place:
    """The folders of this node and of the run."""

    def __init__(self, local: str, checkpoints_: str, prefix: str, durable: str) -> None:
        self.local = local
        self.checkpoints = checkpoints_
        self.prefix = prefix
        self.durable = durable
        self.aside = os.path.join(local, "aside")

    def source(self, name: str, key: str, path: str) -> str:
        """Where a file is: aside, or (a disk without room for links) where the trainer wrote it."""
        aside = os.path.join(self.aside, key, path)
        return aside if os.path.lexists(aside) else self.origin(name, path)

    def origin(self, name: str, path: str) -> str:
        """Where the trainer wrote it."""
        top = os.path.join(self.checkpoints, name)
        return os.path.join(top, path) if os.path.isdir(top) else top


class Agent:
    """One connection's worth of work; a new connection gets a new one."""

    def __init__(self, place: Place, send: Callable[[Message], None]) -> None:
        self.place = place
        self._send = send
        self._jobs: "queue.Queue[Optional[Message]]" = queue.Queue()
        self._looks: "queue.Queue[Optional[Message]]" = queue.Queue()
        self._sent: Dict[str, int] = {}
        self._stopped = False
        self._cancelled = -1
        self._rate = 0.0
        self._due = 0.0
        self._gate_lock = threading.Lock()
        for work, of in ((self._work, self._jobs), (self._work, self._looks)):
            threading.Thread(target=work, args=(of,), daemon=True).start()

    def take(self, message: Message) -> None:
        """Do what the coordinator says; long things go to a thread. Raises: WireError."""
        kind = message.get("m")
        if kind == "ping":
            self._send({"m": "pong", "id": message.get("id")})
        elif kind in ("look", "link", "read", "forget"):
            self._looks.put(message)  # a long copy must not keep them waiting: trainers prune, disks fill
        elif kind == "cancel":
            self._cancelled = int(message["id"])
        elif kind == "copy":
            self._jobs.put(message)
        elif kind == "bye":
            os._exit(0)  # a thread may hang with the file system
        else:
            raise WireError("no message {!r}".format(kind))

    def stop(self) -> None:
        """The connection is gone."""
        self._stopped = True
        self._jobs.put(None)
        self._looks.put(None)

    def _work(self, jobs: "queue.Queue[Optional[Message]]") -> None:
        while True:
            message = jobs.get()
            if message is None or self._stopped:
                return
            answer: Message = {"m": "done", "id": message.get("id")}
            try:
                answer.update(getattr(self, "_" + message["m"])(message) or {})
            except Stopped:
                answer["error"] = "stopped"
            except Changed as err:
                answer.update(error="changed", text=str(err))
            except ValueError as err:
                answer.update(error="hash", text=str(err))
            except OSError as err:
                answer.update(error=errno.errorcode.get(err.errno or 0, "EIO"), text=str(err))
            except Exception as err:
                answer.update(error="internal", text="{}: {}".format(type(err).__name__, err))
            try:
                self._send(answer)
            except OSError:
                return

    def _batches(self, kind: str, message: Message, rows: List[Any], **more: Any) -> None:
        for start in range(0, max(1, len(rows)), BATCH):
            self._send(dict(more, m=kind, id=message["id"], start=start, files=rows[start : start + BATCH]))

    # Each of the following answers a message of its name.

    def _look(self, message: Message) -> Message:
        seen, old = [], []
        for name, step in checkpoints(self.place.checkpoints, self.place.prefix):
            if step <= int(message["above"]):
                old.append(name)
                continue
            if os.path.lexists(os.path.join(self.place.checkpoints, name, LEFT_OUT[0])):
                continue  # arrange.py's: durable, and with links to a file system that may hang
            try:
                files, newest = listing(self.place.checkpoints, name)
            except FileNotFoundError:
                continue
            if not files:
                continue  # a folder only: there is nothing to copy yet
            sign = hash(tuple(files))
            if self._sent.get(name) != sign:
                self._batches("files", message, files, name=name)
                self._sent[name] = sign
            seen.append([name, step, max(0.0, time.time() - newest / 1e9)])
        self._sent = {name: sign for name, sign in self._sent.items() if name in {row[0] for row in seen}}
        if not os.path.isdir(self.place.local):
            os._exit(0)
        return {"seen": seen, "old": old[:BATCH], "beside": plain_files(self.place.checkpoints, self.place.prefix)}

    def _link(self, message: Message) -> None:
        name, key = message["name"], message["key"]
        if not (is_inside(name) and is_inside(key) and "/" not in name + key):
            raise WireError("a name")
        files, _ = listing(self.place.checkpoints, name)
        top = os.path.join(self.place.aside, key)
        for path, _, _ in files:
            origin, aside = self.place.origin(name, path), os.path.join(top, path)
            try:
                self._link_one(origin, aside)
            except OSError as err:
                if err.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EMLINK, errno.EPERM, errno.EXDEV):
                    raise
                # No room even for links: then it is copied from where it is, as long as nobody prunes it.
        self._batches("files", message, files, name=name)

    @staticmethod
    def _link_one(origin: str, aside: str) -> None:
        if os.path.islink(origin):
            return
        try:
            if os.path.samestat(os.stat(origin), os.lstat(aside)):
                return
            os.unlink(aside)  # the trainer wrote it anew
        except FileNotFoundError:
            pass
        os.makedirs(os.path.dirname(aside), mode=0o700, exist_ok=True)
        os.link(origin, aside)

    def _gate(self, message: Message, count: int) -> None:
        with self._gate_lock:
            now = time.monotonic()
            rate = float(message.get("rate") or 0)
            self._due = max(self._due, now - 0.5) + (count / rate if rate else 0)
            until = self._due
        while True:
            if self._stopped or self._cancelled == message["id"]:
                raise Stopped
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.2))

    def _copy(self, message: Message) -> None:
        name, key, into = message["name"], message["key"], message["into"]
        files = [(str(row[0]), int(row[1]), int(row[2])) for row in message["files"]]
        if not all(is_inside(path) for path in [name, key, into] + [path for path, _, _ in files]):
            raise WireError("a path")
        top = os.path.join(self.place.durable, into)
        os.makedirs(top, mode=0o750, exist_ok=True)
        folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        new_hash(message["hash"])
        copier = Copier(message["hash"], lambda count: self._gate(message, count))
        try:
            self._copy_files(copier, message, files, top, folder)
        finally:
            os.close(folder)
            copier.close()

    def _copy_files(self, copier: Copier, message: Message, files: List[File], top: str, folder: int) -> None:
        made = set()
        for path, _, _ in files:
            parent = os.path.dirname(os.path.join(top, path))
            if parent not in made:
                os.makedirs(parent, mode=0o750, exist_ok=True)
                made.add(parent)

        def one(file: File) -> List[Any]:
            path, size, mtime_ns = file
            source = self.place.source(message["name"], message["key"], path)
            try:
                return [path, size, copier.copy(source, os.path.join(top, path), size, mtime_ns)]
            except FileNotFoundError:
                raise Changed("{} is gone".format(path))
            except Changed as err:
                raise Changed("{} {}".format(path, err))

        small = [file for file in files if file[1] <= SMALL]
        with ThreadPoolExecutor(4) as pool:
            rows = list(pool.map(one, small))
        flush(folder, [os.path.join(top, path) for path, _, _ in small])
        if rows:
            self._batches("copied", message, rows)
        for file in files:
            if file[1] > SMALL:
                self._batches("copied", message, [one(file)])
        for parent in made:
            fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _forget(self, message: Message) -> None:
        """Remove links aside, all but those of `keep`; with less than `need` bytes free also the checkpoints `remove`.

        Only then: a trainer may want its own old ones (the best, at the end), and has its own limit for them. With
        `most`, checkpoints shall take no more than so many bytes, and what is left of these is free.
        """
        keep = set(message.get("keep") or ())
        try:
            names = os.listdir(self.place.aside)
        except FileNotFoundError:
            names = []
        for name in names:
            if name not in keep:
                shutil.rmtree(os.path.join(self.place.aside, name), ignore_errors=True)
        for name in message.get("remove") or ():
            if self._free(int(message.get("most") or 0)) >= int(message.get("need") or 0):
                break
            path = os.path.join(self.place.checkpoints, name)
            if step_of(name, self.place.prefix) < 0 or "/" in name or not os.path.lexists(path):
                continue
            gone = os.path.join(self.place.checkpoints, ".gone." + name)
            os.rename(path, gone)  # out of the trainer's sight at once
            shutil.rmtree(gone, ignore_errors=True)
            if os.path.lexists(gone):
                os.unlink(gone)

    def _free(self, most: int) -> int:
        free = shutil.disk_usage(self.place.checkpoints).free
        return min(free, most - taken(self.place.checkpoints, self.place.aside)) if most else free

    def _read(self, message: Message) -> None:
        """Bytes of a file of a checkpoint, or (no name) of one beside them: what the judge wants to see of it."""
        name, path = message["name"], message["path"]
        if not is_inside(path) or (not is_inside(name) if name else "/" in path):
            raise WireError("a path")
        source = self.place.origin(name, path) if name else os.path.join(self.place.checkpoints, path)
        left = int(message["count"])
        with open(source, "rb") as file:
            file.seek(int(message["at"]))
            while left > 0:
                piece = file.read(min(left, READ))
                if not piece:
                    break
                left -= len(piece)
                self._send({"m": "bytes", "id": message["id"], "data": base64.b64encode(piece).decode("ascii")})


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


def meet(link: socket.socket, token: str, host: str) -> Tuple[Lines, List[Message]]:
    """The stream's reader, once both have shown that they know the token, and what it has read of what follows.

    Raises: WireError, OSError.
    """
    lines = Lines()
    waiting: List[Message] = []

    def hear() -> Message:
        while not waiting:
            piece = link.recv(65536)
            if not piece:
                raise WireError("closed")
            waiting.extend(lines.feed(piece))
        return waiting.pop(0)

    mine = os.urandom(16).hex()
    nonce = str(hear().get("nonce"))
    hello = {"m": "hello", "v": VERSION, "host": host, "nonce": mine, "xxh3": has_xxh3()}
    link.sendall(encode(dict(hello, proof=proof(token, "agent " + host, nonce))))
    if not hmac.compare_digest(str(hear().get("proof")), proof(token, "coordinator", mine)):
        raise WireError("it does not know the token")
    return lines, waiting


def serve(link: socket.socket, lines: Lines, waiting: List[Message], place: Place) -> None:
    """Until the connection ends. Raises: WireError, OSError."""
    lock = threading.Lock()

    def send(message: Message) -> None:
        line = encode(message)
        with lock:
            link.sendall(line)

    agent = Agent(place, send)
    link.settimeout(SILENT_S)  # the coordinator pings more often than that
    try:
        while True:
            for message in waiting:
                agent.take(message)
            piece = link.recv(1 << 16)
            if not piece:
                return
            waiting = lines.feed(piece)
    finally:
        agent.stop()


def tame() -> None:
    """Behind everybody else: for the processor, for the disk, for the memory killer."""
    os.nice(19)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except OSError:
        pass
    try:
        import ctypes

        # ioprio_set(IOPRIO_WHO_PROCESS, 0, idle), and the parent's death is ours (PR_SET_PDEATHSIG)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall({"x86_64": 251, "aarch64": 30, "ppc64le": 273}.get(os.uname().machine, -1), 1, 0, 3 << 13)
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def sign(local: str) -> str:
    """A name of our own, written down as that of the node's newest agent."""
    mine = os.urandom(16).hex()
    with open(os.path.join(local, "agent.newest"), "w") as file:
        file.write(mine)
    return mine


def is_newest(local: str, mine: str) -> bool:
    """Was none started here after us? One whose launcher died may still be there: two would push each other out."""
    try:
        with open(os.path.join(local, "agent.newest")) as file:
            return file.read() in (mine, "")
    except OSError:
        return True


def run(address: str, port: int, host: str, place: Place, token: str) -> None:
    """Serve the coordinator, and look for it again when it is gone."""
    seen, mine = time.monotonic(), sign(place.local)
    while os.path.isdir(place.local) and is_newest(place.local, mine) and time.monotonic() - seen < ORPHAN_S:
        try:
            with socket.create_connection((address, port), 10) as link:
                link.settimeout(10)
                link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                lines, waiting = meet(link, token, host)
                try:
                    serve(link, lines, waiting, place)
                finally:
                    seen = time.monotonic()
        except (OSError, WireError):
            pass
        time.sleep(0.5)


def main(words: List[str]) -> None:
    """As the module says."""
    address, port, host, local, checkpoints_, prefix, durable = words
    token = os.environ.pop("OUTLAST_AGENT_TOKEN")
    tame()
    os.umask(0o027)
    run(address, int(port), host, Place(local, checkpoints_, prefix, durable), token)
    os._exit(0)  # a thread may hang with the file system


if __name__ == "__main__":
    main(sys.argv[1:])
