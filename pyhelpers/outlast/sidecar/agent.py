"""One node's part of the sidecar: it looks, links aside, copies and hashes, as the coordinator says.

It runs with disk.py and wire.py beside it, brought to the node, on whatever Python 3.6 or newer is there, and imports
nothing else of outlast.

    OUTLAST_AGENT_TOKEN=... agent.py ADDRESS PORT HOST LOCAL_DIR CHECKPOINT_DIR PREFIX RUN_CHECKPOINTS

Wire: JSON lines, docs/sidecar.md. Paths on it are relative; what they are relative to stands on this command line, so
that nobody who takes the coordinator's port can name other files. Both sides prove that they know the token.
It ends when LOCAL_DIR is gone (the job has ended), or when no coordinator was there for ORPHAN_S seconds.
"""

import base64
import errno
import os
import queue
import resource
import shutil
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

if __name__ == "__main__":  # -I has left out the folder that holds outlast
    sys.path.insert(0, os.path.abspath(__file__).rsplit(os.sep, 3)[0])

from outlast.sidecar import disk
from outlast.sidecar.wire import Lines, Message, WireError, encode, meet

BATCH = 500
READ = 9 << 16  # as text shorter than a line may be, and whole blocks of pages.py
THREADS = 4  # that copy
ALONE = 20  # tiny files, after which one thread looks whether it had to wait
ORPHAN_S = 120.0
SILENT_S = 60.0


