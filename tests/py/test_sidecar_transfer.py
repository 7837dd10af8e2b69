"""One checkpoint on its way: what is written down of it, and whether it still is the one that was found whole."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from outlast.sidecar.agent import Message
from outlast.sidecar.crew import Answer, Crew
from outlast.sidecar.judge import Verdict
from outlast.sidecar.tables import Part, Tables
from outlast.sidecar.transfer import Journal, Mover, Transfer, begin

FILES = {"a": Part("h0", 1, 10), "sub/b": Part("h1", 2, 20), "ü\udcff": Part("h1", 3, 30)}
KEY = "step-20.1"


def found() -> Verdict:
    tables = Tables()
    of_hosts = {host: tables.listing() for host in ("h0", "h1")}
    for path, part in FILES.items():
        of_hosts[part.host].add([(path, part.size, part.mtime_ns)])
    return Verdict("step-20", 20, True, False, tables.join(of_hosts))


def started(journal: Journal, verdict: Verdict | None = None) -> Transfer:
    return begin(verdict or found(), 1, "000001", journal, "xxh3_128")


def hashes(transfer: Transfer) -> dict[str, str]:
    return {path: digest for path, _, digest in transfer.files.copied()}


def copied(path: str, digest: str = "blake2b:1f", files: dict[str, Part] = FILES) -> dict[str, tuple[Part, str]]:
    return {path: (files[path], digest)}


def test_who_is_started_again_goes_on_where_it_was(tmp_path: Path) -> None:
    first = Journal(tmp_path / "copied")
    first.add(KEY, copied("a"))
    first.add(KEY, copied("ü\udcff"))
    again = Journal(tmp_path / "copied")
    transfer = started(again)
    assert again.hosts == first.hosts == {KEY: {"h0", "h1"}}
    assert (hashes(transfer), transfer.algorithm) == ({"a": "1f", "ü\udcff": "1f"}, "blake2b")
    assert (transfer.needs(), list(transfer.files.left_of("h1"))) == ({"h1"}, [("sub/b", 2, 20)])
    assert transfer.files.left_bytes == 2


def test_a_row_that_was_cut_off_is_none(tmp_path: Path) -> None:
    Journal(tmp_path / "copied").add(KEY, copied("a"))
    Journal(tmp_path / "copied").add(KEY, copied("sub/b"))
    text = (tmp_path / "copied").read_text()
    (tmp_path / "copied").write_text(text[:-9])
    assert hashes(started(Journal(tmp_path / "copied"))) == {"a": "1f"}


def test_what_another_was_copied_over_is_not_there_any_more(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "copied")
    journal.add(KEY, copied("a"))
    journal.add(KEY, copied("a", files={"a": Part("h0", 1, 11)}))
    assert hashes(started(journal)) == {}
    journal.add(KEY, copied("a", "blake2b:2e"))
    assert hashes(started(journal)) == {"a": "2e"}


@pytest.mark.parametrize(("kind", "way"), [("EIO", [False, True, True]), ("EDQUOT", [False, False, False])])
def test_one_that_keeps_failing_makes_way_but_not_where_there_is_no_room(
    tmp_path: Path, kind: str, way: list[bool]
) -> None:
    transfer = started(Journal(tmp_path / "copied"))
    for is_failing in way:
        Mover.back_off(transfer, kind)
        assert transfer.is_failing() is is_failing


def test_what_is_durable_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "copied")
    for key in (KEY, "step-20.11", "step-40.1"):
        journal.add(key, copied("a"))
    journal.forget({KEY, "step-40.1"})
    journal.drop("step-40.1")
    assert Journal(tmp_path / "copied").hosts == journal.hosts == {KEY: {"h0"}}
    assert hashes(started(journal)) == {"a": "1f"}
    journal.forget(set())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("copied", "")]


def test_on_a_disk_that_takes_nothing_all_is_compared_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "no/copied")
    journal.add(KEY, copied("a"))
    assert hashes(started(journal)) == {}
    journal.forget(set())
    assert journal.hosts == {}


class Agents:
    """A crew whose agents say what the test lets them say."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Message, Answer, Answer]] = []

    def present(self) -> frozenset[str]:
        return frozenset({"h0", "h1"})

    def ask(self, host: str, message: Message, end: Answer, rows: Answer) -> int:
        self.asked.append((host, message, end, rows))
        return len(self.asked)

    def tell(self, host: str, message: Message) -> None:
        raise AssertionError(message)


@pytest.fixture
def agents() -> Agents:
    return Agents()


def mover(agents: Agents, root: Path) -> Mover:
    return Mover(cast(Crew, agents), Journal(root / "copied"), 16, 0, lambda kind, text: None)


@pytest.mark.parametrize(
    ("told", "withdrawn"),
    [
        ([[["ü\udcff", 3, 30]], [["sub/b", 2, 20]]], False),
        ([[["ü\udcff", 3, 30], ["sub/b", 2, 20], ["new", 1, 1]]], False),
        ([[["ü\udcff", 3, 30]], [["sub/b", 2, 21]]], True),
        ([[["ü\udcff", 3, 30]], []], True),
        ([[["a", 1, 10], ["ü\udcff", 3, 30]]], True),
        ([[]], True),
    ],
)
def test_what_is_linked_aside_is_what_was_found_whole(
    agents: Agents, tmp_path: Path, told: list[list[object]], withdrawn: bool
) -> None:
    at_work = mover(agents, tmp_path)
    transfer = started(Journal(tmp_path / "copied"))
    at_work.link(transfer)
    _, _, end, rows = next(asked for asked in agents.asked if asked[0] == "h1")
    for page in told:
        rows("h1", {"files": page})
    end("h1", {"m": "done"})
    assert (transfer.withdrawn, transfer.linked) == (withdrawn, {"h1"})


def test_of_what_is_copied_nothing_is_asked_for_again(agents: Agents, tmp_path: Path) -> None:
    at_work = mover(agents, tmp_path)
    transfer = started(Journal(tmp_path / "copied"))
    transfer.linked = {"h0", "h1"}
    at_work.copy(transfer)
    host, message, end, rows = agents.asked[-1]
    assert (host, sorted(row[0] for row in message["files"])) == ("h1", ["sub/b", "ü\udcff"])
    rows("h1", {"files": [["sub/b", 2, "1f"], ["ü\udcff", 9, "1f"], ["a", 1, "1f"], ["other", 1, "1f"]]})
    end("h1", {"m": "done"})
    assert hashes(transfer) == {"sub/b": "1f"}
    at_work.copy(transfer)
    assert [row[0] for row in agents.asked[-1][1]["files"]] == ["ü\udcff"]
    assert Journal(tmp_path / "copied").hosts == {KEY: {"h1"}}


@pytest.mark.parametrize("ends", ["it was begun again", "an agent has not that hash"])
def test_what_comes_late_from_an_earlier_try_is_not_believed(agents: Agents, tmp_path: Path, ends: str) -> None:
    verdict, at_work = found(), mover(agents, tmp_path)
    transfer = started(Journal(tmp_path / "none"), verdict)
    transfer.linked = {"h0", "h1"}
    at_work.copy(transfer)
    (_, _, other_end, _), (host, _, _, rows) = agents.asked
    if ends == "it was begun again":
        transfer = started(Journal(tmp_path / "none"), verdict)
    else:
        other_end("h0", {"m": "done", "error": "hash"})
        assert transfer.algorithm == "blake2b"
    rows(host, {"files": [["sub/b", 2, "1f"]]})
    assert (host, hashes(transfer), transfer.needs()) == ("h1", {}, {"h0", "h1"})
    assert Journal(tmp_path / "copied").hosts == {}
