"""The file of bad nodes: what people wrote stays, strikes last, and what a scheduler says is taken once."""

import random
from datetime import date, timedelta

import pytest

from outlast.badnodes import book, entry, said
from outlast.badnodes.entry import Entry

DAY = date(2026, 11, 30)
SEED = """# .bad_nodes.txt
node1042  2026-03-18  RCCL_timeout
node0887  2026-03-19  health_check_gpu_count
"""


def told(text: str) -> dict[str, Entry]:
    return book.nodes(book.parse(text))


def struck(text: str, host: str = "n1", day: date = DAY, reason: str = "hang", *words: str) -> str:
    return book.text(book.struck(book.parse(text), Entry(host, day, reason, words)))


def ends(text: str, host: str = "n1") -> date:
    return told(text)[host].ends


def test_a_line_is_host_day_and_reason() -> None:
    one = told(SEED)["node1042"]
    assert (one.since, one.reason, one.strikes) == (date(2026, 3, 18), "RCCL_timeout", 1.0)


def anything(dice: random.Random) -> str:
    """A file that people, jobs and accidents have written."""
    parts = [
        "n1",
        "n2.example.org",
        "n[1-3]",
        "2026-11-30",
        "2026-13-01",
        "hang",
        "strikes=2",
        "strikes=x",
        "job=7.0.1",
    ]
    parts += ["# why", "#", " ", "\t", "  ", "\r", "\x00", "\udcff", "\x85", "\u2028", "é", "=", "-hsn0"]
    lines = ["".join(dice.choices([*parts, " ", " "], k=dice.randrange(9))) for _ in range(dice.randrange(8))]
    lines += [f"n{dice.randrange(4)}  2026-11-{dice.randrange(1, 31):02}  hang" for _ in range(dice.randrange(4))]
    dice.shuffle(lines)
    return "\n".join(lines) + dice.choice(["", "\n", "\n\n"])


def test_writing_what_was_read_gives_the_same_text() -> None:
    dice = random.Random(4)
    for _ in range(2000):
        text = anything(dice)
        assert book.text(book.parse(text)) == text


def test_a_change_leaves_all_other_lines_as_they_are() -> None:
    dice = random.Random(5)
    for _ in range(1000):
        text = anything(dice)
        lines = book.parse(text)
        others = [line.text for line in lines if not (line.entry and line.entry.host == "n1")]
        after = [line.text for line in book.struck(lines, Entry("n1", DAY, "hang"))]
        for other in others:
            # The last line gets an end if it had none.
            assert after.pop(after.index(other if other in after else f"{other}\n")) is not None
        assert len(after) == 1
        assert book.parse(after[0])[0].entry is not None


def test_order_and_comments_survive_a_strike_and_a_removal() -> None:
    text = f"# ours\n\nn1 2026-11-29   ECC  fan=loud  # ask Ada\n{SEED}"
    assert struck(text) == f"# ours\n\nn1  2026-11-30  hang  fan=loud  strikes=2  # ask Ada\n{SEED}"
    assert book.text(book.without(book.parse(text), ["n1"])) == f"# ours\n\n{SEED}"


@pytest.mark.parametrize(
    "line", ["node1042", "n1 2026-11-31 hang", "n1 2026-11-30", "? 2026-11-30 hang", "n[1-2] 2026-11-30 x"]
)
def test_a_line_that_nobody_can_read_is_kept_and_named(line: str) -> None:
    lines = book.parse(f"# x\n{line}\n")
    assert book.nodes(lines) == {}
    assert book.odd(lines) == [f"line 2: {line}"]
    assert struck(f"# x\n{line}\n").startswith(f"# x\n{line}\n")


def test_names_of_one_node_are_one() -> None:
    text = "x1c0s0b0n0-hsn0.hsn.cm.sunspot.alcf.anl.gov 2026-11-30 hang\n"
    assert list(told(struck(text, "x1c0s0b0n0"))) == ["x1c0s0b0n0"]
    assert told(struck(text, "x1c0s0b0n0"))["x1c0s0b0n0"].strikes == 2


