"""DeepSpeed, Megatron, Lightning's folders and plain checkpoints, by their documented layouts; the judgement itself.

What the libraries write themselves is in tests/libraries.
"""

import io
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from outlast.checkpoint import dcp, known, pickles, torchzip
from outlast.checkpoint import format as forms
from outlast.checkpoint.format import Need, Scene, Verdict, Wanted, blind
from outlast.checkpoint.listing import File, Listing, scan, snapshots

NOW = 10_000.0
AT_REST = Scene(NOW, quiet_s=60)


def listing(*paths: str, mtime: float = 0.0, size: int = 100, host: str = "h0") -> Listing:
    return {host: tuple(File(path, size, mtime) for path in paths)}


def only(files: Listing, prefix: str = "") -> known.Found:
    (found,) = known.find(files, prefix)
    return found


def contents(**files: bytes) -> Callable[[str], BinaryIO]:
    """A look at files by the last part of their path; dots in names are written as __."""
    return contents_of(files)


def contents_of(files: dict[str, bytes]) -> Callable[[str], BinaryIO]:
    by_name = {name.replace("__", "."): content for name, content in files.items()}

    def look(path: str) -> BinaryIO:
        name = path.rpartition("/")[2]
        if name not in by_name:
            raise FileNotFoundError(path)
        return io.BytesIO(by_name[name])

    return look


def archive(content: object) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("archive/data.pkl", pickle.dumps(content))
        zipped.writestr("archive/version", "3\n")
    return file.getvalue()


def judged(found: known.Found, scene: Scene = AT_REST, look: Any = blind) -> Verdict:
    return known.judge(found, look, scene)


ZERO = [f"global_step40/zero_pp_rank_{d}_mp_rank_00_optim_states.pt" for d in range(4)]
STATES = archive({"module": {}, "dp_world_size": 4, "mp_world_size": 1, "global_steps": 40, "lr_scheduler": {"a": 1}})


def test_deepspeed_is_complete_when_latest_names_it_and_every_data_rank_has_its_file() -> None:
    found = only(listing("latest", "global_step40/mp_rank_00_model_states.pt", *ZERO))
    look = contents(latest=b"global_step40", mp_rank_00_model_states__pt=STATES)
    assert found.format.NAME == "deepspeed"
    assert judged(found, look=look).state == "complete"
    assert found.format.world(found.snapshot, look) == 4
    assert found.format.resume(found.snapshot).what == "latest: global_step40"
    assert found.format.reshard(found.snapshot, look).can == "no"


def test_deepspeed_misses_a_rank_that_only_the_model_states_tell_of() -> None:
    found = only(listing("latest", "global_step40/mp_rank_00_model_states.pt", *ZERO[:3]))
    look = contents(latest=b"global_step40", mp_rank_00_model_states__pt=STATES)
    assert judged(found, look=look).missing == (
        "zero_pp_rank_3_mp_rank_00_optim_states.pt (data rank 3, model rank 0) is missing",
    )


def test_deepspeed_is_torn_while_latest_names_an_older_one() -> None:
    found = only(listing("latest", "global_step40/mp_rank_00_model_states.pt", *ZERO))
    look = contents(latest=b"global_step20", mp_rank_00_model_states__pt=STATES)
    assert judged(found, Scene(NOW, writer="running"), look).state == "writing"
    assert judged(found, look=look) == Verdict("torn", *_twice("`latest` (rank 0) still names global_step20"))


def _twice(line: str) -> tuple[str, tuple[str, ...]]:
    return line, (line,)


def test_deepspeed_without_latest_is_unknown() -> None:
    found = only(listing("global_step40/mp_rank_00_model_states.pt", *ZERO))
    verdict = judged(found, look=contents(mp_rank_00_model_states__pt=STATES))
    assert (verdict.state, verdict.reason) == ("unknown", "no file `latest` beside it says that it is whole")


def test_deepspeed_lint_names_what_the_client_did_not_store() -> None:
    found = only(listing("latest", "global_step40/mp_rank_00_model_states.pt", *ZERO))
    lack = found.format.lacks(found.snapshot, contents(mp_rank_00_model_states__pt=STATES), AT_REST)
    assert [line.split(":")[0] for line in lack] == ["RNG", "data position"]


TRACKER = "latest_checkpointed_iteration.txt"


class Namespace:
    """Stands for argparse.Namespace, which Megatron stores its arguments in."""

    def __init__(self, tensor: int, pipeline: int) -> None:
        self.tensor_model_parallel_size, self.pipeline_model_parallel_size = tensor, pipeline


