"""A node's folder before a launch: the chosen checkpoint, no other, and only right bytes."""

import ast
import hashlib
import os
from pathlib import Path

import pytest

from outlast.checkpoint import manifest
from outlast.checkpoint.manifest import Item, Manifest
from outlast.sidecar import arrange, disk

PARTS = {f"__{rank}_0.distcp": os.urandom(3000 + rank) for rank in range(4)}
CONTENT = {".metadata": b"names", "deep/data.bin": os.urandom(disk.SMALL + 5), **PARTS}
HOSTS = ("a.site", "b.site")  # with two ranks each, in two words


def durable(tmp_path: Path, content: dict[str, bytes] = CONTENT, name: str = "step-40", hashed: bool = True) -> Path:
    top = tmp_path / "lake" / name
    write(top, content)
    items = tuple(
        Item(path, len(text), hashlib.blake2b(text, digest_size=32).hexdigest() if hashed else "")
        for path, text in content.items()
    )
    paper = Manifest(step=40, list=items, algorithm="blake2b" if hashed else "")
    (top / "MANIFEST.json").write_text(manifest.render(paper))
    return top


def write(top: Path, content: dict[str, bytes]) -> None:
    for path, text in content.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(text)


def run(tmp_path: Path, top: Path, bring: str = "all", host: str = "b") -> int:
    return arrange.main(["arrange", host, str(top), str(tmp_path / "node"), "step-", bring, "2", "checked", *HOSTS])


def shown(tmp_path: Path, name: str = "step-40") -> Path:
    """The node's folder, which must show that checkpoint alone, with all its bytes."""
    names = [name for name, _ in disk.checkpoints(str(tmp_path / "node"), "step-")]
    assert names == [name]
    path = tmp_path / "node" / name
    assert {file: (path / file).read_bytes() for file in CONTENT} == CONTENT
    return path


def real(path: Path) -> set[str]:
    """The files that lie on the node itself."""
    return {file for file in CONTENT if not path.is_symlink() and not (path / file).is_symlink()}


def test_it_is_parsed_by_python_3_6_and_imports_only_disk() -> None:
    text = Path(arrange.__file__).read_text()
    ast.parse(text, feature_version=(3, 6))
    assert [line for line in text.splitlines() if "outlast" in line and "import " in line and line[0] != " "] == [
        "from outlast.sidecar import disk"
    ]


