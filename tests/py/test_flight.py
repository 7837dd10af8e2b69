"""outlast flight: who is waited for."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from outlast import commands, flight


def dump(groups: dict[str, tuple[int, list[int]]], ids: dict[str, int] | None = None) -> dict[str, Any]:
    """A dump in the form of PyTorch's own page on the flight recorder (version 2.5), cut to what is read.

    `groups`: name -> collectives begun (-1: none yet), ranks; `ids`: the rank's own number of a group.
    """
    own = ids or {name: number for number, name in enumerate(groups)}
    used = {name: count for name, (count, _) in groups.items() if count >= 0}
    return {
        "version": "2.5",
        "pg_config": {
            name: {"name": name, "desc": "default_pg", "ranks": str(ranks)} for name, (_, ranks) in groups.items()
        },
        "pg_status": {
            str(own[name]): {
                "last_enqueued_collective": count,
                "last_started_collective": -1,
                "last_completed_collective": count - 1,
            }
            for name, count in used.items()
        },
        "entries": [
            {
                "frames": [{"name": "forward", "filename": "train.py", "line": 3647}],
                "record_id": 0,
                "pg_id": own[name],
                "process_group": (name, "default_pg"),
                "collective_seq_id": count,
                "p2p_seq_id": 0,
                "op_id": 1,
                "profiling_name": "nccl:all_reduce",
                "time_created_ns": 1724779239936775119,
                "input_sizes": [(3, 4)],
                "state": "scheduled",
                "is_p2p": False,
            }
            for name, count in used.items()
        ],
    }


def waited_for(*dumps: dict[str, Any]) -> list[int]:
    return list(flight.compare(dict(enumerate(dumps))).behind)


def test_the_rank_that_has_begun_fewer_collectives_is_waited_for() -> None:
    all_four = [0, 1, 2, 3]
    counts = [7, 7, 6, 7]
    assert waited_for(*(dump({"0": (count, all_four)}) for count in counts)) == [2]


def test_nobody_is_where_all_have_begun_the_same() -> None:
    assert waited_for(*(dump({"0": (7, [0, 1])}) for _ in range(2))) == []


def test_a_rank_that_waits_itself_in_another_group_is_not() -> None:
    """0 and 1 share a group, as do 0 and 2, 1 and 3. 3 stands still, so 1 waits for it, and 0 for 1."""
    found = waited_for(
        dump({"row0": (5, [0, 1]), "col0": (9, [0, 2])}),
        dump({"row0": (4, [0, 1]), "col1": (9, [1, 3])}),
        dump({"row1": (4, [2, 3]), "col0": (9, [0, 2])}),
        dump({"row1": (4, [2, 3]), "col1": (8, [1, 3])}),
    )
    assert found == [3]


def test_a_group_is_known_by_its_name_and_not_by_the_number_that_a_rank_has_for_it() -> None:
    groups = {"a": (5, [0, 1]), "b": (9, [0, 1])}
    late = {"a": (4, [0, 1]), "b": (9, [0, 1])}
    assert waited_for(dump(groups, {"a": 0, "b": 1}), dump(late, {"a": 1, "b": 0})) == [1]


def test_a_rank_that_has_begun_nothing_in_a_group_of_its_is_behind() -> None:
    assert waited_for(dump({"0": (3, [0, 1]), "1": (1, [0, 1])}), dump({"0": (3, [0, 1]), "1": (-1, [0, 1])})) == [1]


def test_a_group_whose_name_has_left_the_ring_counts_for_nobody() -> None:
    groups = {"0": (3, [0, 1]), "1": (1, [0, 1])}
    late = dump({"0": (3, [0, 1]), "1": (0, [0, 1])})
    late["entries"] = late["entries"][:1]
    assert waited_for(dump(groups), late) == []


def test_of_whom_there_is_no_dump_that_is_said() -> None:
    found = flight.compare({0: dump({"0": (7, [0, 1, 2])}), 2: dump({"0": (6, [0, 1, 2])})})
    assert (list(found.behind), found.silent) == ([2], {1})
    assert flight.words(found) == "behind 2\nsilent 1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank, count in enumerate([7, 7, 6]):
        content = dump({"0": (count, [0, 1, 2])})
        if rank == 1:  # as the debug server writes it, numbers as strings
            status = {key: {k: str(v) for k, v in value.items()} for key, value in content["pg_status"].items()}
            (tmp_path / "flight.1").write_text(json.dumps(content | {"pg_status": status}))
        else:
            (tmp_path / f"flight.{rank}").write_bytes(pickle.dumps(content, protocol=2))
    (tmp_path / "n1.txt").write_text("stacks of n1\n")
    return tmp_path


def test_a_folder_of_pickles_and_json_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["flight", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "group 0: 3 of 3 ranks, collective 7; behind: rank 2 at 6" in told
    assert "waited for: rank 2" in told
    assert commands.main(["flight", str(folder), "--words"]) == 0
    assert capsys.readouterr().out == "behind 2\n"
    assert commands.main(["flight", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["behind"] == {"2": ["0"]}


def test_what_is_no_dump_is_named_and_the_others_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "flight.2").write_bytes(b"\x80\x02garbage")
    (folder / "flight.3").write_bytes(pickle.dumps({"version": "1.0", "entries": []}))
    assert commands.main(["flight", str(folder), "--words"]) == 0
    assert capsys.readouterr().out.splitlines() == ["silent 2", "unread 2"]
    assert commands.main(["flight", str(folder)]) == 0
    assert "not read: flight.3: no dump of a flight recorder" in capsys.readouterr().out


def test_a_folder_without_dumps_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert commands.main(["flight", str(folder)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"outlast: {folder}: no dump of a flight recorder") and said.count("\n") == 1


def test_a_thousand_ranks_that_are_behind_are_not_all_named() -> None:
    found = flight.compare({rank: dump({"0": (7 - (rank > 0), [*range(1000)])}) for rank in range(1000)})
    assert "behind: rank 1 at 6" in flight.text(found)
    assert all(len(line) < 400 and line.endswith("and 983 more") for line in flight.text(found).splitlines())


def test_a_pickle_is_never_run(folder: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, (f"open({str(folder / 'ran')!r}, 'w')",)

    (folder / "flight.0").write_bytes(pickle.dumps({**dump({"0": (7, [0, 1, 2])}), "also": Bomb()}))
    flight.look(folder)
    assert not (folder / "ran").exists()
