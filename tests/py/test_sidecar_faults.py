"""The shared file system fails or hangs under the sidecar's real processes: a real file system, faulty_fs.py.

Every time: it is said once, tried again, training and the coordinator notice nothing, and in the end all is durable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import faulty_fs
import pytest
from faulty_fs import Faulty
from sidecar_cluster import Cluster, wait_for

from outlast.sidecar import disk

pytestmark = pytest.mark.skipif(bool(faulty_fs.why_not()), reason=faulty_fs.why_not())


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Faulty]:
    with faulty_fs.mounted(tmp_path) as fs:
        yield fs


@pytest.fixture
def one(tmp_path: Path, shared: Faulty) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "job", run=shared.path / "demo")
    cluster.start()
    cluster.save(10, size=1000)
    # Not only to be seen: what comes behind its publication would meet the fault, too.
    wait_for(lambda: cluster.events("checkpoint_durable"), "step 10 to be durable")
    yield cluster
    shared.stop()  # first, so that nobody waits for it any more
    cluster.stop()


def beats(cluster: Cluster) -> bool:
    """Does the coordinator go on? It says so once a second, in whole seconds."""
    beat = cluster.state / "sidecar_beat"
    before = beat.read_text()
    wait_for(lambda: beat.read_text() != before, "the coordinator's next sign of life")
    return True


def goes_on(cluster: Cluster, shared: Faulty, content: dict[str, bytes]) -> None:
    """The file system works again: the ranks end, and the drain is over with all of it durable."""
    assert not (shared.backing / "demo/checkpoints/step-20").exists()
    shared.works()
    cluster.end()
    cluster.drain()
    assert cluster.durable_steps() == [10, 20]
    cluster.assert_holds(20, content)
    assert list((shared.path / "demo/checkpoints").glob(".incoming-*")) == []


@pytest.mark.parametrize(
    ("fault", "size"),
    [
        ("write EIO", 3_000_000),
        ("write ENOSPC", 3_000_000),
        ("write EDQUOT", 1000),
        ("lookup ESTALE", 3_000_000),
        ("fsync EIO", 3_000_000),
        ("fsync ENOSPC", 1000),
        ("create EDQUOT", 1000),
        ("mkdir ENOSPC", 1000),
        ("rename EIO", 1000),
        ("fsyncdir EIO", 1000),
        ("readdir ESTALE", 1000),
    ],
)
def test_an_error_is_said_once_and_tried_again_until_it_works(
    one: Cluster, shared: Faulty, fault: str, size: int
) -> None:
    shared.fails(fault)
    content = one.save(20, size=size)
    wait_for(lambda: one.events("warned"), "a word of it")
    before = shared.hits()
    wait_for(lambda: shared.hits() > before, "another try")
    assert beats(one)
    goes_on(one, shared, content)
    kind = fault.partition(" ")[2]
    assert [words[0].split(":")[1].strip() for words in one.events("warned")] == [kind]


def test_a_full_disk_takes_what_waits_for_its_removal(one: Cluster, shared: Faulty) -> None:
    waiting = shared.path / "demo/checkpoints/.removed-step-5.9999999999.job"
    waiting.mkdir()
    (waiting / "weights").write_text("old")
    shared.fails("write EDQUOT")
    content = one.save(20, size=3_000_000)
    wait_for(lambda: not waiting.exists(), "room")
    goes_on(one, shared, content)


@pytest.mark.parametrize("operation", ["write", "create", "fsync", "rename", "any"])
def test_one_that_hangs_keeps_nobody_waiting_but_the_copy(one: Cluster, shared: Faulty, operation: str) -> None:
    shared.fails(f"{operation} hang")
    one.save(20, size=3_000_000)
    wait_for(shared.hits, "the hang")
    assert beats(one)
    # What is saved meanwhile is seen, and linked aside.
    content = one.save(30, size=2000)
    wait_for(lambda: (one.state / "local_step").read_text().startswith("30 "), "the next one to be seen")
    shared.works()
    one.end()
    one.drain()
    one.assert_holds(30, content)


def test_a_coordinator_that_is_killed_while_it_hangs_is_replaced(one: Cluster, shared: Faulty) -> None:
    shared.fails("any hang")
    content = one.save(20, size=3_000_000)
    wait_for(shared.hits, "the hang")
    one.kill("h0")
    one.start_coordinator()
    wait_for(lambda: (one.state / "sidecar_beat").exists() and beats(one), "the next coordinator")
    goes_on(one, shared, content)


def test_removal_that_hangs_keeps_nobody_waiting(one: Cluster, shared: Faulty) -> None:
    one.settings |= {"CKPT_KEEP": 1, "CKPT_GRACE_S": 0}
    one.kill("h0")
    one.start_coordinator()
    one.save(20, size=1000)
    one.wait_durable(20)
    shared.fails("unlink hang")
    one.save(30, size=1000)
    wait_for(shared.hits, "the hang")
    content = one.save(40, size=1000)
    one.end()
    one.drain()
    shared.works()
    one.assert_holds(40, content)


def test_a_coordinator_that_is_killed_behind_its_rename_is_replaced(one: Cluster) -> None:
    one.kill("h0")
    (one.state / "durable_step").unlink()  # as if it had not come so far
    one.start_coordinator()
    content = one.save(20, size=1000)
    one.wait_durable(20)
    one.assert_holds(20, content)


def test_writes_that_take_only_a_part_are_continued(one: Cluster, shared: Faulty) -> None:
    shared.fails("write short")
    content = one.save(20, size=5_000_000)
    one.wait_durable(20)
    one.assert_holds(20, content)
    assert shared.hits() > 50
    assert one.events("warned") == []


def test_small_files_are_flushed_one_by_one_where_syncfs_asks_nobody(shared: Faulty, tmp_path: Path) -> None:
    (shared.path / "small").write_bytes(b"1")
    shared.fails("fsync EIO")
    folder = os.open(shared.path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Input/output"):
            disk.flush(folder, [str(shared.path / "small")])
    finally:
        os.close(folder)
