from pathlib import Path

import pytest
from conftest import Fake

from outlast import driver
from outlast.driver import Driver, NoAnswer, SchedulerRefused, State
from outlast.refused import Refused


@pytest.fixture
def by(fake: Fake) -> Driver:
    return driver.named("fake", fake.root)


def test_named_refuses_a_scheduler_without_a_driver(fake: Fake) -> None:
    for name in ("fakes", "", "../../log", "/etc/profile"):
        with pytest.raises(Refused, match="no scheduler"):
            driver.named(name, fake.root)


def test_submit_gives_the_id_and_passes_its_options(by: Driver, fake: Fake) -> None:
    fake.says("submit", 0, "a word before\n17\n")
    assert by.submit(Path("/r/job.sh"), "r1", depend="", output="/r/%j.out", dir="/my project") == "17"
    assert fake.asked == ["submit /r/job.sh r1 output=/r/%j.out dir=/my project"]


def test_submit_tells_refused_from_no_answer(by: Driver, fake: Fake) -> None:
    fake.says("submit", 1)
    with pytest.raises(SchedulerRefused):
        by.submit(Path("job.sh"), "r1")
    fake.says("submit", 2)
    with pytest.raises(NoAnswer):
        by.submit(Path("job.sh"), "r1")


def test_submit_takes_no_id_for_no_answer(by: Driver, fake: Fake) -> None:
    fake.says("submit", 0, "")
    with pytest.raises(NoAnswer):
        by.submit(Path("job.sh"), "r1")


def test_state_reads_the_drivers_words(by: Driver, fake: Fake) -> None:
    fake.says("state.17", 0, "state=ended verdict=timelimit restarts=2\n")
    assert by.state("17") == State("ended", "timelimit", 2)


def test_state_of_an_unknown_job_is_gone_and_no_answer_is_not(by: Driver, fake: Fake) -> None:
    assert by.state("18").state == "gone"
    fake.says("state.18", 2)
    with pytest.raises(NoAnswer):
        by.state("18")


def test_state_never_hands_an_option_to_a_scheduler(by: Driver, fake: Fake) -> None:
    assert by.state("--all").state == "gone"
    assert not (fake.root / "lib/scheduler/asked").exists()


def test_find_is_empty_where_there_is_no_job(by: Driver, fake: Fake) -> None:
    assert by.find("r1") == ""
    fake.says("find.r1", 0, "17\n")
    assert by.find("r1") == "17"


def test_the_reason_is_the_last_line_that_the_scheduler_said(by: Driver, fake: Fake) -> None:
    (fake.root / "lib/scheduler/fake.sh").write_text("ol_sched_submit() { printf 'a\\nbad account\\n' >&2; return 1; }")
    with pytest.raises(SchedulerRefused, match="fake refused the job: bad account"):
        by.submit(Path("job.sh"), "r1")


def test_every_driver_of_the_tree_answers_about_an_unknown_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTLAST_LOCAL_QUEUE", str(tmp_path))
    assert Driver("local", Path(__file__).parents[2]).state("99").state == "gone"
