"""Lists of files in tables in memory: there may be 100,000, and as objects of Python each would take 0.7 KB.

In memory, for a list on the node's disk would need room on it, and trainers fill it. A list's rows go with its object.
"""

import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

# Paths are bytes: SQLite has no text for names that are no UTF-8. A time has no type: of one beyond 64 bits, which some
# file systems know, INTEGER would make a float. What has a hash is copied.
_SCHEMA = """
CREATE TABLE listed (list INTEGER, path BLOB, size INTEGER, mtime_ns, PRIMARY KEY (list, path)) WITHOUT ROWID;
CREATE TABLE joined (
  list INTEGER, path BLOB, host INTEGER, size INTEGER, mtime_ns, is_linked INTEGER, hash BLOB,
  PRIMARY KEY (list, path)
) WITHOUT ROWID;
CREATE TABLE again (
  list INTEGER, path BLOB, host INTEGER, size INTEGER, mtime_ns, PRIMARY KEY (list, path, host)
) WITHOUT ROWID;
"""

Row = tuple[str, int, int]  # path, bytes, time of change in ns


class Part(NamedTuple):
    """A file, where it is taken from."""

    host: str
    size: int
    mtime_ns: int


class Tables:
    """Where lists lie."""

    def __init__(self) -> None:
        # What nobody needs any more is removed in the thread that happens to find it.
        database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.run, self.run_all = database.execute, database.executemany
        for command in ("PRAGMA journal_mode = OFF", *_SCHEMA.split(";")):
            self.run(command)
        self.hosts: list[str] = []  # by number
        self._numbers: dict[str, int] = {}
        self._last = 0

    def number(self, host: str) -> int:
        """That of a host."""
        if host not in self._numbers:
            self._numbers[host] = len(self.hosts)
            self.hosts.append(host)
        return self._numbers[host]

    def open(self, owner: object, *tables: str) -> int:
        """The number of a new list; its rows in these tables are removed when its owner is."""
        self._last += 1
        for table in tables:
            weakref.finalize(owner, self.run, f"DELETE FROM {table} WHERE list = ?", (self._last,)).atexit = False
        return self._last

    def listing(self, rows: Iterable[Iterable[Any]] = ()) -> "Listing":
        """A list of one host's files: path, bytes, time of change in ns."""
        found = Listing(self)
        found.add(rows)
        return found

    def join(self, of_hosts: Mapping[str, "Listing"]) -> "Files":
        """One list of all of these; of a file that several have the first one counts."""
        return Files(self, of_hosts)