@pytest.mark.parametrize(
    ("strikes", "days"), [(0.5, 10), (1, 14), (1.5, 20), (2, 28), (3, 56), (4, 112), (9, 112), (0, 14), (0.1, 10)]
)
def test_each_strike_doubles_the_time_up_to_a_cap(strikes: float, days: int) -> None:
    assert ends(f"n1 2026-11-30 hang strikes={strikes:g}") == DAY + timedelta(days=days)


def test_a_node_is_good_again_on_the_day_its_time_ends() -> None:
    one = Entry("n1", DAY, "hang")
    assert not one.is_over(DAY + timedelta(days=13))
    assert one.is_over(DAY + timedelta(days=14))


def test_a_node_whose_time_is_over_begins_anew() -> None:
    assert struck("n1  2026-10-01  hang  strikes=2\n") == "n1  2026-11-30  hang\n"


def test_half_a_strike_adds_half() -> None:
    assert struck("n1  2026-11-29  hang\n", "n1", DAY, "blind", "strikes=0.5") == "n1  2026-11-30  blind  strikes=1.5\n"


def test_one_strike_of_a_job_counts_once() -> None:
    once = struck("", "n1", DAY, "hang", "job=7.0.1")
    assert struck(once, "n1", DAY, "hang", "job=7.0.1") == once == "n1  2026-11-30  hang  job=7.0.1\n"
    assert struck(once, "n1", DAY, "ECC", "job=7.0.2") == "n1  2026-11-30  ECC  job=7.0.2  strikes=2\n"


def test_several_lines_of_one_node_add_up_and_the_next_strike_makes_them_one() -> None:
    text = "n1  2026-11-28  hang\nn2  2026-11-28  hang\nn1  2026-11-29  ECC\n"
    assert told(text)["n1"].strikes == 2
    assert struck(text) == "n2  2026-11-28  hang\nn1  2026-11-30  hang  strikes=3\n"


def test_strikes_never_shorten_and_days_never_go_back() -> None:
    dice = random.Random(6)
    for _ in range(500):
        text, last = "", date.min
        day = DAY
        for _ in range(dice.randrange(1, 9)):
            day += timedelta(days=dice.choice([-3, 0, 0, 1, 5, 13, 14, 30, 200]))
            text = struck(text, "n1", day, "hang", f"strikes={dice.choice(['0.5', '1', '1.5'])}")
            assert ends(text) >= last
            last = ends(text)


def test_the_score_decays_and_the_worst_come_first() -> None:
    one = Entry("n1", DAY, "hang", ("strikes=2",))
    scores = [one.score(DAY + timedelta(days=n)) for n in (-1, 0, 14, 28)]
    assert scores == [2, 2, 1, 0.5]
    text = "a 2026-11-20 x\nb 2026-11-29 x\nc 2026-11-20 x strikes=3\nd 2026-11-29 x\ne 2026-11-01 x\n"
    assert [one.host for one in book.worst(book.parse(text), DAY)] == ["c", "b", "d", "a"]


def test_age_names_what_is_over() -> None:
    lines = book.parse("a 2026-11-01 x\nb 2026-11-29 x\nc 2026-11-01 x strikes=3\n")
    assert [one.host for one in book.over(lines, DAY)] == ["a"]


@pytest.mark.parametrize(
    ("text", "word"), [("GPU is  lost!", "GPU_is_lost"), ("RCCL_timeout", "RCCL_timeout"), ("# ?", "unknown")]
)
def test_a_reason_is_one_word(text: str, word: str) -> None:
    assert entry.word(text) == word


# ---- what schedulers say

