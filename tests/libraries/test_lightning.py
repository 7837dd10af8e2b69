"""PyTorch Lightning's ModelCheckpoint."""

import shutil
from pathlib import Path

import pytest
from conftest import Hosts, run, scene


@pytest.fixture(scope="module")
def hosts(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    return run(torch_python, "lightning.py", tmp_path_factory.mktemp("lightning"), 1)


def test_a_file_is_complete_with_its_end(hosts: Hosts) -> None:
    found = hosts.find()
    assert sorted(found) == [2, 4]
    assert found[2].format.NAME == "lightning"
    assert hosts.judge(2, scene(writer="running")).state == "complete"


def test_a_file_that_is_cut_short_is_torn(hosts: Hosts, tmp_path: Path) -> None:
    shutil.copytree(hosts.root, tmp_path / "hosts")
    file = tmp_path / "hosts/h0/step-2.ckpt"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    copy = Hosts(tmp_path / "hosts")
    assert copy.judge(2, scene(now=0.0)).state == "writing"
    assert copy.judge(2, scene()).state == "torn"


def test_the_score_of_the_callback_is_the_loss(hosts: Hosts) -> None:
    found = hosts.find()[2]
    loss = found.format.loss(found.snapshot, hosts.look)
    assert loss is not None
    assert 0 < loss < 100


def test_lint_misses_the_random_state_and_of_weights_alone_the_rest(hosts: Hosts) -> None:
    found = known_by_name(hosts, "step-2.ckpt")
    assert kinds(found, hosts) == ["RNG"]
    assert "optimizer" in kinds(known_by_name(hosts, "weights-step-4.ckpt"), hosts)


def known_by_name(hosts: Hosts, name: str):  # type: ignore[no-untyped-def]
    from outlast.checkpoint import known

    return next(found for found in known.find(hosts.listing()) if found.snapshot.name == name)


def kinds(found, hosts: Hosts) -> list[str]:  # type: ignore[no-untyped-def]
    return [line.split(":")[0] for line in found.format.lacks(found.snapshot, hosts.look, scene())]
