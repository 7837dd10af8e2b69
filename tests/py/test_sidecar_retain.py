"""What a running job removes of its run, and what it never does."""

import time
from pathlib import Path

import pytest
from conftest import event
from test_sidecar_publish import commit, names

from outlast import ledger
from outlast.checkpoint import manifest, trash
from outlast.checkpoint.retention import Held, Policy
from outlast.sidecar import publish, retain
from outlast.sidecar.settings import State

GENERATION = "000003"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "lease").mkdir()
    (tmp_path / "lease" / GENERATION).write_text("")
    return tmp_path


def prune(
    run: Path, keep: int = 1, best: int = 0, every: int = 0, grace_s: float = 0, reading: tuple[int, ...] = ()
) -> list[str]:
    return retain.prune(owned(run), Policy(keep, best, every), grace_s, reading)


def owned(run: Path) -> retain.Run:
    return retain.Run(run, "step-", "7", GENERATION)


def committed(run: Path, *steps: int, loss: dict[int, float] | None = None) -> None:
    for step in steps:
        commit(run, f"step-{step}")
        paper = run / "checkpoints" / f"step-{step}" / manifest.NAME
        if loss and step in loss:
            paper.write_text(paper.read_text().replace('"loss":null', f'"loss":{loss[step]}'))


def happened(run: Path, *events: str) -> None:
    for number, line in enumerate(events, 1):
        ledger.append(run / "events.jsonl", event(number, line))


def test_the_newest_by_number_stay_and_what_has_no_manifest(run: Path) -> None:
    committed(run, 80, 90, 100, 110)
    (run / "checkpoints/step-10").mkdir()
    (run / "checkpoints/mine").mkdir()
    assert prune(run, 3) == ["step-80"]
    assert names(run) == [".kept", "mine", "step-10", "step-100", "step-110", "step-90"]


def test_one_whose_manifest_is_torn_is_left_alone(run: Path) -> None:
    committed(run, 70, 80, 90, 100)
    (run / "checkpoints/step-70" / manifest.NAME).write_text('{"step":70,"fil')
    assert prune(run) == ["step-80"]


def test_a_file_beside_its_manifest_goes_with_it(run: Path) -> None:
    for step in (80, 90, 100):
        path = run / "checkpoints" / f"step-{step}"
        path.write_text("weights")
        manifest.publish(path, manifest.Manifest(step=step, list=(manifest.Item(path.name, 7),)))
    assert prune(run) == ["step-80"]
    assert not [name for name in names(run) if "80" in name]


def test_what_a_person_has_pinned_stays_and_every_so_many_th(run: Path) -> None:
    committed(run, 70, 75, 80, 90, 95)
    (run / "checkpoints/.step-75.pinned").write_text("for the paper")
    assert prune(run, every=40) == ["step-70", "step-90"]
    assert (run / "checkpoints" / retain.KEPT).read_text().split() == ["step-75", "step-80"]


def test_two_that_add_up_stay_and_a_damaged_one_does_not_count(run: Path) -> None:
    committed(run, 60, 70, 80, 90)
    (run / "checkpoints/step-90/a").write_text("four")
    assert prune(run) == ["step-60"]
    (run / "checkpoints/step-80/a").write_text("four")
    assert prune(run) == ["step-80"]


def test_the_best_that_adds_up_stays(run: Path) -> None:
    committed(run, 50, 60, 70, 80, 90, loss={50: 1.0, 60: 2.0, 70: 3.0})
    (run / "checkpoints/step-50/a").write_text("four")
    assert prune(run, best=1) == ["step-50", "step-70", "step-80"]


def test_one_that_was_written_after_the_loss_went_wrong_is_never_the_best(run: Path) -> None:
    committed(run, 50, 60, 70, 80, 90, 95, loss={50: 2.0, 60: 1.0})
    happened(run, "7 launched step=0", "7 loss_bad step=55 why=spike", "7 loss_good step=70")
    assert prune(run, best=1) == ["step-60", "step-70", "step-80", "step-90"]


def test_when_the_newest_are_flagged_two_before_them_stay(run: Path) -> None:
    committed(run, 50, 60, 70, 80, 90)
    happened(run, "7 launched step=0", "7 loss_bad step=80 why=nan")
    assert prune(run, 2) == ["step-50"]


def test_what_is_read_or_resumed_from_stays(run: Path) -> None:
    committed(run, 50, 60, 70, 80, 90)
    happened(run, "6 launched step=50", "7 started", "7 launched step=60")
    assert prune(run, reading=(70,)) == ["step-50", "step-80"]
    ledger.append(run / "events.jsonl", event(9, "7 first_step step=61"))
    assert prune(run) == ["step-60"]


def test_the_command_that_reads_one_says_so_in_the_jobs_state(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert state.reading() == ()
    (tmp_path / "hook").write_text("60 4711\n")
    assert state.reading() == (60,)


def test_a_job_that_lost_the_run_removes_nothing(run: Path) -> None:
    committed(run, 70, 80, 90)
    (run / "lease/000004").write_text("")
    with pytest.raises(publish.LeaseLostError):
        prune(run)
    assert names(run) == ["step-70", "step-80", "step-90"]


def waiting(run: Path) -> list[str]:
    return [one.name for one in trash.waiting(run / "checkpoints")]


def test_what_is_not_kept_waits_for_the_end_of_its_grace_and_two_do_at_most(run: Path) -> None:
    committed(run, 40, 50, 60, 70, 80)
    trash.put(run / "checkpoints/step-40", time.time() + 86400)  # by a person
    assert prune(run, grace_s=3600) == ["step-50", "step-60"]
    assert waiting(run) == ["step-40", "step-50", "step-60"]
    assert (run / "checkpoints" / trash.waiting(run / "checkpoints")[1].path / manifest.NAME).exists()
    committed(run, 90)
    assert prune(run, grace_s=3601) == ["step-70"]
    assert waiting(run) == ["step-40", "step-60", "step-70"]
    committed(run, 100)
    assert prune(run, grace_s=0) == ["step-80"]
    assert waiting(run) == ["step-40", "step-60", "step-70"]


def test_where_room_is_needed_what_a_job_took_away_goes_and_nothing_else(run: Path) -> None:
    committed(run, 40, 50, 60, 70)
    trash.put(run / "checkpoints/step-40", time.time() + 86400)
    prune(run, grace_s=3600)
    (run / "lease/000004").write_text("")
    with pytest.raises(publish.LeaseLostError):
        retain.make_room(owned(run))
    (run / "lease/000004").unlink()
    assert retain.make_room(owned(run)) == ["step-50"]
    assert waiting(run) == ["step-40"]
    assert names(run) == [".kept", trash.waiting(run / "checkpoints")[0].path.name, "step-60", "step-70"]


def test_only_what_the_decision_rests_on_is_looked_at() -> None:
    asked: list[str] = []

    def is_sound(name: str) -> bool:
        asked.append(name)
        return name != "c-90"

    held = [Held(f"c-{step}", step) for step in range(10, 100, 10)]
    assert retain.decided(held, Policy(3, 0), is_sound).remove == tuple(f"c-{step}" for step in range(10, 70, 10))
    assert asked == ["c-80", "c-90", "c-70"]
    asked.clear()
    assert retain.decided(held, Policy(9), is_sound).remove == ()
    assert asked == []
