"""Runs that nothing disturbs, and what a job inherits from the one before."""

from __future__ import annotations

from harness import CHECKOUT, PROJECT, Lab


def test_a_run_that_fits_into_one_job_finishes(lab: Lab) -> None:
    lab.render()
    job = lab.submit()
    lab.finish()
    assert lab.endings() == ["done"]
    assert lab.events("ended")[0]["then"] == "finish"
    assert lab.successors(job) == []
    assert lab.durable_steps()[-1] == 100


def test_variables_of_the_first_job_and_of_its_shell_are_not_in_the_second(lab: Lab) -> None:
    lab.write(
        "train.py",
        f"import os, sys\n\nsys.path.insert(0, {str(CHECKOUT / 'pyhelpers')!r})\n"
        "from outlast.demo.train import main\n\n"
        "if os.environ['RANK'] == '0':\n"
        "    with open('seen.' + os.environ['SLURM_JOB_ID'], 'w') as file:\n"
        "        file.writelines(f'{k}={v}\\n' for k, v in os.environ.items())\n"
        "sys.exit(main())\n",
    )
    lab.render(
        "--set", "deadline.train_at_most_s=15", "--set", "progress.target_step=200",
        "--set", "env.OF_THE_JOB=kept", "--set", 'setup=["export OF_SETUP=kept"]',
    )  # fmt: skip
    first = lab.alice("env", "OF_THE_SHELL=leak", "SLURM_NTASKS=7", "sbatch", "--parsable", "job.sh").strip()
    lab.finish()
    assert lab.endings()[:1] == ["walltime"]
    second = lab.successors(first)[0]
    seen = {
        job: dict(
            line.split("=", 1) for line in lab.on_disk(f"{PROJECT}/seen.{job}").read_text().splitlines() if "=" in line
        )
        for job in (first, second)
    }
    for job in (first, second):
        assert "OF_THE_SHELL" not in seen[job]
        assert seen[job]["OF_THE_JOB"] == seen[job]["OF_SETUP"] == "kept"
        assert seen[job]["SLURM_NTASKS"] == seen[job]["WORLD_SIZE"] == "4"
        assert seen[job]["OUTLAST_JOB_ID"] == job
        assert not [name for name in seen[job] if name.startswith("SBATCH_")]
    assert set(seen[first]) - set(seen[second]) <= {"_"}
    assert seen[first]["MASTER_PORT"] != seen[second]["MASTER_PORT"]
