"""torch.distributed.checkpoint, four ranks on four hosts: whole, under way, killed in the middle."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Hosts, running, scene, until, words_of

from outlast.checkpoint import dcp, deep


class Saves:
    """The hosts at three moments: step-20 under way, step-20 saved, rank 2 killed in step-30."""

    def __init__(self, root: Path) -> None:
        self.under_way, self.killed = Hosts(root / "under_way"), Hosts(root / "killed")


@pytest.fixture(scope="module")
def saves(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saves]:
    root = tmp_path_factory.mktemp("dcp")
    live = root / "live"
    with running(torch_python, "dcp.py", live, 4) as process:
        until(lambda: len(list(live.glob("h*/begun-20"))) == 4, process, live)
        until(lambda: bool(list(live.glob("h3/step-20/*.distcp"))), process, live)
        shutil.copytree(live, root / "under_way")
        (live / "h2/go").touch()
        until((live / "h2.code").exists, process, live)
        assert (live / "h2.code").read_text() == "-9\n", words_of(live)
        shutil.copytree(live, root / "killed")
    yield Saves(root)


def test_a_save_is_complete_over_the_hosts_and_on_none_of_them_alone(saves: Saves) -> None:
    hosts = saves.killed
    assert hosts.judge(10, scene()).state == "complete"
    assert hosts.judge(10, scene(writer="running")).state == "complete"
    found = hosts.find()[10]
    assert (found.format.NAME, found.format.world(found.snapshot, hosts.look)) == ("dcp", 4)
    assert found.snapshot.hosts() == ["h0", "h1", "h2", "h3"]


def test_an_async_save_is_being_written_until_its_metadata_is_there(saves: Saves) -> None:
    assert saves.under_way.judge(20, scene(writer="running")).state == "writing"
    assert saves.under_way.judge(20, scene(writer="running")).missing == (".metadata (rank 0) is missing",)
    assert saves.killed.judge(20, scene(writer="gone")).state == "complete"


def test_a_save_whose_rank_was_killed_is_torn(saves: Saves) -> None:
    assert saves.killed.judge(30, scene(writer="gone", ended=scene().now - 60)).state == "torn"
    assert saves.killed.judge(30, scene()).state == "torn"
    assert saves.killed.judge(30, scene(now=0.0)).state == "writing"


def test_a_part_that_went_with_its_host_is_named_with_its_rank(saves: Saves, tmp_path: Path) -> None:
    shutil.copytree(saves.killed.root, tmp_path / "hosts")
    shutil.rmtree(tmp_path / "hosts/h3")
    verdict = Hosts(tmp_path / "hosts").judge(10, scene())
    assert verdict.state == "torn"
    assert verdict.missing == ("__3_0.distcp (rank 3) is missing",)


def test_a_part_that_is_cut_short_is_found_by_its_size(saves: Saves, tmp_path: Path) -> None:
    shutil.copytree(saves.killed.root, tmp_path / "hosts")
    part = tmp_path / "hosts/h1/step-10/__1_0.distcp"
    size = part.stat().st_size
    with part.open("r+b") as file:
        file.truncate(size - 1)
    assert (
        Hosts(tmp_path / "hosts").judge(10, scene()).reason == f"__1_0.distcp (rank 1) has {size - 1} of {size} bytes"
    )


def test_a_damaged_metadata_is_no_checkpoint(saves: Saves, tmp_path: Path) -> None:
    shutil.copytree(saves.killed.root, tmp_path / "hosts")
    metadata = tmp_path / "hosts/h0/step-10/.metadata"
    metadata.write_bytes(metadata.read_bytes()[:-20])
    verdict = Hosts(tmp_path / "hosts").judge(10, scene())
    assert verdict.state == "torn"
    assert verdict.reason.startswith(".metadata cannot be read: no whole pickle")


def test_ezpz_is_complete_with_its_marker(saves: Saves, tmp_path: Path) -> None:
    shutil.copytree(saves.killed.root, tmp_path / "hosts")
    hosts = Hosts(tmp_path / "hosts")
    folder = tmp_path / "hosts/h0/step-10"
    (folder / "meta.json").write_text('{"step": 10, "batch_offset": 5}')
    assert hosts.judge(10, scene(writer="gone")).missing == (".complete (rank 0) is missing",)
    (folder / ".complete").touch()
    assert hosts.judge(10, scene(writer="gone")).state == "complete"
    assert hosts.judge(20, scene(marker=".complete")).state == "torn"


def test_the_shapes_in_the_metadata_are_read_without_torch(saves: Saves) -> None:
    told = dcp.metadata(saves.killed.look, "step-10/.metadata")
    assert told.shapes["model.layer.weight"] == (16, 8)
    assert sum(one.length for one in told.slices["model.layer.weight"]) > 16 * 8 * 4


def test_lint_misses_the_random_state_that_torchtitan_does_not_save(saves: Saves) -> None:
    found = saves.killed.find()[10]
    lack = found.format.lacks(found.snapshot, saves.killed.look, scene())
    assert [line.split(":")[0] for line in lack] == ["RNG"]


def test_a_look_into_the_parts_counts_every_tensor_and_finds_nan(saves: Saves, tmp_path: Path) -> None:
    found = deep.look(saves.killed.gathered("step-10", tmp_path))
    assert (found.problems, found.bad, found.skipped, found.uncounted) == ([], [], [], 0)
    assert found.dtypes == {"float32": 16 * 8 + 3, "bfloat16": 16 * 8}
    poisoned = deep.look(saves.killed.gathered("step-20", tmp_path))
    (line,) = poisoned.bad
    assert line.endswith("model.layer.bias has 1 NaN and 0 infinite of 3 values")


def test_a_look_into_a_damaged_part_finds_it(saves: Saves, tmp_path: Path) -> None:
    part = saves.killed.gathered("step-10", tmp_path) / "__1_0.distcp"
    content = bytearray(part.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    part.write_bytes(content)
    assert any(line.startswith("__1_0.distcp: ") for line in deep.look(part.parent).problems)