SINFO = """REASON               USER      TIMESTAMP           NODELIST
Not responding       slurm     2026-11-29T18:00:00 n[01-02]
batch job complete f root      2026-11-20T07:00:00 n07
Maintenance 12/1     root      2026-11-28T08:00:00 n[10-12]
none of us knows     root      Unknown             n20
"""
PBSNODES = """x3104c0s1b0n0        down node down: communication closed
x3104c0s1b1n0        offline GPU 2 fell off the bus
x3104c0s7b0n0        offline
x3104c0s9b0n0        state-unknown,down
x3104c0s9b1n0        offline,down scheduled work on the rack
"""
BLOCKS = """x1c0s0b0n0
     Mom = x1c0s0b0n0.hsn.cm.example.org
     ntype = PBS
     state = offline
     resources_available.host = x1c0s0b0n0
     comment = HBM errors, see 4711

x1c0s0b1n0
     state = free
     comment = was slow

x1c0s1b0n0
     state = down,offline
"""


def test_facts_of_slurm() -> None:
    found = {fact.host: (fact.why, fact.seen, fact.is_planned) for fact in said.facts(SINFO)}
    assert found["n01"] == found["n02"] == ("Not responding", "2026-11-29T18:00:00", False)
    assert found["n10"] == ("Maintenance 12/1", "2026-11-28T08:00:00", True)
    assert found["n20"] == ("none of us knows", "", False)
    assert len(found) == 7


def test_facts_of_slurm_in_its_long_form_and_in_the_one_that_we_ask_for() -> None:
    long = "Not responding       slurm(64030) 2026-11-29T18:00:00 down*  n01\n"
    ours = "NHC: check_hw_gpu  count 7 of 8  root  2026-11-29T18:00:00  n[01,03]\n"
    assert [(f.host, f.why) for f in said.facts(long)] == [("n01", "Not responding")]
    why = "NHC: check_hw_gpu  count 7 of 8"
    assert [(f.host, f.why) for f in said.facts(ours)] == [("n01", why), ("n03", why)]


def test_facts_of_pbs_are_no_nodes_that_a_new_server_has_not_heard_of() -> None:
    assert {fact.host: fact.why for fact in said.facts(PBSNODES)} == {
        "x3104c0s1b0n0": "node down: communication closed",
        "x3104c0s1b1n0": "GPU 2 fell off the bus",
        "x3104c0s7b0n0": "offline",
        "x3104c0s9b1n0": "scheduled work on the rack",
    }


def test_facts_of_pbs_with_comments() -> None:
    assert {fact.host: fact.why for fact in said.facts(BLOCKS)} == {
        "x1c0s0b0n0": "HBM errors, see 4711",
        "x1c0s1b0n0": "down,offline",
    }


def taken(text: str, output: str, day: date = DAY) -> str:
    return book.text(said.taken(book.parse(text), said.facts(output), day)[0])


def test_what_a_scheduler_says_is_taken_once() -> None:
    once = taken(SEED, SINFO)
    assert "n01  2026-11-30  Not_responding  source=import  seen=2026-11-29T18:00:00\n" in once
    assert "x3104c0s7b0n0  2026-11-30  offline  source=import\n" in taken("", PBSNODES)
    assert taken(once, SINFO) == once
    assert taken(once, SINFO, DAY + timedelta(days=1)) == once
    assert taken(taken("", PBSNODES), PBSNODES, DAY + timedelta(days=5)) == taken("", PBSNODES)


def test_what_began_later_is_one_more_strike() -> None:
    again = taken(taken("", SINFO), SINFO.replace("11-29T18", "12-02T18"), date(2026, 12, 3))
    assert told(again)["n01"].strikes == 2
    assert told(again)["n07"].strikes == 1


def test_what_a_job_has_written_is_no_news_when_the_scheduler_says_it_too() -> None:
    mine = struck("", "n01", date(2026, 11, 29), "node_down", "job=7.0.1")
    assert told(taken(mine, SINFO))["n01"] == told(mine)["n01"]
