"""What issue and manual promise: the very bytes of the site's own job, trained over several jobs, to the end."""

from __future__ import annotations

import pytest
from harness import CHECKOUT, PROJECT, Lab, wait_for

JOB_ENDS_S = 40


@pytest.mark.timeout(1500)
def test_the_bytes_of_the_1b_32n_job_train_over_several_jobs_and_finish(lab: Lab) -> None:
    lab.run = "1b-32n"
    text = lab.alice(str(CHECKOUT / "bin/render"), "frontier", "1b-32n", "--account", "abc123", "--nodes", "2")
    lab.write("job.sh", text)
    # The user's trainer: small enough for this machine, and counting steps as that of a 1 B model would.
    lab.write(
        "train.py",
        f"import sys\n\nsys.path.insert(0, {str(CHECKOUT / 'pyhelpers')!r})\n"
        "from outlast.demo.train import main\n\n"
        "sys.exit(main([*sys.argv[1:], '--per_device_train_batch_size', '1']))\n",
    )
    job = lab.submit()
    lab.wait_event("first_step", 120)
    wait_for(lambda: False, 60, "x")
    assert PROJECT and JOB_ENDS_S and job
