from dataclasses import replace

from conftest import event

from outlast import summary

CHAIN = [
    event(1, "- submitted successor=1 by=ann"),
    event(10, "1 started durable_step=0"),
    event(40, "1 progress step=90"),
    event(70, "1 ended class=walltime evidence=deadline step=120 durable_step=120 then=submit"),
    event(71, "1 submitted successor=2"),
    event(80, "2 started durable_step=120"),
]


def rows(*events: object) -> list[list[str]]:
    """The lines of the jobs, without their start."""
    return [line.split()[:1] + line.split()[3:] for line in summary.table(list(events)).splitlines()[1:-1]]  # type: ignore[arg-type]


def test_a_line_tells_how_long_from_which_step_and_why_it_ended() -> None:
    assert rows(*CHAIN)[0] == ["1", "0:01:00", "0", "to", "120", "walltime", "(deadline)"]


def test_a_job_that_goes_on_has_ran_until_the_last_event() -> None:
    assert rows(*CHAIN, event(95, "2 progress step=150"))[1] == ["2", "0:00:15", "120", "to", "150", "not", "yet"]


def test_a_job_that_the_scheduler_started_again_has_two_lines() -> None:
    again = replace(event(90, "2 started durable_step=120"), restart=1)
    told = rows(*CHAIN, event(85, "2 ended class=requeued then=leave"), again)
    assert [row[0] for row in told] == ["1", "2", "2.1"]
    assert [row[-1] for row in told] == ["(deadline)", "requeued", "yet"]


def test_the_last_line_is_the_whole() -> None:
    assert summary.table(CHAIN).splitlines()[-1] == "2 jobs; step 120, 120 is safe; goes on"
    assert summary.table([]).splitlines()[-1] == "0 jobs; no step yet; goes on"


def test_a_long_chain_shows_its_end() -> None:
    long = [event(number, f"{number} started") for number in range(1, 31)]
    lines = summary.table(long).splitlines()
    assert lines[1] == "… 10 earlier jobs"
    assert lines[-2].startswith("30 ")


def test_no_checkpoint_is_not_step_0() -> None:
    assert summary.table(CHAIN[:3]).splitlines()[-1] == "1 job; step 90, no checkpoint is safe yet; goes on"
