"""Manifests, what verifying finds, and a look into the files."""

import io
import json
import os
import struct
import subprocess
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file

from outlast.checkpoint import deep, hashing, manifest, values, verify
from outlast.checkpoint.manifest import Item, Manifest, ManifestError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint-40"
    (folder / "below").mkdir(parents=True)
    (folder / "a.bin").write_bytes(os.urandom(10_000))
    (folder / "below/b.bin").write_bytes(b"b" * 10)
    return folder


def made(folder: Path, algorithm: str = "xxh3_128", **fields: object) -> Manifest:
    return Manifest(40, verify.made(folder, algorithm), algorithm=algorithm, **fields)  # type: ignore[arg-type]


def test_a_manifest_is_read_as_it_was_written(checkpoint: Path) -> None:
    told = made(
        checkpoint, run="r1", job="12", written=1000, loss=2.5, world_size=8, ranks=2, hosts=("n1", "n2"), dirty=False
    )
    manifest.publish(checkpoint, told)
    assert manifest.read(checkpoint) == told
    assert sorted(path.name for path in checkpoint.iterdir()) == ["MANIFEST.json", "a.bin", "below"]


def test_names_that_are_no_utf8_survive(checkpoint: Path) -> None:
    (checkpoint / os.fsdecode(b"odd\xff\n")).touch()
    manifest.publish(checkpoint, told := made(checkpoint))
    assert manifest.read(checkpoint) == told
    assert verify.verify(checkpoint, told).problems == ()


BASH = """
OUTLAST_RUN=r1 OUTLAST_JOB_ID=12 OUTLAST_RESTART=0 OUTLAST_ATTEMPT=2
for f in log bounded ledger checkpoint; do . lib/$f.sh; done
"""


def bash(script: str, *words: str) -> str:
    line = ["bash", "-c", BASH + script, "_", *words]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_what_lib_writes_is_read(checkpoint: Path) -> None:
    text = bash('_ol_checkpoint_manifest 40 "$1"', str(checkpoint))
    told = manifest.parse(text)
    assert (told.step, told.run, told.job, told.attempt, told.algorithm) == (40, "r1", "12", 2, "")
    assert {item.path: item.bytes for item in told.list} == {"a.bin": 10_000, "below/b.bin": 10}
    assert verify.verify(checkpoint, told).depth == "sizes"


def test_lib_reads_what_is_written_here(checkpoint: Path) -> None:
    manifest.publish(checkpoint, made(checkpoint, run='r"1,"files":7', loss=1.5))
    said = bash('_ol_checkpoint_said "$1/MANIFEST.json"; _ol_checkpoint_found "$1"', str(checkpoint))
    assert said.splitlines() == ["2 10010"] * 2


def test_a_file_has_its_manifest_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "step-40.ckpt"
    file.write_bytes(b"weights")
    manifest.publish(file, told := made(file))
    assert manifest.read(file) == told
    assert (tmp_path / ".step-40.ckpt.MANIFEST.json").exists()
    assert verify.verify(file, told).problems == ()


@pytest.mark.parametrize(
    "change",
    [
        {"files": 3},
        {"bytes": 1},
        {"step": -1},
        {"step": True},
        {"list": [{"path": "../out", "bytes": 5}, {"path": "b", "bytes": 5}]},
        {"list": [{"path": "/etc/passwd", "bytes": 10}]},
        {"list": [{"path": "a", "bytes": 5}, {"path": "a", "bytes": 5}]},
        {"list": 7},
        {"hosts": 7},
        {"versions": [1]},
        {"loss": "x"},
    ],
)
def test_a_manifest_that_does_not_hold_together_is_refused(change: dict[str, object]) -> None:
    whole = {"step": 1, "files": 2, "bytes": 10, "list": [{"path": "a", "bytes": 5}, {"path": "b", "bytes": 5}]}
    assert manifest.parse(json.dumps(whole)).bytes == 10
    with pytest.raises(ManifestError):
        manifest.parse(json.dumps(whole | change))


def test_a_manifest_that_is_cut_short_is_refused(checkpoint: Path) -> None:
    text = manifest.render(made(checkpoint)).rstrip()
    for end in range(0, len(text), 5):
        with pytest.raises(ManifestError):
            manifest.parse(text[:end])


