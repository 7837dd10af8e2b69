"""Lists of files in tables: what comes out is what went in, whatever it is called, and its memory is given back."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from outlast.sidecar.tables import Files, Part, Tables

ODD = ("a", "sub/b", "ü", "\udcff", "a b\n'\";--", "€/\U0001f600")


@pytest.fixture
def tables() -> Tables:
    return Tables()


def joined(tables: Tables, **of_hosts: list[tuple[str, int, int]]) -> Files:
    return tables.join({host: tables.listing(rows) for host, rows in of_hosts.items()})


def rows_of(tables: Tables, table: str) -> int:
    return int(tables.run(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_any_name_and_any_time_comes_out_as_it_went_in(tables: Tables) -> None:
    times = (0, -1, 1 << 62, (1 << 63) + 7, -(1 << 64), 5)
    listing = tables.listing(zip(ODD, range(6), times, strict=True))
    assert dict(listing) == {path: (size, time) for path, size, time in zip(ODD, range(6), times, strict=True)}
    files = tables.join({"h0": listing})
    assert dict(files) == {path: Part("h0", size, time) for path, size, time in zip(ODD, range(6), times, strict=True)}
    assert list(files) == sorted(ODD)
    assert sorted(files.left_of("h0")) == sorted(zip(ODD, range(6), times, strict=True))
    files.linked("h0", zip(ODD, range(6), times, strict=True))
    assert files.is_linked("h0")


def test_a_path_that_is_told_twice_is_one_file_as_it_was_told_last(tables: Tables) -> None:
    listing = tables.listing([("a", 1, 1), ("b", 2, 2)])
    assert (len(listing), listing.bytes) == (2, 3)
    listing.add([("a", 5, 3)])
    assert (len(listing), listing.bytes, listing["a"]) == (2, 7, (5, 3))


@pytest.mark.parametrize("row", [["a"], ["a", "x", 1], ["a", None, 1], ["a", 1 << 63, 1]])
def test_what_is_no_row_is_refused(tables: Tables, row: list[object]) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        tables.listing([row])


def test_lists_do_not_see_each_other(tables: Tables) -> None:
    one, other = tables.listing([("a", 1, 1)]), tables.listing([("b", 2, 2)])
    assert "b" not in one
    assert list(other) == ["b"]
    assert other.get("a") is None


def test_of_a_file_that_several_have_the_first_host_counts(tables: Tables) -> None:
    files = joined(tables, b=[("w", 5, 1), ("x", 1, 1)], a=[("w", 6, 2), ("z", 2, 2)], c=[("w", 5, 3), ("x", 1, 3)])
    assert dict(files) == {"w": Part("b", 5, 1), "x": Part("b", 1, 1), "z": Part("a", 2, 2)}
    assert files.copies("w") == [Part("b", 5, 1), Part("a", 6, 2), Part("c", 5, 3)]
    assert files.copies("none") == []
    assert (files.differ(), files.counts, files.bytes, len(files)) == (("w",), {"b": 2, "a": 1}, 8, 3)


def test_it_has_changed_where_a_file_of_the_same_host_is_another(tables: Tables) -> None:
    files = joined(tables, a=[("w", 5, 1)], b=[("x", 5, 1)])
    assert not files.has_changed(files)
    assert not files.has_changed(joined(tables, a=[("w", 5, 1)]))  # x was pruned
    assert not files.has_changed(joined(tables, b=[("w", 7, 7)]))  # another host's is no news
    assert not files.has_changed(joined(tables, a=[("w", 5, 1), ("new", 5, 1)]))
    assert files.has_changed(joined(tables, a=[("w", 5, 2)]))
    assert files.has_changed(joined(tables, a=[("w", 6, 1)]))


def test_what_is_copied_is_counted_once(tables: Tables) -> None:
    files = joined(tables, a=[("w", 5, 1), ("x", 1, 1)], b=[("z", 2, 2)])
    files.has("w", "1f" * 16)
    files.has("w", "2e" * 32)
    assert (files.left, files.left_bytes, list(files.copied())) == ({"a": 1, "b": 1}, 3, [("w", 5, "2e" * 32)])
    files.has("x", "3d")
    assert (files.left, list(files.left_of("a"))) == ({"b": 1}, [])
    files.has_not("x")
    files.has_not("x")
    assert (files.left, files.left_bytes) == ({"a": 1, "b": 1}, 3)
    files.forget()
    assert (files.left, files.left_bytes, list(files.copied())) == ({"a": 2, "b": 1}, 8, [])
    with pytest.raises(KeyError):
        files.has("other", "1f")


def test_what_is_linked_is_what_was_found(tables: Tables) -> None:
    files = joined(tables, a=[("w", 5, 1), ("x", 1, 1)], b=[("z", 2, 2)])
    files.linked("a", [("w", 5, 1), ("x", 1, 2), ("z", 2, 2)])
    assert not files.is_linked("a")
    files.linked("a", [("x", 1, 1)])
    assert (files.is_linked("a"), files.is_linked("b")) == (True, False)
    files.link("a")
    assert not files.is_linked("a")


def test_what_nobody_holds_any_more_is_gone(tables: Tables) -> None:
    listing = tables.listing([("w", 5, 1)])
    files = tables.join({"a": listing, "b": listing})
    assert (rows_of(tables, "listed"), rows_of(tables, "joined"), rows_of(tables, "again")) == (1, 1, 1)
    del listing
    gc.collect()
    assert (rows_of(tables, "listed"), dict(files)) == (0, {"w": Part("a", 5, 1)})
    del files
    gc.collect()
    assert (rows_of(tables, "joined"), rows_of(tables, "again")) == (0, 0)


# A checkpoint's whole way through the tables, in a process of its own: its peak in KiB.
_WAY = """
import sys
from outlast.sidecar.tables import Tables
tables, count = Tables(), int(sys.argv[1])
listing = tables.listing()
for start in range(0, count, 500):
    listing.add((f"{n // 1000}/part-{n:06d}", 100, 10**18 + n) for n in range(start, min(count, start + 500)))
files = tables.join({"h0": listing})
assert sum(1 for _ in files) == count
for number in range(count):
    files.has(f"{number // 1000}/part-{number:06d}", f"{number:032x}")
assert not files.left and sum(1 for _ in files.copied()) == count
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_a_file_takes_little_more_than_its_name() -> None:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    few, many = (
        int(subprocess.check_output([sys.executable, "-c", _WAY, str(count)], env=environ)) for count in (500, 50_500)
    )
    assert (many - few) * 1024 / 50_000 < 160


def test_a_list_may_be_dropped_by_any_thread(tables: Tables) -> None:
    held = [tables.listing([("a", 1, 1)])]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(held.clear).result()
    assert rows_of(tables, "listed") == 0
