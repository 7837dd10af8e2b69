"""A real file system that fails as it is told: one folder shown at another place, through the kernel's FUSE.

    python faulty_fs.py BACKING MOUNTPOINT CONTROL

speaks the kernel's protocol (linux/fuse.h, version 7.31) on /dev/fuse itself: no library is needed, but root is.
CONTROL/fault says what to do, a line a fault: `OPERATION ERROR`, with an operation of OPERATIONS or `any`, and the name
of an errno, `hang` (no answer until the line is gone, and not even KILL ends who waits; other operations go on) or
`short` (a write takes a part). Each fault adds a byte to CONTROL/hits. Nothing is cached, so a fault is met at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

OPERATIONS = {
    1: "lookup",
    3: "getattr",
    4: "setattr",
    9: "mkdir",
    10: "unlink",
    11: "rmdir",
    12: "rename",
    14: "open",
    15: "read",
    16: "write",
    17: "statfs",
    18: "release",
    20: "fsync",
    25: "flush",
    26: "init",
    27: "opendir",
    28: "readdir",
    29: "releasedir",
    30: "fsyncdir",
    35: "create",
    45: "rename2",
}
NO_ANSWER = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
DIRECT_IO = 1
MAX_WRITE = 1 << 17
MODE, SIZE, MTIME, MTIME_NOW = 1, 8, 32, 256  # bits of SETATTR


def why_not() -> str:
    """Why it can't be mounted here; empty: it can."""
    if os.geteuid() != 0:
        return "only root may mount a file system that fails"
    return "" if os.path.exists("/dev/fuse") else "this machine has no /dev/fuse"


class Faulty:
    """A mounted one, in a process of its own. `fails` begins a fault, `works` ends all.

    While it hangs, look into `backing` and not into `path`, or you hang too.
    """

    def __init__(self, root: Path) -> None:
        self.backing, self.path, self.control = root / "backing", root / "shared", root / "control"
        for folder in (self.backing, self.path, self.control):
            folder.mkdir(parents=True)
        words = [sys.executable, __file__, self.backing, self.path, self.control]
        self.process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"mounted\n"

    def fails(self, *faults: str) -> None:
        (self.control / "hits").unlink(missing_ok=True)
        (self.control / "fault.new").write_text("".join(f"{fault}\n" for fault in faults))
        (self.control / "fault.new").rename(self.control / "fault")

    def works(self) -> None:
        (self.control / "fault").unlink(missing_ok=True)

    def hits(self) -> int:
        """How often it has failed since `fails`."""
        with contextlib.suppress(FileNotFoundError):
            return (self.control / "hits").stat().st_size
        return 0

    def stop(self) -> None:
        """Whoever waits for it gets an error; call it before anybody who may wait is waited for."""
        if self.process.poll() is not None:
            return
        self.process.kill()
        self.process.wait()
        subprocess.run(["umount", "-l", self.path], check=False)


@contextlib.contextmanager
def mounted(root: Path) -> Iterator[Faulty]:
    fs = Faulty(root)
    try:
        yield fs
    finally:
        fs.stop()


