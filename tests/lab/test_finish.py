"""Runs that nothing disturbs, and what a job inherits from the one before."""

from __future__ import annotations

import json

import pytest
from harness import CHECKOUT, Lab, waits


def test_a_run_that_fits_into_one_job_finishes(lab: Lab) -> None:
    lab.render()
    job = lab.submit()
    lab.finish()
    assert lab.endings() == ["done"]
    assert lab.events("ended")[0]["then"] == "finish"
    assert lab.successors(job) == []
    assert lab.durable_steps()[-1] == 100
    assert lab.verdict(job) == "ok"


@pytest.mark.seldom
def test_a_run_starts_from_a_checkpoint_of_another_one(lab: Lab) -> None:
    lab.render("--set", "progress.target_step=60")
    lab.submit()
    lab.finish()
    old, lab.run = lab.run_path, "branch"
    lab.render("--set", "run=branch", "--set", "from=train")
    lab.submit()
    lab.finish()
    assert lab.endings() == ["done"]
    assert [(e["step"], e["from"]) for e in lab.events("branched")] == [(60, f"{old}/checkpoints/checkpoint-60")]
    assert lab.events("first_step")[0]["step"] > 60
    assert lab.durable_steps()[-1] == 100
    manifest = json.loads((lab.folder / "checkpoints/checkpoint-60/MANIFEST.json").read_text())
    assert manifest["parent"] == f"{old}/checkpoints/checkpoint-60"


@pytest.mark.seldom
def test_variables_of_the_first_job_and_of_its_shell_are_not_in_the_second(lab: Lab) -> None:
    lab.write(
        "train.py",
        f"import os, sys\n\nsys.path.insert(0, {str(CHECKOUT / 'pyhelpers')!r})\n"
        "from outlast.demo.train import main\n\n"
        "if os.environ['RANK'] == '0':\n"
        "    with open('seen.' + os.environ['OUTLAST_JOB_ID'], 'w') as file:\n"
        "        file.writelines(f'{k}={v}\\n' for k, v in os.environ.items())\n"
        "sys.exit(main())\n",
    )
    lab.faults(waits(once="waited"))
    lab.render("--set", "env.OF_THE_JOB=kept", "--set", 'setup=["export OF_SETUP=kept", "env >shell.$OUTLAST_JOB_ID"]')
    first = lab.submit(env={"OF_THE_SHELL": "leak", **lab.of_another_job})
    lab.wait_for_file("waited")
    lab.end_in(first, 60)  # all of it is margin
    lab.finish(240)
    assert lab.endings()[:1] == ["walltime"]
    second = lab.successors(first)[0]
    seen = {job: variables(lab, job) for job in (first, second)}
    for job in (first, second):
        assert "OF_THE_SHELL" not in seen[job]
        assert seen[job]["OF_THE_JOB"] == seen[job]["OF_SETUP"] == "kept"
        assert seen[job]["WORLD_SIZE"] == "4"
        assert not set(lab.of_another_job.items()) & set(seen[job].items())
        assert seen[job]["OUTLAST_JOB_ID"] == job
        assert not [name for name in seen[job] if name.startswith("SBATCH_")]
    left = {
        name for name in set(seen[first]) - set(seen[second]) if not name.startswith("PBS_O_")
    }  # where it was typed
    assert left <= {"_"}
    assert seen[first]["MASTER_PORT"] != seen[second]["MASTER_PORT"]
    # What the launcher itself sees; the ranks have of its own what it made of that.
    assert not set(lab.of_another_job.items()) & set(variables(lab, second, "shell").items())


@pytest.mark.only("slurm", "qsub reads no options from variables")
def test_an_option_in_the_users_profile_does_not_change_the_successor(lab: Lab) -> None:
    profile = lab.dir / "home/alice/.profile"
    profile.write_text("export SBATCH_TIMELIMIT=3\n")
    profile.chmod(0o644)
    lab.faults(waits(once="waited"))
    lab.render("--set", "deadline.train_at_most_s=15")
    first = lab.submit()
    second = lab.successor(first)
    assert lab.job(second)["TimeLimit"] == lab.job(first)["TimeLimit"]
    lab.finish()


def variables(lab: Lab, job: str, where: str = "seen") -> dict[str, str]:
    """What rank 0 of a job, or the shell of its launcher, has written down."""
    lines = lab.on_disk(f"{lab.project}/{where}.{job}").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
