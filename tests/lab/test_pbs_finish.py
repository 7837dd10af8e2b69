"""Runs that nothing disturbs, on PBS."""

from __future__ import annotations

from pbs_lab import PbsLab


def test_a_run_that_fits_into_one_job_finishes(pbs_lab: PbsLab) -> None:
    pbs_lab.render()
    job = pbs_lab.submit()
    pbs_lab.finish()
    assert pbs_lab.endings() == ["done"]
    assert pbs_lab.events("ended")[0]["then"] == "finish"
    assert pbs_lab.successors(job) == []
    assert pbs_lab.durable_steps()[-1] == 100
    assert pbs_lab.job(job)["Exit_status"] == "0"


def test_a_chain_of_jobs_finishes(pbs_lab: PbsLab) -> None:
    pbs_lab.render("--set", "progress.target_step=250", "--set", "deadline.train_at_most_s=20")
    pbs_lab.submit()
    pbs_lab.finish(240)
    *before, last = [e["job"] for e in pbs_lab.events("ended")]
    assert len(before) >= 1
    assert pbs_lab.endings() == [*["walltime"] * len(before), "done"]
    assert [pbs_lab.successors(job) for job in before] == [[job] for job in [*before[1:], last]]
    assert pbs_lab.successors(last) == []
    pbs_lab.assert_resumed()
