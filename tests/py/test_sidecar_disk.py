"""What is done with files on a node: copied, hashed, listed."""

import ast
import errno
import hashlib
import os
import subprocess
import threading
from pathlib import Path

import pytest

from outlast.sidecar import disk
from outlast.sidecar.disk import Changed, Copier


def test_what_files_take_is_counted_once_however_many_names_they_have(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/file").write_bytes(b"x" * (1 << 20))
    (tmp_path / "b/link").hardlink_to(tmp_path / "a/file")
    (tmp_path / "b/gone").symlink_to("/nowhere")
    assert 1 << 20 <= disk.taken(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c")) < 1.1 * (1 << 20)


def copier(algorithm: str = "blake2b") -> Copier:
    return Copier(algorithm, lambda count: None)


def source(tmp_path: Path, size: int) -> tuple[Path, int]:
    path = tmp_path / "source"
    path.write_bytes(os.urandom(size))
    return path, path.stat().st_mtime_ns


def test_it_is_parsed_by_python_3_6_and_imports_nothing_of_outlast() -> None:
    text = Path(disk.__file__).read_text()
    ast.parse(text, feature_version=(3, 6))
    assert "from outlast" not in text
    assert "import outlast" not in text


AHEAD = pytest.mark.parametrize("ahead", [False, True])


@AHEAD
@pytest.mark.parametrize("size", [0, 1, disk.SMALL, disk.SMALL + 1, disk.PIECE, 4 * disk.PIECE + 7])
def test_a_copy_is_equal_and_its_hash_is_that_of_its_content(tmp_path: Path, size: int, ahead: bool) -> None:
    path, mtime = source(tmp_path, size)
    digest = copier().copy(str(path), str(tmp_path / "copy"), size, mtime, ahead)
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()
    assert digest == hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()


@AHEAD
@pytest.mark.parametrize("there", ["shorter", "longer", "wrong at the start", "wrong in the middle", "zeros"])
def test_what_lies_there_is_continued_or_mended(tmp_path: Path, there: str, ahead: bool) -> None:
    size = 3 * disk.PIECE + 7
    path, mtime = source(tmp_path, size)
    content = path.read_bytes()
    half = size // 2
    old = {
        "shorter": content[:half],
        "longer": content + b"more",
        "wrong at the start": b"?" + content[1:],
        "wrong in the middle": content[:half] + b"?" + content[half + 1 :],
        "zeros": bytes(size),
    }[there]
    (tmp_path / "copy").write_bytes(old)
    digest = copier().copy(str(path), str(tmp_path / "copy"), size, mtime, ahead)
    assert (tmp_path / "copy").read_bytes() == content
    assert digest == hashlib.blake2b(content, digest_size=32).hexdigest()


def test_what_is_the_same_already_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, mtime = source(tmp_path, 2 * disk.PIECE + 7)
    (tmp_path / "copy").write_bytes(path.read_bytes()[: disk.PIECE])
    written: list[int] = []
    write = disk.write_all
    monkeypatch.setattr(disk, "write_all", lambda fd, piece, at: (written.append(at), write(fd, piece, at)))
    copier().copy(str(path), str(tmp_path / "copy"), 2 * disk.PIECE + 7, mtime)
    assert written == [disk.PIECE, 2 * disk.PIECE]


@AHEAD
def test_a_file_that_changes_under_the_copy_is_no_copy(tmp_path: Path, ahead: bool) -> None:
    size = 2 * disk.PIECE
    path, mtime = source(tmp_path, size)
    pieces = []

    def gate(count: int) -> None:
        pieces.append(count)
        if len(pieces) == 2:
            path.write_bytes(os.urandom(size))

    with pytest.raises(Changed):
        Copier("blake2b", gate).copy(str(path), str(tmp_path / "copy"), size, mtime, ahead)


def test_no_piece_is_read_into_the_place_of_one_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, mtime = source(tmp_path, 5 * disk.PIECE)
    read, write, events = disk.read_full, disk.write_all, []
    turn = threading.Condition()

    def reads(fd: int, into: memoryview) -> int:
        count = read(fd, into)
        with turn:
            events.append("read")
            turn.notify_all()
        return count

    def writes(fd: int, piece: memoryview, at: int) -> None:
        ahead = min(5, at // disk.PIECE + 2)  # the next one has been read before this one is written
        with turn:
            assert turn.wait_for(lambda: events.count("read") >= ahead, 30)
        write(fd, piece, at)

    monkeypatch.setattr(disk, "read_full", reads)
    monkeypatch.setattr(disk, "write_all", writes)
    copier().copy(str(path), str(tmp_path / "copy"), 5 * disk.PIECE, mtime, ahead=True)
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


@AHEAD
def test_what_a_gate_or_a_write_raises_ends_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    path, mtime = source(tmp_path, 3 * disk.PIECE)

    def fails(*words: object) -> None:
        raise OSError(errno.ESTALE, "stale")

    with pytest.raises(OSError, match="stale"):
        Copier("blake2b", fails).copy(str(path), str(tmp_path / "copy"), 3 * disk.PIECE, mtime, ahead)
    monkeypatch.setattr(disk, "write_all", fails)
    with pytest.raises(OSError, match="stale"):
        copier().copy(str(path), str(tmp_path / "copy"), 3 * disk.PIECE, mtime, ahead)


def test_a_file_that_is_not_the_listed_one_is_not_copied(tmp_path: Path) -> None:
    path, mtime = source(tmp_path, 10)
    for size, changed in ((11, mtime), (10, mtime + 1)):
        with pytest.raises(Changed):
            copier().copy(str(path), str(tmp_path / "copy"), size, changed)


def test_a_write_that_takes_only_a_part_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, mtime = source(tmp_path, disk.PIECE + 5)
    write = os.pwrite
    monkeypatch.setattr(disk.os, "pwrite", lambda fd, piece, at: write(fd, piece[: max(1, len(piece) // 3)], at))
    copier().copy(str(path), str(tmp_path / "copy"), disk.PIECE + 5, mtime)
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    path, mtime = source(tmp_path, 10)
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "copy").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"):
        copier().copy(str(path), str(tmp_path / "copy"), 10, mtime)
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a\0b"])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    assert not disk.is_inside(path)


def test_steps_are_read_from_names() -> None:
    names = ["step-20", "step-007.ckpt", "step-", "step-x1", "other-5", ".step-5"]
    assert [disk.step_of(name, "step-") for name in names] == [20, 7, -1, -1, -1, -1]


def test_a_listing_has_regular_files_with_what_links_point_to(tmp_path: Path) -> None:
    top = tmp_path / "step-5"
    (top / "sub").mkdir(parents=True)
    (top / "sub/a").write_text("123")
    (top / "link").symlink_to("sub/a")
    (top / "nowhere").symlink_to("gone")
    (top / "folder").symlink_to("sub")
    (top / "MANIFEST.json").write_text("{}")
    os.mkfifo(top / "pipe")
    found = disk.Listing(str(tmp_path), "step-5")
    assert sorted(row[:2] for row in found) == [("link", 3), ("sub/a", 3)]
    assert found.count == 2


def test_a_hash_that_it_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        disk.new_hash("nothing")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system of a few MB")
def test_a_full_disk_is_an_error_and_no_copy(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    path, mtime = source(tmp_path, 8 << 20)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], check=True)
    try:
        with pytest.raises(OSError, match="No space"):
            copier().copy(str(path), str(small / "copy"), 8 << 20, mtime)
    finally:
        subprocess.run(["umount", "-l", small], check=True)
