"""Which checkpoints are whole, over all nodes: what the sidecar adds to the judgement of outlast.checkpoint.

How each format is judged is in test_checkpoint_formats.py and tests/libraries.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import BinaryIO

import pytest
from soak_trainer import metadata_of

from outlast.sidecar import judge
from outlast.sidecar.judge import Entry, Rules, Verdict
from outlast.sidecar.settings import Ranks
from outlast.sidecar.tables import Tables

NOW = 1000.0
RUNNING = Ranks(known=True, running=True)
CRASHED = Ranks(known=True, ended_s=990.0, code=1)
ENDED = Ranks(known=True, ended_s=990.0, code=0)
HF = Rules("trainer_state.json", 30, sharded=False, hosts=("a",), ranks_per_node=1)
DCP = Rules(".metadata", 30, sharded=True, hosts=("a", "b"), ranks_per_node=1)
PLAIN = Rules("", 30, sharded=False, hosts=("a",), ranks_per_node=1)
TABLES = Tables()
METADATA = metadata_of({"__0_0.distcp": 5, "__1_0.distcp": 5})


def entry(*paths: str, quiet_s: float = 60, size: int = 5) -> Entry:
    return Entry(20, TABLES.listing((path, size, 1) for path in paths), quiet_s, NOW)


def verdict(
    entries: dict[str, Entry],
    rules: Rules,
    ranks: Ranks = RUNNING,
    absent: str = "",
    late: str = "",
    name: str = "step-20",
    beside: Mapping[str, judge.Beside] | None = None,
    **contents: bytes,
) -> Verdict:
    files = {".metadata": METADATA} | {path.replace("__", "."): content for path, content in contents.items()}

    def look(path: str) -> BinaryIO:
        judge.place(path, name, entries, beside or {}, ("a", "b"))
        try:
            return io.BytesIO(files[path.rpartition("/")[2]])
        except KeyError as err:
            raise FileNotFoundError(path) from err

    around = judge.scene(rules, ranks, NOW)
    joined = judge.join(TABLES, entries, rules.hosts)
    there = judge.snapshot(name, joined, entries, beside or {})
    facts = judge.facts(there, name.rstrip("0123456789"), look, around)
    assert facts is not None
    return judge.judge(facts, there, joined, entries, rules, around, frozenset(absent), frozenset(late))


def test_whole_with_its_last_file_and_at_rest() -> None:
    rules = replace(PLAIN, complete="last")
    assert verdict({"a": entry("w", "last")}, rules).whole
    assert not verdict({"a": entry("w")}, rules).whole
    assert not verdict({"a": entry("w", "last", quiet_s=10)}, rules).whole


def test_with_its_last_file_and_nobody_who_writes_it_need_not_be_at_rest() -> None:
    assert verdict({"a": entry("w", "last", quiet_s=10)}, replace(PLAIN, complete="last"), CRASHED).whole


def test_without_its_last_file_it_is_torn_once_the_ranks_have_ended() -> None:
    rules = replace(PLAIN, complete="last")
    assert not verdict({"a": entry("w")}, rules).torn
    assert verdict({"a": entry("w")}, rules, CRASHED).torn


def test_without_a_last_file_rest_is_the_proof_and_only_while_the_writer_lives() -> None:
    assert verdict({"a": entry("w")}, PLAIN).whole
    assert verdict({"a": entry("w", quiet_s=1)}, PLAIN, ENDED).whole
    assert verdict({"a": entry("w", quiet_s=45)}, PLAIN, CRASHED).whole  # 35 s before they ended
    torn = verdict({"a": entry("w", quiet_s=35)}, PLAIN, CRASHED)
    assert torn.torn
    assert "before its ranks ended" in torn.missing[0]


def test_a_host_whose_clock_is_wrong_is_judged_by_how_long_it_saw_nothing_change() -> None:
    ahead = Entry(20, TABLES.listing([("w", 5, int((NOW + 5000) * 1e9))]), 60, NOW)
    assert verdict({"a": ahead}, PLAIN).whole
    assert not verdict({"a": replace(ahead, quiet_s=10)}, PLAIN).whole


def test_a_sharded_one_is_whole_with_all_that_its_index_names() -> None:
    both = {"a": entry("__0_0.distcp", ".metadata"), "b": entry("__1_0.distcp")}
    assert verdict(both, DCP).whole
    half = verdict({"a": both["a"]}, DCP, ENDED)
    assert half.torn
    assert half.missing == ("__1_0.distcp (rank 1 on b) is missing",)
    short = verdict({**both, "b": entry("__1_0.distcp", size=4)}, DCP, ENDED)
    assert short.missing == ("__1_0.distcp (rank 1 on b) has 4 of 5 bytes",)


def test_an_index_that_nobody_can_be_asked_for_proves_nothing() -> None:
    both = {"a": entry("__0_0.distcp"), "c": entry("__1_0.distcp", ".metadata")}
    assert not verdict(both, DCP).whole
    assert verdict(both, DCP, CRASHED).torn


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("archive/data.pkl", b"N.")
    return file.getvalue()


def test_hf_is_whole_with_the_random_state_of_each_rank_on_its_node() -> None:
    rules = replace(HF, hosts=("a", "b"))
    first = entry("model.safetensors", "trainer_state.json", "rng_state_0.pth", size=9, quiet_s=12)
    state = json.dumps({"global_step": 20, "log_history": [{"step": 20, "eval_loss": 2.5}]}).encode()
    files = {"trainer_state__json": state, "rng_state_0__pth": archive(), "rng_state_1__pth": archive()}
    both = {"a": first, "b": entry("rng_state_1.pth", quiet_s=12)}
    whole = verdict(both, rules, CRASHED, name="checkpoint-20", **files)
    assert whole.whole
    assert whole.facts is not None
    assert (whole.facts.format.NAME, whole.facts.world_size, whole.facts.loss) == ("hf", 2, 2.5)
    alone = verdict({"a": first}, rules, CRASHED, name="checkpoint-20", **files)
    assert alone.missing == ("rng_state_1.pth (rank 1 on b) is missing",)
    files["rng_state_1__pth"] = archive()[:-1]
    assert verdict(both, rules, CRASHED, name="checkpoint-20", **files).torn


@pytest.mark.parametrize(("latest", "whole"), [(b"global_step20", True), (b"global_step10", False)])
def test_what_lies_beside_the_checkpoints_is_looked_at(latest: bytes, whole: bool) -> None:
    states = io.BytesIO()
    with zipfile.ZipFile(states, "w") as zipped:
        zipped.writestr("archive/data.pkl", b"(dVdp_world_size\nI2\nsVmp_world_size\nI1\ns.")
    shards = [f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(2)]
    entries = {"a": entry("mp_rank_00_model_states.pt", shards[0]), "b": entry(shards[1])}
    found = verdict(
        entries,
        replace(DCP, complete=""),
        name="global_step20",
        beside={"a": {"latest": (13, 1)}},
        latest=latest,
        mp_rank_00_model_states__pt=states.getvalue(),
    )
    assert found.whole == whole


def test_without_an_index_every_node_of_a_sharded_one_must_have_been_seen() -> None:
    rules = replace(DCP, complete="latest")
    entries = {"a": entry("shard0", "latest")}
    assert verdict({**entries, "b": entry("shard1")}, rules).whole
    assert not verdict(entries, rules, absent="b").whole
    gone = verdict(entries, rules, ENDED, absent="b", late="b")
    assert gone.torn
    assert gone.missing == ("b is gone",)


def test_nothing_is_torn_as_long_as_a_node_is_waited_for_that_may_have_what_is_missing() -> None:
    entries = {"a": entry("__0_0.distcp", ".metadata")}
    assert not verdict(entries, DCP, ENDED, absent="b").torn
    assert verdict(entries, DCP, ENDED, absent="b", late="b").torn


def test_of_one_writer_a_node_that_is_not_there_is_waited_for_and_then_not() -> None:
    rules = replace(PLAIN, complete="last", hosts=("a", "b"))
    entries = {"a": entry("w", "last")}
    assert not verdict(entries, rules, absent="b").whole
    assert verdict(entries, rules, absent="b", late="b").whole


def test_a_file_of_several_nodes_is_taken_from_the_first_in_the_order_of_ranks() -> None:
    rules = replace(PLAIN, complete="last", hosts=("b", "a"))
    found = verdict({"a": entry("w", "last"), "b": entry("w", "rng")}, rules)
    assert found.files is not None
    assert {path: part.host for path, part in found.files.items()} == {"w": "b", "last": "a", "rng": "b"}


def test_a_part_that_differs_from_node_to_node_tears_a_sharded_one() -> None:
    entries = {"a": entry("__0_0.distcp", "__1_0.distcp", ".metadata"), "b": entry("__1_0.distcp", size=6)}
    assert verdict(entries, DCP, ENDED).torn
    rules = replace(PLAIN, complete="last", hosts=("a", "b"))
    single = verdict({"a": entry("w", "last"), "b": entry("w", size=6)}, rules)
    assert single.whole
    assert single.differ == ("w",)