def test_megatron_knows_the_ranks_from_the_arguments_it_stored() -> None:
    files = [f"iter_0000040/mp_rank_0{t}_00{p}/model_optim_rng.pt" for t in range(2) for p in range(2)]
    look = contents(latest_checkpointed_iteration__txt=b"40\n", model_optim_rng__pt=archive({"args": Namespace(2, 2)}))
    assert judged(only(listing(TRACKER, *files)), look=look).state == "complete"
    verdict = judged(only(listing(TRACKER, *files[:3])), look=look)
    assert verdict.missing == ("mp_rank_01_001/model_optim_rng.pt (tensor rank 1, pipeline rank 1) is missing",)


def test_megatron_is_torn_while_the_tracker_says_an_older_iteration() -> None:
    found = only(listing(TRACKER, "iter_0000040/mp_rank_00/model_optim_rng.pt"))
    look = contents(latest_checkpointed_iteration__txt=b"20", model_optim_rng__pt=archive({"args": Namespace(1, 1)}))
    assert (found.step, found.format.NAME) == (40, "megatron")
    assert judged(found, look=look).reason == f"{TRACKER} (rank 0) still says 20"
    assert found.format.resume(found.snapshot).what == f"{TRACKER}: 40"


def test_megatrons_distributed_checkpoint_needs_its_metadata() -> None:
    found = only(listing(TRACKER, "iter_0000040/metadata.json", "iter_0000040/__0_0.distcp", "iter_0000040/common.pt"))
    assert found.format.NAME == "megatron"
    assert judged(found).missing == (".metadata (rank 0) is missing",)


def test_a_folder_of_lightning_needs_meta_behind_its_metadata() -> None:
    found = only(listing("step-40.ckpt/__0_0.distcp", "step-40.ckpt/.metadata"))
    assert (found.step, found.format.NAME) == (40, "lightning")
    assert "meta.pt (rank 0) is missing" in judged(found).missing


def test_a_durable_file_lies_in_a_folder_of_its_name() -> None:
    found = only(listing("step-40.ckpt/step-40.ckpt"))
    assert found.snapshot.is_file
    assert found.snapshot.path_of("step-40.ckpt") == "step-40.ckpt/step-40.ckpt"


def test_without_a_marker_only_rest_proves_that_it_is_whole() -> None:
    found = only(listing("step-40/state.bin", mtime=NOW - 30))
    assert found.format.NAME == "generic"
    assert judged(found).state == "writing"
    assert judged(found, Scene(NOW + 100, quiet_s=60)).state == "complete"
    assert judged(found, Scene(NOW, quiet_s=60, writer="done")).state == "complete"


def test_what_a_killed_rank_was_writing_is_quiet_for_ever_and_never_complete() -> None:
    found = only(listing("step-40/state.bin", mtime=NOW - 30))
    assert judged(found, Scene(NOW + 1e6, quiet_s=60, writer="gone", ended=NOW)).state == "unknown"


def test_what_is_missing_will_not_come_from_ranks_that_are_gone() -> None:
    found = only(listing("checkpoint-40/model.safetensors", mtime=NOW - 1))
    states = {
        writer: judged(found, Scene(NOW, writer=writer)).state for writer in ("running", "unknown", "gone", "done")
    }
    assert states == {"running": "writing", "unknown": "writing", "gone": "torn", "done": "torn"}
    assert judged(found, Scene(NOW + 1e6, writer="running")).state == "writing"


def test_the_marker_that_the_job_names_is_waited_for() -> None:
    found = only(listing("step-40/state.bin"))
    assert judged(found, Scene(NOW, marker="DONE")).missing == ("DONE (the job's checkpoint.complete) is missing",)
    found = only(listing("step-40/state.bin", "step-40/DONE", mtime=NOW))
    assert judged(found, Scene(NOW, marker="DONE", writer="gone", ended=NOW)).state == "complete"
    assert judged(found, Scene(NOW, marker="DONE", writer="unknown")).state == "complete"


def test_while_the_ranks_run_something_may_follow_the_last_file() -> None:
    found = only(listing("step-40/state.bin", "step-40/DONE", mtime=NOW))
    assert judged(found, Scene(NOW, marker="DONE", writer="running")).state == "writing"
    assert judged(found, Scene(NOW + 100, marker="DONE", writer="running")).state == "complete"


def test_a_missing_file_is_said_to_be_its_nodes_where_the_launch_is_known() -> None:
    found = only(listing("step-40/"))
    there = Scene(NOW, hosts=("h0", "h1"), ranks_per_node=2)
    wanted = Wanted({"a": Need("rank 3"), "b": Need("rank 4"), "c": Need("tensor rank 1")})
    assert forms.judge(wanted, found.snapshot, there).missing == (
        "a (rank 3 on h1) is missing",
        "b (rank 4) is missing",
        "c (tensor rank 1) is missing",
    )