class Listing(Mapping[str, tuple[int, int]]):
    """What one host has of a checkpoint: bytes and time of change in ns, by path. It grows until it is whole."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.number = tables.open(self, "listed")
        self._totals: tuple[int, int] | None = None

    def add(self, rows: Iterable[Iterable[Any]]) -> None:
        """Path, bytes, time of change in ns; of a path that is there the last one counts.

        Raises: ValueError, TypeError, OverflowError: that is none.
        """
        self._totals = None
        found = ((self.number, _key(path), int(size), _time(mtime_ns)) for path, size, mtime_ns in rows)
        self._tables.run_all("INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?)", found)

    def __getitem__(self, path: str) -> tuple[int, int]:
        values = (self.number, _key(path))
        row = self._tables.run("SELECT size, mtime_ns FROM listed WHERE list = ? AND path = ?", values).fetchone()
        if row is None:
            raise KeyError(path)
        return row[0], int(row[1])

    def __iter__(self) -> Iterator[str]:
        for (path,) in self._tables.run("SELECT path FROM listed WHERE list = ? ORDER BY path", (self.number,)):
            yield _path(path)

    def __len__(self) -> int:
        return self._total()[0]

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return self._total()[1]

    def _total(self) -> tuple[int, int]:
        if self._totals is None:
            wanted = "SELECT count(*), coalesce(sum(size), 0) FROM listed WHERE list = ?"
            self._totals = self._tables.run(wanted, (self.number,)).fetchone()
        return self._totals


class Files(Mapping[str, Part]):
    """What all hosts have of a checkpoint, in the order of paths, and how much of it has been copied."""

    def __init__(self, tables: Tables, of_hosts: Mapping[str, Listing]) -> None:
        self._tables = tables
        self._run = tables.run
        self._list = tables.open(self, "joined", "again")
        for host, listing in of_hosts.items():
            self._join(tables.number(host), listing.number)
        self.bytes = 0
        self.counts: dict[str, int] = {}  # by host that a file is taken from
        self.left: dict[str, int] = {}  # how many of these have still to be copied
        self.left_bytes = 0
        self.turn = 0  # another number when what was copied is forgotten
        self.forget()
        self.counts, self.bytes = dict(self.left), self.left_bytes

    def _join(self, host: int, listing: int) -> None:
        of = "FROM listed AS of WHERE list = ?"
        if self._run("SELECT 1 FROM joined WHERE list = ? LIMIT 1", (self._list,)).fetchone():
            known = "EXISTS (SELECT 1 FROM joined WHERE list = ? AND path = of.path)"
            values = (self._list, host, listing, self._list)
            self._run(f"INSERT INTO again SELECT ?, path, ?, size, mtime_ns {of} AND {known}", values)
        columns = "?, path, ?, size, mtime_ns, 0, NULL"
        self._run(f"INSERT OR IGNORE INTO joined SELECT {columns} {of}", (self._list, host, listing))

    # ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────────

    def __getitem__(self, path: str) -> Part:
        values = (self._list, _key(path))
        row = self._run("SELECT host, size, mtime_ns FROM joined WHERE list = ? AND path = ?", values).fetchone()
        if row is None:
            raise KeyError(path)
        return self._part(*row)

    def __iter__(self) -> Iterator[str]:
        for (path,) in self._run("SELECT path FROM joined WHERE list = ? ORDER BY path", (self._list,)):
            yield _path(path)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def copies(self, path: str) -> list[Part]:
        """The file on each host that has it."""
        first = self.get(path)
        values = (self._list, _key(path))
        rows = self._run("SELECT host, size, mtime_ns FROM again WHERE list = ? AND path = ?", values)
        return [first, *(self._part(*row) for row in rows)] if first else []

    def sizes(self) -> "Sizes":
        """The bytes of each file."""
        return Sizes(self)

    def differ(self) -> tuple[str, ...]:
        """The paths that several hosts have, with different sizes."""
        # The few that there are again are looked up, not all (CROSS: in this order).
        both = "again CROSS JOIN joined USING (list, path) WHERE list = ? AND joined.size <> again.size"
        return tuple(
            _path(row[0]) for row in self._run(f"SELECT DISTINCT path FROM {both} ORDER BY path", (self._list,))
        )

    def has_changed(self, other: "Files") -> bool:
        """Is a file of the same path and host another one there?"""
        both = "joined AS one JOIN joined AS other USING (path, host) WHERE one.list = ? AND other.list = ?"
        unlike = "(one.size <> other.size OR one.mtime_ns <> other.mtime_ns)"
        values = (self._list, other._list)
        return self is not other and bool(self._run(f"SELECT 1 FROM {both} AND {unlike} LIMIT 1", values).fetchone())

    def _part(self, host: int, size: int, mtime_ns: Any) -> Part:
        return Part(self._tables.hosts[host], size, int(mtime_ns))

    # ── what is linked aside ──────────────────────────────────────────────────────────────────────────────────────────

    def link(self, host: str) -> None:
        """This host begins to link what is taken from it."""
        values = (self._list, self._tables.number(host))
        self._run("UPDATE joined SET is_linked = 0 WHERE list = ? AND host = ? AND is_linked", values)

    def linked(self, host: str, rows: Iterable[Iterable[Any]]) -> None:
        """It has linked these: path, bytes, time of change in ns. They count if that is how they are here."""
        number = self._tables.number(host)
        values = ((self._list, _key(path), number, int(size), _time(mtime_ns)) for path, size, mtime_ns in rows)
        as_here = "list = ? AND path = ? AND host = ? AND size = ? AND mtime_ns = ?"
        self._tables.run_all(f"UPDATE joined SET is_linked = 1 WHERE {as_here}", values)

    def is_linked(self, host: str) -> bool:
        """Has it linked all that is taken from it?"""
        values = (self._list, self._tables.number(host))
        wanted = "SELECT 1 FROM joined WHERE list = ? AND host = ? AND NOT is_linked LIMIT 1"
        return self._run(wanted, values).fetchone() is None

    # ── what is copied ────────────────────────────────────────────────────────────────────────────────────────────────

    def forget(self) -> None:
        """Nothing is copied, as far as anybody knows."""
        self.turn += 1
        self._run("UPDATE joined SET hash = NULL WHERE list = ? AND hash IS NOT NULL", (self._list,))
        rows = self._run("SELECT host, count(*), sum(size) FROM joined WHERE list = ? GROUP BY host", (self._list,))
        found = {self._tables.hosts[host]: (count, size) for host, count, size in rows}
        self.left = {host: count for host, (count, _) in found.items()}
        self.left_bytes = sum(size for _, size in found.values())

    def has(self, path: str, digest: str) -> None:
        """This file is copied, with this hash, in hex. Raises: KeyError, ValueError."""
        self._set(path, bytes.fromhex(digest))

    def has_not(self, path: str) -> None:
        """This file is not copied any more. Raises: KeyError."""
        self._set(path, None)

    def _set(self, path: str, digest: bytes | None) -> None:
        values = (self._list, _key(path))
        row = self._run("SELECT host, size, hash IS NULL FROM joined WHERE list = ? AND path = ?", values).fetchone()
        if row is None:
            raise KeyError(path)
        self._run("UPDATE joined SET hash = ? WHERE list = ? AND path = ?", (digest, *values))
        host, more = self._tables.hosts[row[0]], (digest is None) - row[2]
        self.left_bytes += more * row[1]
        self.left[host] = self.left.get(host, 0) + more
        if not self.left[host]:
            del self.left[host]

    def copied(self) -> Iterator[tuple[str, int, str]]:
        """Path, bytes and hash of what is copied."""
        wanted = "SELECT path, size, hash FROM joined WHERE list = ? AND hash IS NOT NULL ORDER BY path"
        for path, size, digest in self._run(wanted, (self._list,)):
            yield _path(path), size, digest.hex()

    def left_of(self, host: str) -> Iterator[Row]:
        """What has still to be copied from this host."""
        wanted = "SELECT path, size, mtime_ns FROM joined WHERE list = ? AND host = ? AND hash IS NULL ORDER BY path"
        for path, size, mtime_ns in self._run(wanted, (self._list, self._tables.number(host))):
            yield _path(path), size, int(mtime_ns)


class Sizes(Mapping[str, int]):
    """The bytes of each file, by path."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __getitem__(self, path: str) -> int:
        return self._files[path].size

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _key(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


def _path(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")


def _time(mtime_ns: Any) -> int | str:
    """As SQLite can hold it: file systems know times that 64 bits of ns do not."""
    number = int(mtime_ns)
    return number if abs(number) < 1 << 63 else str(number)