class Stopped(Exception):
    """The coordinator is gone, or wants something else."""


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
            except disk.Changed as err:
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

    def _batches(self, kind: str, message: Message, rows: Iterable[Any], **more: Any) -> None:
        """Send the rows so many at a time, the first time even none; they are made meanwhile."""
        start = 0
        page: List[Any] = []
        for row in rows:
            if len(page) == BATCH:
                self._send(dict(more, m=kind, id=message["id"], start=start, files=page))
                start += BATCH
                page = []
            page.append(row)
        self._send(dict(more, m=kind, id=message["id"], start=start, files=page))

    # Each of the following answers a message of its name.

    def _look(self, message: Message) -> Message:
        seen, old = [], []
        for name, step in disk.checkpoints(self.place.checkpoints, self.place.prefix):
            if step <= int(message["above"]):
                old.append(name)
                continue
            if os.path.lexists(os.path.join(self.place.checkpoints, name, disk.MANIFEST)):
                continue  # arrange.py's: durable, and with links to a file system that may hang
            found = disk.Listing(self.place.checkpoints, name)
            began_s = time.time()  # what changes while it is listed has not been at rest since
            try:
                for _ in found:
                    pass
                if found.count and self._sent.pop(name, None) != found.sign:
                    began_s = time.time()
                    self._batches("files", message, found, name=name)
            except FileNotFoundError:
                continue
            if not found.count:
                continue  # a folder only: there is nothing to copy yet
            self._sent[name] = found.sign
            seen.append([name, step, max(0.0, began_s - found.newest / 1e9)])
        self._sent = {name: sign for name, sign in self._sent.items() if name in {row[0] for row in seen}}
        if not os.path.isdir(self.place.local):
            os._exit(0)
        return {"seen": seen, "old": old[:BATCH], "beside": disk.plain_files(self.place.checkpoints, self.place.prefix)}

    def _link(self, message: Message) -> None:
        name, key = message["name"], message["key"]
        if not (disk.is_inside(name) and disk.is_inside(key) and "/" not in name + key):
            raise WireError("a name")
        self._batches("files", message, self._links(name, os.path.join(self.place.aside, key)), name=name)

    def _links(self, name: str, top: str) -> Iterator[disk.File]:
        """The files of a checkpoint, each linked aside when it is told of."""
        for file in disk.Listing(self.place.checkpoints, name):
            try:
                disk.link(self.place.origin(name, file[0]), os.path.join(top, file[0]))
            except OSError as err:
                if err.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EMLINK, errno.EPERM, errno.EXDEV):
                    raise
                # No room even for links: then it is copied from where it is, as long as nobody prunes it.
            yield file

    def _gate(self, message: Message, count: int) -> None:
        with self._gate_lock:
            now = time.monotonic()
            rate = float(message.get("rate") or 0)
            self._due = max(self._due, now - 0.5) + (count / rate if rate else 0)
            until = self._due
        while True:
            if self._stopped or self._cancelled == message["id"] or "failed" in message:
                raise Stopped
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.2))

    def _copy(self, message: Message) -> None:
        name, key, into = message["name"], message["key"], message["into"]
        files = [(str(row[0]), int(row[1]), int(row[2])) for row in message["files"]]
        if not all(disk.is_inside(path) for path in [name, key, into] + [path for path, _, _ in files]):
            raise WireError("a path")
        top = os.path.join(self.place.durable, into, "")
        os.makedirs(top, mode=0o750, exist_ok=True)
        folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        disk.new_hash(message["hash"])
        copier = disk.Copier(message["hash"], lambda count: self._gate(message, count))
        try:
            self._copy_files(copier, message, files, top, folder)
        finally:
            os.close(folder)

    def _copy_files(self, copier: disk.Copier, message: Message, files: List[disk.File], top: str, folder: int) -> None:
        made = {os.path.dirname(top + path) for path, _, _ in files}
        for parent in made:
            os.makedirs(parent, mode=0o750, exist_ok=True)

        def one(file: disk.File, ahead: bool = False) -> List[Any]:
            path, size, mtime_ns = file
            source = self.place.source(message["name"], message["key"], path)
            try:
                return [path, size, copier.copy(source, top + path, size, mtime_ns, ahead)]
            except Exception as err:
                if isinstance(err, FileNotFoundError):
                    err = disk.Changed("{} is gone".format(path))
                elif isinstance(err, disk.Changed):
                    err = disk.Changed("{} {}".format(path, err))
                message.setdefault("failed", err)  # other threads stop at their next piece
                raise err

        def tell(file: disk.File) -> None:
            self._batches("copied", message, [one(file)])

        small = [file for file in files if file[1] <= disk.SMALL]
        large = [file for file in files if file[1] > disk.SMALL]
        try:
            rows = self._copy_tiny(one, [file for file in small if file[1] <= disk.TINY])
            rows += self._by_threads(one, [file for file in small if file[1] > disk.TINY])
            disk.flush(folder, [top + path for path, _, _ in small])
            if rows:
                self._batches("copied", message, rows)
            if len(large) == 1:
                self._batches("copied", message, [one(large[0], True)])
            else:
                self._by_threads(tell, large)
        except Exception as err:
            raise message.get("failed", err)
        for parent in made:
            disk.sync(parent)

    @staticmethod
    def _by_threads(one: Callable[[disk.File], Any], files: List[disk.File]) -> List[Any]:
        """What it makes of each, in any order."""
        rows: List[Any] = []
        with ThreadPoolExecutor(THREADS) as pool:
            for turn in pool.map(lambda first: [one(file) for file in files[first::THREADS]], range(THREADS)):
                rows += turn
        return rows

    def _copy_tiny(self, one: Callable[[disk.File], List[Any]], files: List[disk.File]) -> List[Any]:
        """All of them, by this thread alone until it has to wait for the file system, then by several.

        Where nothing is waited for, as in memory, several threads only wait for each other.
        """
        rows: List[Any] = []
        while len(rows) < len(files):
            waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
            rows += [one(file) for file in files[len(rows) : len(rows) + ALONE]]
            if resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - waits >= ALONE // 2:
                break
        return rows + self._by_threads(one, files[len(rows) :])

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
            if disk.step_of(name, self.place.prefix) < 0 or "/" in name or not os.path.lexists(path):
                continue
            gone = os.path.join(self.place.checkpoints, ".gone." + name)
            os.rename(path, gone)  # out of the trainer's sight at once
            shutil.rmtree(gone, ignore_errors=True)
            if os.path.lexists(gone):
                os.unlink(gone)

    def _free(self, most: int) -> int:
        free = shutil.disk_usage(self.place.checkpoints).free
        return min(free, most - disk.taken(self.place.checkpoints, self.place.aside)) if most else free

    def _read(self, message: Message) -> None:
        """Bytes of a file of a checkpoint, or (no name) of one beside them: what the judge wants to see of it."""
        name, path = message["name"], message["path"]
        if not disk.is_inside(path) or (not disk.is_inside(name) if name else "/" in path):
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
        if libc.prctl(1, signal.SIGKILL, 0, 0, 0):
            return  # out of the job's session nobody else would end us with it
        # Where the kernel shares processors out by session (autogroup, sched(7)), nice counts only within one.
        os.setsid()
        with open("/proc/self/autogroup", "w") as file:
            file.write("19")
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
                lines, waiting = meet(link, token, host, disk.has_xxh3())
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
