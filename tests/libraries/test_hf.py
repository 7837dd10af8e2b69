"""transformers' Trainer under DDP, two ranks on two hosts."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import Hosts, run, scene

from outlast.checkpoint import deep


@pytest.fixture(scope="module")
def hosts(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    return run(torch_python, "hf.py", tmp_path_factory.mktemp("hf"), 2, "sharded")


@pytest.fixture
def copy(hosts: Hosts, tmp_path: Path) -> Hosts:
    shutil.copytree(hosts.root, tmp_path / "hosts")
    return Hosts(tmp_path / "hosts")


def test_each_host_has_the_random_state_of_its_rank_and_the_first_has_the_rest(hosts: Hosts) -> None:
    found = hosts.find()
    assert sorted(found) == [2, 4]
    assert found[4].format.NAME == "hf"
    assert list(found[4].snapshot.files["rng_state_1.pth"]) == ["h1"]
    assert len([path for path in found[4].snapshot.paths() if path.endswith(".safetensors")]) > 1
    assert hosts.judge(4, scene()).state == "complete"


def test_a_random_state_that_is_missing_is_named(copy: Hosts) -> None:
    (copy.root / "h1/checkpoint-4/rng_state_1.pth").unlink()
    verdict = copy.judge(4, scene())  # checkpoint-2 shows that there were two ranks
    assert (verdict.state, verdict.missing) == ("torn", ("rng_state_1.pth (rank 1) is missing",))
    assert copy.judge(2, scene()).state == "complete"


def test_a_shard_of_the_index_that_is_missing_is_named(copy: Hosts) -> None:
    shard = next((copy.root / "h0/checkpoint-4").glob("model-00002-*.safetensors"))
    shard.unlink()
    assert copy.judge(4, scene()).missing == (f"{shard.name} (rank 0) is missing",)


def test_trainer_state_cut_short_is_still_being_written_and_then_torn(copy: Hosts) -> None:
    state = copy.root / "h0/checkpoint-4/trainer_state.json"
    state.write_text(state.read_text()[:50])
    assert copy.judge(4, scene(writer="running")).state == "writing"
    assert copy.judge(4, scene(writer="gone")).state == "torn"


def test_the_last_rank_may_still_be_writing(hosts: Hosts) -> None:
    changed = hosts.find()[4].snapshot.changed()
    assert hosts.judge(4, scene(now=changed + 5, writer="running")).state == "writing"
    assert hosts.judge(4, scene(now=changed + 5, writer="done")).state == "complete"
    # Quiet is no proof once the ranks were killed right after their last word.
    assert hosts.judge(4, scene(now=changed + 5000, writer="gone", ended=changed + 1)).state == "unknown"


def test_the_loss_is_that_of_the_evaluation_at_its_step(hosts: Hosts) -> None:
    history = json.loads((hosts.root / "h0/checkpoint-4/trainer_state.json").read_text())["log_history"]
    losses = {entry["step"]: entry["eval_loss"] for entry in history if "eval_loss" in entry}
    for step, found in hosts.find().items():
        assert found.format.loss(found.snapshot, hosts.look) == losses[step]


def test_nothing_is_missing_for_an_exact_resume(hosts: Hosts) -> None:
    found = hosts.find()[4]
    assert found.format.lacks(found.snapshot, hosts.look, scene(world=2)) == []


def test_a_look_into_the_files_opens_all_that_hold_tensors(hosts: Hosts, tmp_path: Path) -> None:
    found = deep.look(hosts.gathered("checkpoint-4", tmp_path))
    assert (found.problems, found.bad, found.skipped) == ([], [], [])
    assert found.tensors > 50  # weights, and two moments of each


def test_a_checkpoint_of_the_weights_alone_says_what_it_lacks(torch_python: str, tmp_path: Path) -> None:
    hosts = run(torch_python, "hf.py", tmp_path, 1, "only_model")
    found = hosts.find()[4]
    assert hosts.judge(4, scene()).state == "complete"
    lack = found.format.lacks(found.snapshot, hosts.look, scene())
    assert [line.split(":")[0] for line in lack] == ["optimizer", "schedule", "RNG"]
