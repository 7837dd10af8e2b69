"""Which checkpoints are whole, over all nodes."""

from dataclasses import replace

from outlast.sidecar.judge import Entry, Rules, Verdict, judge
from outlast.sidecar.settings import Ranks

NOW = 1000.0
RUNNING = Ranks(known=True, running=True)
CRASHED = Ranks(known=True, ended_s=990.0, code=1)
ENDED = Ranks(known=True, ended_s=990.0, code=0)
HF = Rules("state.json", 30, sharded=False, hosts=("a",), ranks_per_node=2)
DCP = Rules(".metadata", 30, sharded=True, hosts=("a", "b"), ranks_per_node=1)
PLAIN = Rules("", 30, sharded=False, hosts=("a",), ranks_per_node=1)
NAMED = {".metadata": frozenset({"__0_0.distcp", "__1_0.distcp"})}


def entry(*paths: str, quiet_s: float = 60, size: int = 5) -> Entry:
    return Entry(20, dict.fromkeys(paths, (size, 1)), quiet_s, NOW)


def verdict(
    entries: dict[str, Entry],
    rules: Rules,
    ranks: Ranks = RUNNING,
    named: dict[str, frozenset[str]] | None = None,
    absent: str = "",
    late: str = "",
) -> Verdict:
    return judge("step-20", entries, named or {}, rules, ranks, frozenset(absent), frozenset(late), NOW)


def test_whole_with_its_last_file_and_at_rest() -> None:
    assert verdict({"a": entry("w", "state.json")}, HF).whole
    assert not verdict({"a": entry("w")}, HF).whole
    assert not verdict({"a": entry("w", "state.json", quiet_s=10)}, HF).whole


def test_with_its_last_file_and_nobody_who_writes_it_need_not_be_at_rest() -> None:
    assert verdict({"a": entry("w", "state.json", quiet_s=10)}, HF, CRASHED).whole


def test_without_its_last_file_it_is_torn_once_the_ranks_have_ended() -> None:
    assert not verdict({"a": entry("w")}, HF).torn
    assert verdict({"a": entry("w")}, HF, CRASHED).torn


def test_without_a_last_file_rest_is_the_proof_and_only_while_the_writer_lives() -> None:
    assert verdict({"a": entry("w")}, PLAIN).whole
    assert not verdict({"a": entry("w")}, PLAIN, Ranks()).whole
    assert verdict({"a": entry("w", quiet_s=1)}, PLAIN, ENDED).whole
    assert verdict({"a": entry("w", quiet_s=45)}, PLAIN, CRASHED).whole  # 35 s before they ended
    torn = verdict({"a": entry("w", quiet_s=35)}, PLAIN, CRASHED)
    assert torn.torn
    assert torn.missing == ("it was being written when the ranks ended",)


def test_a_sharded_one_is_whole_with_all_that_its_index_names() -> None:
    both = {"a": entry("__0_0.distcp", ".metadata"), "b": entry("__1_0.distcp")}
    assert verdict(both, DCP, named=NAMED).whole
    assert not verdict(both, DCP).whole  # the index has not been read yet
    half = verdict({"a": both["a"]}, DCP, ENDED, NAMED)
    assert half.torn
    assert half.missing == ("b has not __1_0.distcp",)


def test_a_part_in_a_folder_is_looked_for_there() -> None:
    entries = {"a": entry("model/__0_0.distcp", "model/.metadata"), "b": entry("model/__1_0.distcp")}
    rules = replace(DCP, complete="model/.metadata")
    assert verdict(entries, rules, named={"model/.metadata": NAMED[".metadata"]}).whole


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
    assert not verdict(entries, DCP, ENDED, NAMED, absent="b").torn
    assert verdict(entries, DCP, ENDED, NAMED, absent="b", late="b").torn


def test_of_one_writer_a_node_that_is_not_there_is_waited_for_and_then_not() -> None:
    rules = replace(HF, hosts=("a", "b"))
    entries = {"a": entry("w", "state.json")}
    assert not verdict(entries, rules, absent="b").whole
    assert verdict(entries, rules, absent="b", late="b").whole


def test_a_file_of_several_nodes_is_taken_from_the_first_in_the_order_of_ranks() -> None:
    rules = replace(HF, hosts=("b", "a"))
    found = verdict({"a": entry("w", "state.json"), "b": entry("w", "rng")}, rules)
    assert {path: part.host for path, part in found.files.items()} == {"w": "b", "state.json": "a", "rng": "b"}


def test_a_part_that_differs_from_node_to_node_tears_a_sharded_one() -> None:
    entries = {"a": entry("__0_0.distcp", "__1_0.distcp", ".metadata"), "b": entry("__1_0.distcp", size=6)}
    assert verdict(entries, DCP, ENDED, NAMED).torn
    single = verdict({"a": entry("w", "state.json"), "b": entry("w", size=6)}, replace(HF, hosts=("a", "b")))
    assert single.whole
    assert single.differ == ("w",)
