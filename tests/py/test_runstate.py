from dataclasses import replace

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


@pytest.mark.parametrize(
    ("why", "todo"),
    [
        ("the end date 2020-01-01 has come (guard.end_date)", ", after you have set OUTLAST_END_DATE in job.sh"),
        ("its 3 jobs (guard.max_jobs)", ", which grants the run as much again; OUTLAST_MAX_JOBS in job.sh"),
        ("9 node hours (guard.max_node_hours)", ", which grants the run as much again; OUTLAST_MAX_NODE_HOURS in"),
    ],
)
def test_todo_after_the_budgets_hold_says_what_to_change(why: str, todo: str) -> None:
    asked = Asked([], [why, "outlast resume r1"], False)
    assert runstate.todo(ledger.Run(), "held", asked, "r1", "job.sh").startswith(f"outlast resume r1{todo}")


def test_word_of_a_run_whose_owner_has_not_written_yet_is_the_owners() -> None:
    left = event(1, "27 left")
    left = replace(left, fields={"why": "the run is owned by job 26, which is running"})
    run = ledger.fold([left])
    assert [job.id for job in run.open_jobs()] == ["26"]
    assert runstate.word(run, {"26": State("running")}, NOTHING) == ("running", "26")


def test_reason_of_a_job_that_waits_tells_the_stop_that_awaits_it() -> None:
    run = ledger.fold([event(1, STARTED[0])])
    assert runstate.reason(run, "pending", Asked(["tired"], [], False), "1") == "the job leaves when it starts: tired"


def test_reason_tells_nothing_of_an_attempt_before_a_restart() -> None:
    run = ledger.fold(event(n, line) for n, line in enumerate([*STARTED, "1 ended class=requeued", "1 started"], 1))
    assert runstate.reason(run, "running", NOTHING, "1") == ""
