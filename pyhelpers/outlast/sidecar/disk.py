"""What is done with files on a node: listed, hashed, copied, flushed.

It is brought to the node with agent.py or arrange.py, for whatever Python 3.6 or newer is there, and imports nothing
of outlast.
"""

import contextlib
import errno
import hashlib
import itertools
import mmap
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, List, Set, Tuple

PIECE = 1 << 20  # read, hashed and written while it is in the processor's cache
TINY = 1 << 17  # bytes up to which a file's name costs more than its content
SMALL = 1 << 20  # up to this they are flushed together
FUSE = 0x65735546  # FUSE_SUPER_MAGIC, linux/magic.h
BESIDE = 100  # plain files around the checkpoints: `latest`, a tracker
MANIFEST = "MANIFEST.json"
LEFT_OUT = (MANIFEST, MANIFEST + ".new")  # outlast's own

File = Tuple[str, int, int]  # path in the checkpoint, bytes, time of the last change in ns


class Changed(Exception):
    """The trainer has changed or removed a file while it was copied."""


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


class Listing:
    """The regular files of a checkpoint, one at a time, in no order: there may be 100,000, and nobody holds them all.

    A checkpoint that is a file has itself as its only file. A link to a file counts as that file; one to a folder as
    nothing. Behind the last one: how many (`count`), when anything in it changed last in ns (`newest`), and a number
    that another listing has only with the same files (`sign`). On the way it raises OSError.
    """

    def __init__(self, root: str, name: str) -> None:
        self._root = root
        self._name = name
        self.count = self.newest = self.sign = 0

    def __iter__(self) -> Iterator[File]:
        self.count = self.newest = self.sign = 0
        for path, size, mtime_ns in self._files():
            self.count += 1
            # A sum, as the order may change; of texts, as Python's hash of numbers is no hash.
            self.sign = (self.sign + hash("{}/{}/{}".format(path, size, mtime_ns))) & 0xFFFFFFFFFFFFFFFF
            yield path, size, mtime_ns

    def _files(self) -> Iterator[File]:
        top = os.path.join(self._root, self._name)
        info = os.lstat(top)
        if stat.S_ISLNK(info.st_mode):
            return
        self.newest = info.st_mtime_ns
        if not stat.S_ISDIR(info.st_mode):
            yield self._name, info.st_size, info.st_mtime_ns
            return
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
                        self.newest = max(self.newest, entry.stat(follow_symlinks=False).st_mtime_ns)
                    except FileNotFoundError:
                        continue  # a link to nothing, or just removed
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path + "/")
                    elif stat.S_ISREG(info.st_mode):
                        yield path, info.st_size, info.st_mtime_ns


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
    total = 0
    seen: Set[int] = set()  # of those with several names
    for folder in folders:
        for top, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):  # just removed
                    info = os.lstat(os.path.join(top, name))
                    number = info.st_dev << 64 | info.st_ino
                    if number not in seen:
                        total += info.st_blocks * 512
                    if info.st_nlink > 1:
                        seen.add(number)
    return total


def link(origin: str, aside: str) -> None:
    """A second name for the file, of the file that has the first one now. Raises: OSError."""
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


def pages() -> memoryview:
    """Room for a piece, in whole pages: to anywhere else the kernel copies at half the speed."""
    return memoryview(mmap.mmap(-1, PIECE))


def read_full(fd: int, into: memoryview) -> int:
    """How many bytes were read: fewer than there is room for only at the end of the file."""
    got = 0
    while got < len(into):
        count = os.readv(fd, [into[got:]])
        if not count:
            break
        got += count
    return got


class Copier:
    """Copies files and hashes them as they pass; `gate(bytes)` is asked before each piece and may wait or raise."""

    def __init__(self, algorithm: str, gate: Callable[[int], None]) -> None:
        self.algorithm = algorithm
        self._gate = gate
        self._of_thread = threading.local()

    def copy(self, source: str, dest: str, size: int, mtime_ns: int, ahead: bool = False) -> str:
        """The hash of the copy, in hex. Of what lies there already is kept what is the same.

        `ahead`: another thread reads and hashes the next piece while this one writes. Where several files are copied at
        once that would only take more of the processor.

        Raises: Changed: the source is not what was listed; OSError; what the gate raises.
        """
        file = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._check(file, size, mtime_ns)
            fd = os.open(dest, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
            try:
                digest = self._through(file, fd, size, ahead)
                if os.fstat(fd).st_size != size:
                    os.ftruncate(fd, size)
                if size > SMALL:
                    os.fsync(fd)
            finally:
                os.close(fd)
            self._check(file, size, mtime_ns)
        finally:
            os.close(file)
        return digest

    @staticmethod
    def _check(file: int, size: int, mtime_ns: int) -> None:
        info = os.fstat(file)
        if info.st_size != size or info.st_mtime_ns != mtime_ns:
            raise Changed("changed while it was copied")

    def _room(self) -> memoryview:
        """Where this thread's piece lies."""
        try:
            room: memoryview = self._of_thread.room
        except AttributeError:
            room = self._of_thread.room = pages()
        return room

    def _through(self, file: int, fd: int, size: int, ahead: bool) -> str:
        digest = new_hash(self.algorithm)
        have = os.fstat(fd).st_size
        at = 0
        for piece in (self._pieces_ahead if ahead else self._pieces)(file, size, digest):
            if at + len(piece) > have or os.pread(fd, len(piece), at) != piece:
                have = 0  # else from an earlier try
                write_all(fd, piece, at)
            at += len(piece)
        return str(digest.hexdigest())

    def _next(self, file: int, piece: memoryview, digest: Any) -> memoryview:
        """The piece, read and hashed."""
        self._gate(len(piece))
        if read_full(file, piece) != len(piece):
            raise Changed("ended early")
        digest.update(piece)
        return piece

    def _pieces(self, file: int, size: int, digest: Any) -> Iterator[memoryview]:
        for at in range(0, size, PIECE):
            yield self._next(file, self._room()[: min(PIECE, size - at)], digest)

    def _pieces_ahead(self, file: int, size: int, digest: Any) -> Iterator[memoryview]:
        """The same, the next one meanwhile: each is there until the one behind it is asked for."""
        rooms = pages(), pages()
        pieces = (rooms[at // PIECE % 2][: min(PIECE, size - at)] for at in range(0, size, PIECE))
        with ThreadPoolExecutor(1) as pool:
            coming = [pool.submit(self._next, file, piece, digest) for piece in itertools.islice(pieces, 1)]
            while coming:
                here = coming.pop().result()
                coming = [pool.submit(self._next, file, piece, digest) for piece in itertools.islice(pieces, 1)]
                yield here


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
                for _ in pool.map(sync, paths):
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


def sync(path: str) -> None:
    """A file, or a folder's list of names, is on its disk. Raises: OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
