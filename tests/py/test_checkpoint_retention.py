"""Which checkpoints stay: examples, and what holds for any run."""

import random
from pathlib import Path

import pytest

from outlast.checkpoint import retention, trash
from outlast.checkpoint.retention import Held, Policy


def held(*steps: int, **fields: object) -> list[Held]:
    return [Held(f"checkpoint-{step}", step, **fields) for step in steps]  # type: ignore[arg-type]


def removed(all_: list[Held], **policy: int) -> list[int]:
    return [int(name.split("-")[1]) for name in retention.decide(all_, Policy(**policy)).remove]


def test_the_newest_stay() -> None:
    assert removed(held(10, 20, 30, 40, 50), newest=3) == [10, 20]


def test_the_best_by_loss_stays_and_a_flagged_one_is_never_the_best() -> None:
    good, poisoned = Held("checkpoint-10", 10, loss=2.0), Held("checkpoint-20", 20, loss=1.0, flagged=True)
    assert removed([good, poisoned, *held(30, 40, 50)], newest=3) == [20]
    assert removed([good, Held("checkpoint-20", 20, loss=float("nan")), *held(30, 40, 50)], newest=3) == [20]


def test_of_two_with_one_loss_the_newer_is_the_best() -> None:
    assert removed([*held(10, 20, loss=1.0), *held(30, 40)], newest=2) == [10]


def test_every_multiple_stays() -> None:
    assert removed(held(100, 150, 200, 250, 300), newest=1, every=100) == [150, 250]


def test_pinned_used_and_foreign_ones_stay() -> None:
    odd = [Held("a-1", 1, pinned=True), Held("a-2", 2, in_use=True), Held("a-3", 3, ours=False)]
    assert removed([*odd, *held(10, 20)], newest=2) == []


def test_two_that_are_known_to_be_whole_stay_whatever_is_asked_for() -> None:
    broken = held(30, 40, sound=False)
    assert removed([*held(5, 10, 20), *broken], newest=1, best=0) == [5, 30]
    assert removed(held(10, 20), newest=1, best=0) == []


def test_every_one_that_stays_says_why() -> None:
    decision = retention.decide([Held("checkpoint-10", 10, pinned=True, loss=1.0), *held(20)], Policy())
    assert decision.keep["checkpoint-10"] == ("pinned", "among the newest", "best loss (1)")


@pytest.mark.parametrize("seed", range(300))
def test_what_holds_for_any_run(seed: int) -> None:
    dice = random.Random(seed)
    all_ = [
        Held(
            f"checkpoint-{step}",
            step,
            ours=dice.random() < 0.8,
            sound=dice.random() < 0.7,
            in_use=dice.random() < 0.1,
            pinned=dice.random() < 0.1,
            flagged=dice.random() < 0.2,
            loss=dice.choice([None, float("nan"), dice.random()]),
        )
        for step in dice.sample(range(1000), dice.randrange(12))
    ]
    policy = Policy(dice.randrange(5), dice.randrange(3), dice.choice([0, 0, 7, 100]))
    decision = retention.decide(all_, policy)
    gone, stays = set(decision.remove), set(decision.keep)
    assert gone | stays == {one.name for one in all_}
    assert not gone & stays
    assert not [one for one in all_ if one.name in gone and (one.pinned or one.in_use or not one.ours)]
    sound = [one for one in all_ if one.ours and one.sound]
    assert len([one for one in sound if one.name in stays]) >= min(2, len(sound))
    newest = sorted((one for one in all_ if one.ours), key=lambda one: one.step)[-max(policy.newest, 1) :]
    assert {one.name for one in newest} <= stays
    # The order of what is handed in changes nothing, and to decide again removes nothing more.
    assert retention.decide(dice.sample(all_, len(all_)), policy).remove == decision.remove
    assert retention.decide([one for one in all_ if one.name in stays], policy).remove == ()


def test_trash_is_gone_after_its_time_and_not_before(tmp_path: Path) -> None:
    for name in ("checkpoint-10", "checkpoint-20"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").touch()
    trash.put(tmp_path / "checkpoint-10", until=1000.9)
    trash.put(tmp_path / "checkpoint-20", until=2000)
    assert [(one.name, one.until, one.by_job) for one in trash.waiting(tmp_path)] == [
        ("checkpoint-10", 1000, False),
        ("checkpoint-20", 2000, False),
    ]
    assert trash.sweep(tmp_path, now=1500) == ["checkpoint-10"]
    assert [path.name for path in tmp_path.iterdir()] == [".removed-checkpoint-20.2000"]


def test_the_manifest_of_a_file_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "step-1.ckpt").touch()
    (tmp_path / ".step-1.ckpt.MANIFEST.json").touch()
    trash.put(tmp_path / "step-1.ckpt", until=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "..removed-step-1.ckpt.5.MANIFEST.json",
        ".removed-step-1.ckpt.5",
    ]
    assert trash.sweep(tmp_path, now=10) == ["step-1.ckpt"]
    assert list(tmp_path.iterdir()) == []