class Server:
    """Answers the kernel, one request after the other."""

    def __init__(self, backing: str, control: str) -> None:
        self.control = control
        self.paths = {1: backing}
        self.ids = {backing: 1}
        self.handles: dict[int, int | list[tuple[str, os.stat_result]]] = {}
        self.next = 2

    # ── nodes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def node(self, path: str) -> int:
        if path not in self.ids:
            self.ids[path], self.paths[self.next] = self.next, path
            self.next += 1
        return self.ids[path]

    def moved(self, old: str, new: str) -> None:
        for path in [path for path in self.ids if path == new or path.startswith(new + "/")]:
            self.ids.pop(path)
        for path in [path for path in self.ids if path == old or path.startswith(old + "/")]:
            number = self.ids.pop(path)
            self.ids[new + path[len(old) :]] = number
            self.paths[number] = new + path[len(old) :]

    def handle(self, what: int | list[tuple[str, os.stat_result]]) -> int:
        self.next += 1
        self.handles[self.next] = what
        return self.next

    def fd(self, number: int) -> int:
        found = self.handles[number]
        assert isinstance(found, int)
        return found

    def attributes(self, info: os.stat_result) -> bytes:
        times = [divmod(ns, 10**9) for ns in (info.st_atime_ns, info.st_mtime_ns, info.st_ctime_ns)]
        whole, rest = zip(*times, strict=True)
        numbers = (info.st_ino, info.st_size, info.st_blocks, *whole, *rest)
        owner = (info.st_mode, info.st_nlink, info.st_uid, info.st_gid, 0, 4096, 0)
        return struct.pack("<6Q3I7I", *numbers, *owner)

    def entry(self, path: str) -> bytes:
        info = os.lstat(path)
        return struct.pack("<4Q2I", self.node(path), 0, 0, 0, 0, 0) + self.attributes(info)

    # ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def fault(self, operation: str) -> str:
        """What goes wrong with this operation now; empty: nothing."""
        try:
            with open(f"{self.control}/fault") as file:
                told = dict(line.split() for line in file)
        except FileNotFoundError:
            return ""
        found = told.get(operation, told.get("any", ""))
        if found:
            with open(f"{self.control}/hits", "ab") as file:
                file.write(b".")
        return found

    # ── the protocol ──────────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, device: int) -> None:
        """What hangs waits here, and the others are answered meanwhile."""
        parked: list[bytes] = []
        while True:
            again, parked = parked, []
            for request in again:
                if not self.reply(device, request):
                    parked.append(request)
            if not select.select([device], [], [], 0.02 if parked else None)[0]:
                continue
            try:
                request = os.read(device, MAX_WRITE + 65536)
            except OSError as err:
                if err.errno == errno.ENODEV:
                    return  # unmounted
                if err.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            if not self.reply(device, request):
                parked.append(request)

    def reply(self, device: int, request: bytes) -> bool:
        """False: it hangs."""
        _, code, unique, node = struct.unpack_from("<2I2Q", request)
        if code in NO_ANSWER:
            return True
        answered = self.answer(code, node, request[40:])
        if answered is None:
            return False
        error, answer = answered
        with contextlib.suppress(FileNotFoundError):  # who asked was interrupted
            os.write(device, struct.pack("<IiQ", 16 + len(answer), -error, unique) + answer)
        return True

    def answer(self, code: int, node: int, body: bytes) -> tuple[int, bytes] | None:
        """An errno and what was asked for; None: it hangs."""
        operation = OPERATIONS.get(code, "")
        call: Callable[[int, bytes], bytes] | None = getattr(self, f"do_{operation}", None)
        if call is None:
            return errno.ENOSYS, b""
        fault = self.fault(operation) if operation not in ("init", "release", "releasedir") else ""
        if fault == "hang":
            return None
        if fault == "short":
            (size,) = struct.unpack_from("<I", body, 16)
            body = body[:16] + struct.pack("<I", max(1, size // 3)) + body[20:]
        elif fault:
            return getattr(errno, fault), b""
        try:
            return 0, call(node, body)
        except OSError as err:
            return err.errno or errno.EIO, b""

    def do_init(self, node: int, body: bytes) -> bytes:
        max_pages = 1 << 22
        return struct.pack("<4I2H2I2H8I", 7, 31, 1 << 17, max_pages, 12, 9, MAX_WRITE, 1, 32, 0, *[0] * 8)

    def inside(self, node: int, name: bytes) -> str:
        return f"{self.paths[node]}/{os.fsdecode(name.rstrip(bytes(1)))}"

    def do_lookup(self, node: int, body: bytes) -> bytes:
        return self.entry(self.inside(node, body))

    def do_getattr(self, node: int, body: bytes) -> bytes:
        return bytes(16) + self.attributes(os.lstat(self.paths[node]))

    def do_setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode = struct.unpack_from("<2I6Q4I", body)
        path = self.paths[node]
        if valid & SIZE:
            os.truncate(path, size)
        if valid & MODE:
            os.chmod(path, mode & 0o7777)
        if valid & MTIME and not valid & MTIME_NOW:
            os.utime(path, ns=(atime * 10**9 + atime_ns, mtime * 10**9 + mtime_ns))
        return self.do_getattr(node, body)

    def do_mkdir(self, node: int, body: bytes) -> bytes:
        path = self.inside(node, body[8:])
        os.mkdir(path, struct.unpack_from("<I", body)[0])
        return self.entry(path)

    def do_unlink(self, node: int, body: bytes) -> bytes:
        os.unlink(self.inside(node, body))
        self.ids.pop(self.inside(node, body), None)
        return b""

    def do_rmdir(self, node: int, body: bytes) -> bytes:
        os.rmdir(self.inside(node, body))
        self.ids.pop(self.inside(node, body), None)
        return b""

    def do_rename(self, node: int, body: bytes) -> bytes:
        return self.rename(node, struct.unpack_from("<Q", body)[0], body[8:])

    def do_rename2(self, node: int, body: bytes) -> bytes:
        return self.rename(node, struct.unpack_from("<Q", body)[0], body[16:])

    def rename(self, node: int, into: int, names: bytes) -> bytes:
        old, new = names.rstrip(bytes(1)).split(bytes(1))
        os.rename(self.inside(node, old), self.inside(into, new))
        self.moved(self.inside(node, old), self.inside(into, new))
        return b""

    def do_open(self, node: int, body: bytes) -> bytes:
        flags = struct.unpack_from("<I", body)[0] & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        return struct.pack("<Q2I", self.handle(os.open(self.paths[node], flags)), DIRECT_IO, 0)

    def do_create(self, node: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("<2I", body)
        path = self.inside(node, body[16:])
        opened = self.handle(os.open(path, flags | os.O_CREAT, mode))
        return self.entry(path) + struct.pack("<Q2I", opened, DIRECT_IO, 0)

    def do_read(self, node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<2QI", body)
        return os.pread(self.fd(handle), size, offset)

    def do_write(self, node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<2QI", body)
        return struct.pack("<2I", os.pwrite(self.fd(handle), body[40 : 40 + size], offset), 0)

    def do_statfs(self, node: int, body: bytes) -> bytes:
        info = os.statvfs(self.paths[node])
        blocks = (info.f_blocks, info.f_bfree, info.f_bavail, info.f_files, info.f_ffree)
        return struct.pack("<5Q4I6I", *blocks, info.f_bsize, info.f_namemax, info.f_frsize, 0, *[0] * 6)

    def do_flush(self, node: int, body: bytes) -> bytes:
        return b""

    def do_release(self, node: int, body: bytes) -> bytes:
        os.close(self.fd(struct.unpack_from("<Q", body)[0]))
        return b""

    do_fsync = do_fsyncdir = do_flush

    def do_opendir(self, node: int, body: bytes) -> bytes:
        with os.scandir(self.paths[node]) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        return struct.pack("<Q2I", self.handle(found), 0, 0)

    def do_readdir(self, node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<2QI", body)
        entries = self.handles[handle]
        assert isinstance(entries, list)
        answer = b""
        for number, (name, info) in enumerate(entries[offset:], offset + 1):
            told = os.fsencode(name)
            row = struct.pack("<2Q2I", info.st_ino, number, len(told), info.st_mode >> 12) + told
            row += bytes(-len(row) % 8)
            if len(answer) + len(row) > size:
                break
            answer += row
        return answer

    def do_releasedir(self, node: int, body: bytes) -> bytes:
        self.handles.pop(struct.unpack_from("<Q", body)[0])
        return b""


def main(backing: str, mountpoint: str, control: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    if libc.mount(b"faulty", mountpoint.encode(), b"fuse.faulty", 0, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    Server(backing, control).serve(device)


if __name__ == "__main__":
    main(*sys.argv[1:])
