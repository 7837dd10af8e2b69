"""Which checkpoints are flagged, by what a job wrote into the ledger about its loss."""

from conftest import event

from outlast.checkpoint import flags


def flagged(*lines: str, steps: tuple[int, ...] = (10, 20, 30, 40)) -> dict[int, str]:
    history = flags.turns(event(number, line) for number, line in enumerate(lines, 1))
    return {step: why for step in steps if (why := flags.of(step, history))}


def test_from_that_step_on() -> None:
    assert flagged("7 loss_bad step=20 why=nan") == {20: "nan", 30: "nan", 40: "nan"}
    assert flagged("7 loss_bad step=35") == {40: "no reason given"}


def test_until_it_is_well_again() -> None:
    assert flagged("7 loss_bad step=15 why=spike", "7 loss_good step=30") == {20: "spike"}


def test_a_launch_from_an_older_step_undoes_it_and_one_from_a_flagged_one_does_not() -> None:
    assert flagged("7 loss_bad step=25 why=nan", "8 launched step=20") == {}
    assert flagged("7 loss_bad step=25 why=nan", "8 launched step=30") == {30: "nan", 40: "nan"}


def test_an_event_without_a_step_says_nothing() -> None:
    assert flagged("7 loss_bad why=nan") == {}
