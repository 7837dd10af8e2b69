import pytest
from conftest import event

from outlast import ledger, runstate
from outlast.driver import State
from outlast.runstate import Asked

NOTHING = Asked([], [], False)
STARTED = ("- submitted successor=1", "1 started host=n1")


def word(*lines: str, asked: Asked = NOTHING, **states: str) -> tuple[str, str]:
    run = ledger.fold(event(number, line) for number, line in enumerate(lines, 1))
    answers = {job.id: State(states.get(f"j{job.id}", "gone")) for job in run.open_jobs()}
    return runstate.word(run, answers, asked)


def test_word_is_new_before_anything_was_submitted() -> None:
    assert word() == ("new", "")


def test_word_believes_the_scheduler_about_a_job() -> None:
    assert word(*STARTED, j1="running") == ("running", "1")
    assert word(*STARTED[:1], j1="pending") == ("pending", "1")


def test_word_prefers_the_job_that_runs_to_its_successor() -> None:
    assert word(*STARTED, "1 submitted successor=2", j1="running", j2="pending") == ("running", "1")


def test_word_is_stopping_while_a_stopped_run_still_saves() -> None:
    assert word(*STARTED, j1="running", asked=Asked(["because"], [], False)) == ("stopping", "1")


def test_word_is_lost_when_a_job_vanished_without_an_end() -> None:
    assert word(*STARTED) == ("lost", "1")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("1 ended class=stopped then=hold", "stopped"),
        ("1 ended class=cancelled then=leave", "ended"),
        ("1 held why=stuck", "held"),
        ("1 ended class=stopped then=hold\n1 held why=stopped", "stopped"),
        ("1 finished step=9", "finished"),
    ],
)
def test_word_after_the_last_job(end: str, state: str) -> None:
    assert word(*STARTED, "1 ended class=crash then=hold", *end.split("\n")) == (state, "")


def test_word_is_unknown_when_the_scheduler_gives_no_answer() -> None:
    run = ledger.fold([event(1, STARTED[0])])
    assert runstate.word(run, {"1": None}, NOTHING) == ("unknown", "1")


def test_todo_of_a_hold_is_what_the_hold_says() -> None:
    run = ledger.Run()
    assert runstate.todo(run, "held", Asked([], ["stuck", "fix the data"], False), "r1") == "fix the data"
    assert runstate.todo(run, "held", Asked([], ["stuck"], False), "r1") == "outlast resume r1"
