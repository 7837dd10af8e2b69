import re
import subprocess

import pytest

from outlast import job, pattern, preset
from outlast.refused import Refused

ALL = preset.names()

# What each kind of trainer prints, as read in its source (presets/NAME.toml says where), and the step in it.
LINES = {
    "hf": [
        ("  2%|2         | 10/500 [00:03<02:27,  3.32it/s]", "10"),
        ("100%|##########| 500/500 [02:30<00:00,  3.33it/s]", "500"),
    ],
    "torchtitan": [("[titan] 2026-01-01 - root - INFO - step:  1  loss:  8.12345  grad_norm:  1.0", "1")],
    "megatron": [
        (" [2026-01-01 10:00:00] iteration       10/     500 | consumed samples:         2560 |", "10"),
        (" iteration   123456/  500000 | elapsed time per iteration (ms): 812.3 |", "123456"),
        ("saving checkpoint at iteration      20 to /x", ""),
    ],
    "deepspeed": [
        ("[2026-01-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[0.001]", "10"),
        ("steps: 20 loss: 5.0123 iter time (s): 0.512 samples/sec: 62.5", "20"),
    ],
    "lightning": [("Epoch 0:  12%|1  | 60/500 [00:09, v_num=0, global_step=60.00, train_loss_step=2.340]", "60")],
    "script": [("step 12 loss 3.4", "12"), ("Step: 7", "7"), ("step=00040", "00040")],
    "torchrun": [("step 12 loss 3.4", "12")],
    "smoke": [("step 3", "3")],
}


def step_in(regex: str, line: str) -> str:
    """The step as a job script finds it: by sed, with anything before and after."""
    run = ["sed", "-nE", f"s\x01.*{regex}.*\x01\\1\x01p"]
    return subprocess.run(run, input=line, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("name", ALL)
def test_step_regex_finds_the_step_in_real_lines(name: str) -> None:
    regex = preset.load(name).step_regex.replace("{target_step}", "[0-9]+")
    assert re.compile(regex).groups == 1
    assert [step_in(regex, line) for line, _ in LINES[name]] == [step for _, step in LINES[name]]


# What each prints in an evaluation and in a save: two lines that tell that it moves, and one of the save.
PHASES = {
    "hf": (
        ("  5%|5         | 2/40 [00:01<00:19]", " 50%|##### | 20/40 [00:10<00:10]"),
        "Saving model checkpoint to /x",
    ),
    "torchtitan": (
        ("validate step: 10  loss:  8.1", "validate step: 20  loss:  7.9"),
        "Saving the checkpoint (or staging if async is enabled).",
    ),
    "lightning": (
        ("Validation DataLoader 0:  12%|1  | 3/24 [00:09]", "Validation DataLoader 0: 50%|1  | 12/24 [00:18]"),
        "",
    ),
    "megatron": (
        ("Evaluating iter 1/10", "Evaluating iter 2/10"),
        "saving checkpoint at iteration      20 to /x in torch_dist format",
    ),
    "deepspeed": (("evaluating", "validation over"), "Saving model checkpoint: /x/global_step20/mp_rank_00.pt"),
    "script": (("evaluating", "validation over"), "saving the checkpoint"),
    "torchrun": (("evaluating", "validation over"), "saving the checkpoint"),
}


@pytest.mark.parametrize("name", PHASES)
def test_an_evaluation_that_moves_is_seen_to_and_a_save_is_one(name: str) -> None:
    found = preset.load(name)
    (first, second), saving = PHASES[name]
    seen = [step_in(pattern.grouped(found.eval_regex), line) for line in (first, second)]
    assert all(seen) and seen[0] != seen[1]
    assert bool(found.save_regex and step_in(pattern.grouped(found.save_regex), saving)) == bool(saving)


def test_hf_tells_training_from_evaluation_by_the_target() -> None:
    regex = preset.load("hf").step_regex.replace("{target_step}", "500")
    assert step_in(regex, " 50%|##### | 20/40 [00:01<00:01, 20.0it/s]") == ""


@pytest.mark.parametrize("name", ALL)
def test_a_preset_sets_only_keys_of_a_job(name: str) -> None:
    assert preset.as_job(preset.load(name)).keys() <= job.KEYS.keys()


@pytest.mark.parametrize("name", ALL)
def test_a_save_signal_is_one_that_the_rank_shim_passes_on(name: str) -> None:
    assert preset.load(name).save_signal in ("", "USR1")


def test_lightning_does_not_requeue() -> None:
    assert preset.load("lightning").env["TORCHELASTIC_RUN_ID"]


def test_torchrun_does_not_restart() -> None:
    assert preset.load("torchrun").env["PET_MAX_RESTARTS"] == "0"


def test_load_names_the_nearest_preset() -> None:
    with pytest.raises(Refused, match=r"no preset torchtitn \(did you mean torchtitan\?\)"):
        preset.load("torchtitn")