@pytest.mark.parametrize(
    ("bring", "host", "brought"),
    [
        ("all", "b", set(CONTENT)),
        ("node0", "a", set(CONTENT)),
        ("node0", "b", set()),
        ("own-shards", "a", {".metadata", "deep/data.bin", "__0_0.distcp", "__1_0.distcp"}),
        ("own-shards", "b", {".metadata", "deep/data.bin", "__2_0.distcp", "__3_0.distcp"}),
        ("own-shards", "stranger", {".metadata", "deep/data.bin"}),
        ("none", "a", set()),
    ],
)
def test_every_node_shows_all_of_it_and_holds_what_was_asked_for(
    tmp_path: Path, bring: str, host: str, brought: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    top = durable(tmp_path)
    write(tmp_path / "node/step-60", {"half": b"x"})
    assert run(tmp_path, top, bring, host) == 0
    assert real(shown(tmp_path)) == brought
    assert (tmp_path / "node/.unused/half").exists()


def test_with_nothing_on_the_node_the_name_itself_is_the_link(tmp_path: Path) -> None:
    top = durable(tmp_path)
    run(tmp_path, top, "none")
    assert (tmp_path / "node/step-40").readlink() == top


def test_what_a_survivor_has_stays_and_only_the_rest_is_brought(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    top = durable(tmp_path)
    write(tmp_path / "node/step-40", {"__2_0.distcp": PARTS["__2_0.distcp"], "of the trainer alone": b"x"})
    inode = (tmp_path / "node/step-40/__2_0.distcp").stat().st_ino
    assert run(tmp_path, top, "none") == 0
    assert capfd.readouterr().out == "arranged\tb\t1\t0\t5\n"
    path = shown(tmp_path)
    assert real(path) == {"__2_0.distcp"}
    assert (path / "__2_0.distcp").stat().st_ino == inode
    assert not (path / "of the trainer alone").exists()
    assert run(tmp_path, top, "all") == 0
    assert capfd.readouterr().out == "arranged\tb\t1\t5\t0\n"
    assert real(shown(tmp_path)) == set(CONTENT)


def damaged(text: bytes) -> bytes:
    """Its last byte is another one, whichever it was."""
    return text[:-1] + bytes([text[-1] ^ 1])


@pytest.mark.parametrize("text", [b"short", bytes(3002), damaged(PARTS["__2_0.distcp"])])
def test_a_survivor_that_is_not_the_durable_one_is_not_used(tmp_path: Path, text: bytes) -> None:
    top = durable(tmp_path)
    write(tmp_path / "node/step-40", {"__2_0.distcp": text})
    assert run(tmp_path, top, "none") == 0
    assert real(shown(tmp_path)) == set()


def test_links_of_an_earlier_launch_are_no_copies(tmp_path: Path) -> None:
    top = durable(tmp_path)
    run(tmp_path, top, "none")
    run(tmp_path, top, "own-shards")
    assert run(tmp_path, top, "all") == 0
    assert real(shown(tmp_path)) == set(CONTENT)


@pytest.mark.parametrize("change", ["other bytes", "shorter", "gone", "no manifest"])
def test_a_damaged_one_is_told_and_shown_to_nobody(
    tmp_path: Path, change: str, capfd: pytest.CaptureFixture[str]
) -> None:
    top = durable(tmp_path)
    victim = top / "deep/data.bin"
    if change == "gone":
        victim.unlink()
    elif change == "no manifest":
        victim = top / "MANIFEST.json"
        victim.write_text('{"list":')
    else:
        text = victim.read_bytes()
        victim.write_bytes(damaged(text) if change == "other bytes" else text[:-1])
    assert run(tmp_path, top) == 3
    assert capfd.readouterr().out.startswith(f"bad\tb\t{victim.relative_to(top)}\t")
    assert not (tmp_path / "node/step-40").exists()
    assert arrange.main(["check", "a", str(top), str(victim.relative_to(top))]) == 3


def test_a_second_look_at_a_file_that_is_right_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert arrange.main(["check", "a", str(durable(tmp_path)), "deep/data.bin"]) == 0
    assert capfd.readouterr().out == "good\ta\tdeep/data.bin\n"


def test_a_node_without_room_has_failed_and_blames_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    top = durable(tmp_path)
    (tmp_path / "node").write_text("a file where a folder should be")
    assert run(tmp_path, top) == 1
    assert capfd.readouterr().out.startswith("failed\tb\t")


def test_a_killed_one_is_continued(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    top = durable(tmp_path)
    write(tmp_path / "node/.arriving", {".metadata": b"names", "deep/data.bin": b"half"})
    assert run(tmp_path, top) == 0
    assert capfd.readouterr().out == "arranged\tb\t1\t5\t0\n"
    shown(tmp_path)


@pytest.mark.parametrize("bring", ["all", "none"])
def test_a_checkpoint_that_is_a_file_is_shown_as_one(tmp_path: Path, bring: str) -> None:
    top = durable(tmp_path, {"step-40.ckpt": b"weights"}, "step-40.ckpt")
    for _ in range(2):
        assert run(tmp_path, top, bring) == 0
        assert (tmp_path / "node/step-40.ckpt").read_bytes() == b"weights"
        assert (tmp_path / "node/step-40.ckpt").is_symlink() == (bring == "none")


def test_a_python_without_the_hash_says_so_and_brings_all_anew_when_told_to(tmp_path: Path) -> None:
    top = durable(tmp_path)
    text = (top / "MANIFEST.json").read_text()
    (top / "MANIFEST.json").write_text(text.replace('"blake2b"', '"xxh9"'))
    write(tmp_path / "node/step-40", {"__2_0.distcp": bytes(3002)})
    assert run(tmp_path, top) == 4
    words = ["arrange", "b", str(top), str(tmp_path / "node"), "step-", "none", "2", "unchecked", *HOSTS]
    assert arrange.main(words) == 0
    assert real(shown(tmp_path)) == set()


def test_a_path_that_leads_out_of_the_checkpoint_is_damage(tmp_path: Path) -> None:
    top = durable(tmp_path)
    text = (top / "MANIFEST.json").read_text()
    (top / "MANIFEST.json").write_text(text.replace("deep/data.bin", "../../victim"))
    (tmp_path / "lake/victim").write_text("x")
    assert run(tmp_path, top) == 3
    assert not (tmp_path / "victim").exists()
