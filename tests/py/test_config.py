from pathlib import Path

import pytest
import trees

from outlast import config, settings
from outlast.refused import Refused


def test_a_later_layer_wins_and_is_named(tmp_path: Path) -> None:
    plan = trees.plan(trees.make(tmp_path), "checkpoint.keep=9", user='account = "mine"\n[checkpoint]\nkeep = 7')
    assert (plan.job.account, plan.job.checkpoint.keep) == ("mine", 9)
    assert plan.origins["account"] == f"user file {tmp_path}/user.toml"
    assert plan.origins["checkpoint.keep"] == "command line"
    assert plan.origins["ranks_per_node"] == "site lake"
    assert plan.origins["checkpoint.prefix"] == "preset hf"
    assert plan.origins["nodes"] == "job sites/lake/small.toml"


def test_a_site_of_the_user_file_wins_over_its_common_part(tmp_path: Path) -> None:
    user = 'account = "a"\n[site.lake]\naccount = "b"'
    assert trees.plan(trees.make(tmp_path), user=user).job.account == "b"


def test_the_preset_is_that_of_the_last_layer(tmp_path: Path) -> None:
    plan = trees.plan(trees.make(tmp_path), "preset=torchtitan")
    assert (plan.job.checkpoint.prefix, plan.preset.sharded) == ("step-", True)


def test_a_job_file_wins_over_its_preset(tmp_path: Path) -> None:
    root = trees.make(tmp_path, job=trees.JOB + '[checkpoint]\nprefix = "ckpt_"')
    assert trees.plan(root).job.checkpoint.prefix == "ckpt_"


def test_variables_add_up_over_the_layers(tmp_path: Path) -> None:
    root = trees.make(tmp_path, job=trees.JOB.replace('"hf"', '"torchrun"') + '[env]\nA = "1"\nB = "1"')
    plan = trees.plan(root, "env.B=2", "env.C=3")
    assert plan.job.env == {"PET_MAX_RESTARTS": "0", "A": "1", "B": "2", "C": "3"}
    assert plan.origins["env.B"] == "command line"


def test_the_folder_of_the_runs_may_be_named_like_the_account_as_typed(tmp_path: Path) -> None:
    root = trees.make(tmp_path, site=trees.SITE.replace("{account}", "{account}-{account_as_typed}"))
    assert "OUTLAST_RUNS_DIR='/lus/abc123-ABC123/'\"$USER\"" in settings.block(trees.plan(root), trees.INSTALL)


def test_a_run_is_named_after_its_file(tmp_path: Path) -> None:
    assert trees.plan(trees.make(tmp_path)).job.run == "small"


def test_a_path_is_a_job_too(tmp_path: Path) -> None:
    root = trees.make(tmp_path / "tree")
    file = trees.write(tmp_path / "mine.toml", trees.JOB)
    assert config.plan(root, "lake", str(file), tmp_path / "none", {}).name == "mine"


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ('accont = "a"', r"user.toml: unknown key accont \(did you mean account\?\)"),
        ("[site.lak]\nnodes = 1", r"\[site.lak\] is no site \(did you mean lake\?\); .* OUTLAST_SITES"),
        ("[site.lake]\nnode = 1", r"\[site.lake\]: unknown key node"),
        ("[site]\nlake = 3", r"user.toml: site.lake is a table, \[site.lake\], not 3"),
        ("site = 3", "site is a table for each site"),
    ],
)
def test_the_user_file_is_as_strict(tmp_path: Path, user: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        trees.plan(trees.make(tmp_path), user=user)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes", "--set takes KEY=VALUE, not 'nodes'"),
        ("nods=3", r"--set: unknown key nods \(did you mean nodes\?\)"),
        ("env=3", "--set: unknown key env"),
        ("nodes=three", "--set: nodes is a whole number"),
    ],
)
def test_assignment_refuses(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        config.assignment(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2:00:00", 7200), ("1-12:00:00", 129600), ("90m", 5400), ("12h", 43200), ("45s", 45), ("2d", 172800)],
)
def test_duration_reads_what_people_type(text: str, seconds: int) -> None:
    assert config.duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "30", "2:00", "1:99:00", "2 h", "h", "-1h", "1h\n", "٣h", "٠٢:00:00", f"{'9' * 5000}s"]
)
def test_duration_refuses_what_schedulers_read_differently(text: str) -> None:
    with pytest.raises(Refused, match="2:00:00"):
        config.duration_s(text)