@pytest.mark.parametrize("algorithm", ["xxh3_128", "blake2b"])
def test_one_changed_byte_is_found(checkpoint: Path, algorithm: str) -> None:
    told = made(checkpoint, algorithm)
    assert verify.verify(checkpoint, told) == verify.Report((), "hashes", 2, 10_010)
    with (checkpoint / "a.bin").open("r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))
    assert verify.verify(checkpoint, told).problems == ("a.bin has changed: its hash is another",)


def test_what_is_missing_or_too_much_is_named(checkpoint: Path) -> None:
    told = made(checkpoint)
    (checkpoint / "below/b.bin").unlink()
    (checkpoint / "new").touch()
    os.truncate(checkpoint / "a.bin", 9)
    assert verify.verify(checkpoint, told).problems == (
        "below/b.bin is missing",
        "new is not in the manifest",
        "a.bin has 9 bytes, the manifest says 10000",
    )


def test_a_hash_that_this_python_cannot_make_is_unknown_and_not_wrong(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = made(checkpoint)
    monkeypatch.setattr(hashing, "xxhash", None)
    assert hashing.best() == "blake2b"
    report = verify.verify(checkpoint, told)
    assert (report.problems, report.depth) == ((), "sizes (xxh3_128 needs the package xxhash, which this Python lacks)")


def safetensors(folder: Path, **arrays: object) -> Path:
    folder.mkdir(exist_ok=True)
    save_file(arrays, folder / "model.safetensors")  # type: ignore[arg-type]
    return folder / "model.safetensors"


def test_a_look_counts_tensors_and_finds_nan_and_infinity(tmp_path: Path) -> None:
    bad = numpy.zeros(1000, numpy.float32)
    bad[7], bad[9] = numpy.nan, -numpy.inf
    safetensors(tmp_path / "c", good=numpy.ones((2, 3), numpy.float16), bad=bad, whole=numpy.ones(4, numpy.int64))
    found = deep.look(tmp_path / "c")
    assert (found.tensors, found.numbers, found.problems) == (3, 1010, [])
    assert found.dtypes == {"float32": 1000, "float16": 6, "int64": 4}
    assert found.bad == ["model.safetensors: bad has 1 NaN and 1 infinite of 1000 values"]


def test_a_safetensors_file_cut_anywhere_is_a_problem(tmp_path: Path) -> None:
    file = safetensors(tmp_path / "c", a=numpy.ones((5, 3), numpy.float32), b=numpy.ones(7, numpy.float64))
    content = file.read_bytes()
    for end in range(0, len(content), 3):
        file.write_bytes(content[:end])
        assert deep.look(tmp_path / "c").problems, end


def test_a_header_whose_tensors_overlap_is_a_problem(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"a": entry, "b": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    (problem,) = deep.look(tmp_path).problems
    assert "begins at 0, the tensor before ends at 8" in problem


@pytest.mark.parametrize(
    ("dtype", "values_", "counts"),
    [
        ("bfloat16", struct.pack("<5H", 0x3F80, 0x7F80, 0xFF80, 0x7FC0, 0x0000), (1, 2)),
        ("float8_e5m2", bytes([0x00, 0x7C, 0xFC, 0x7D, 0x3C]), (1, 2)),
        ("float8_e4m3fn", bytes([0x7F, 0xFF, 0x7E, 0x00]), (2, 0)),
        ("float64", struct.pack("<2d", float("nan"), 1.0), (1, 0)),
        ("int8", bytes(3), (0, 0)),
    ],
)
def test_values_of_each_kind_are_counted(dtype: str, values_: bytes, counts: tuple[int, int]) -> None:
    assert values.count(io.BytesIO(values_), dtype, len(values_)) == values.Counts(*counts)


def test_values_are_counted_across_chunks_that_cut_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "CHUNK", 7)
    array = numpy.ones(100, numpy.float32)
    array[50:60] = numpy.nan
    assert values.count(io.BytesIO(array.tobytes()), "float32", 400) == values.Counts(10, 0)
    with pytest.raises(EOFError):
        values.count(io.BytesIO(array.tobytes()), "float32", 401)


def test_without_numpy_nobody_looks_at_values_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    safetensors(tmp_path / "c", a=numpy.full(3, numpy.nan, numpy.float32))
    monkeypatch.setattr(values, "numpy", None)
    found = deep.look(tmp_path / "c")
    assert (found.bad, found.uncounted) == ([], 1)


def test_an_item_without_a_hash_is_held_against_its_size_alone(checkpoint: Path) -> None:
    told = Manifest(40, (Item("a.bin", 10_000), *made(checkpoint).list[1:]), algorithm="xxh3_128")
    assert verify.verify(checkpoint, told).problems == ()