def trainer(**contents: bytes) -> tuple[known.Found, Any]:
    """A Trainer's checkpoint of two ranks that changed a second before they were killed."""
    names = ["model.safetensors", "trainer_state.json", "rng_state_0.pth", "rng_state_1.pth"]
    files = {"trainer_state__json": b'{"global_step": 40}', "rng_state_0__pth": archive({}), **contents}
    found = only(listing(*(f"checkpoint-40/{name}" for name in names), mtime=NOW - 1))
    return found, contents_of(files)


def test_a_trainers_checkpoint_whose_files_are_whole_need_not_have_been_at_rest_when_its_ranks_died() -> None:
    killed = Scene(NOW + 99, quiet_s=60, writer="gone", ended=NOW, world=2)
    found, look = trainer(rng_state_1__pth=archive({}))
    assert judged(found, killed, look).state == "complete"
    assert judged(found, replace(killed, world=None), look).state == "unknown"
    assert judged(found, replace(killed, world=3), look).state == "torn"
    found, look = trainer(rng_state_1__pth=archive({})[:-1])
    assert judged(found, killed, look).state == "unknown"


def test_an_empty_folder_is_torn() -> None:
    assert judged(only(listing("step-40/"))).state == "torn"


def test_with_a_prefix_nothing_else_is_a_checkpoint() -> None:
    files = listing("step-40/a", "checkpoint-20/a", "step-40.log", "runs/a", "step-x/a")
    assert [found.snapshot.name for found in known.find(files, "checkpoint-")] == ["checkpoint-20"]
    assert [found.step for found in known.find(files, "step-")] == [40, 40]


def test_a_link_is_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-40"
    folder.mkdir()
    (folder / "trainer_state.json").write_text("{}")
    (folder / "model.safetensors").symlink_to("/elsewhere")
    (found,) = known.find({"h0": scan(tmp_path)})
    assert "model.safetensors (rank 0) is a link" in judged(found).missing


def test_a_listing_leaves_out_what_is_outlasts_own(tmp_path: Path) -> None:
    (tmp_path / "step-1").mkdir()
    (tmp_path / ".incoming-step-2").mkdir()
    for name in ("step-1/MANIFEST.json", "step-1/.metadata", ".step-9.pt.MANIFEST.json", ".incoming-step-2/a"):
        (tmp_path / name).touch()
    assert [file.path for file in scan(tmp_path)] == ["step-1/.metadata"]


def test_a_folder_without_a_number_is_not_looked_into(tmp_path: Path) -> None:
    for folder in ("node_modules/a1", "step-1/below"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").touch()
    assert [file.path for file in scan(tmp_path)] == ["step-1/below/file"]
    assert [file.path for file in scan(tmp_path, "node_modules")] == ["node_modules/a1/file"]


class Bomb:
    """What would run when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(self.marker)!r}, 'w')",)


def test_a_pickle_never_runs(tmp_path: Path) -> None:
    content = pickle.dumps({"storage_data": Bomb(tmp_path / "ran"), "also": [1, 2.5, "x"]})
    told = pickles.loads(content)
    assert told["also"] == [1, 2.5, "x"]
    assert pickles.name_of(told["storage_data"]) == "builtins.exec"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_any_age_is_read(protocol: int) -> None:
    told = pickles.loads(pickle.dumps([Namespace(2, 3), {"a": (1,)}, {4}], protocol))
    assert told[0].get("pipeline_model_parallel_size") == 3
    assert told[1:] == [{"a": (1,)}, {4}]


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"garbage", b"K\x01", b"\x80\x04]q\x00(h\x63e.", b"0.", b"}(K\x01u."]
)
def test_what_is_no_pickle_is_an_error_of_ours(content: bytes) -> None:
    with pytest.raises(pickles.PickleError):
        pickles.loads(content)


def test_a_metadata_that_is_another_pickle_is_said_to_be_none() -> None:
    look = contents(**{"__metadata": pickle.dumps({"a": 1})})
    with pytest.raises(dcp.MetadataError, match="no metadata of a distributed checkpoint"):
        dcp.metadata(look, "step-1/.metadata")


def test_an_archive_that_is_cut_short_is_an_error_of_ours() -> None:
    whole = archive({"a": 1})
    assert torchzip.open_archive(io.BytesIO(whole)).content == {"a": 1}
    for end in range(0, len(whole), 7):
        with pytest.raises(torchzip.ArchiveError):
            torchzip.open_archive(io.BytesIO(whole[:end]))


def test_a_file_that_differs_between_hosts_is_taken_where_it_is_long_enough() -> None:
    files = {**listing("step-4/a", host="h0", size=1), **listing("step-4/a", host="h1", size=9)}
    (snapshot,) = snapshots(files)
    assert snapshot.sizes("a") == {1, 9}
