"""A run that nothing disturbs."""

from __future__ import annotations

from harness import Lab


def test_a_run_that_fits_into_one_job_finishes(lab: Lab) -> None:
    lab.render()
    job = lab.submit()
    lab.wait_event("finished", 120, step=100)
    lab.wait_until_empty()
    assert lab.endings() == ["done"]
    assert lab.successors(job) == []
    assert lab.durable_steps()[-1] == 100
    assert (lab.folder / "finished").exists()
