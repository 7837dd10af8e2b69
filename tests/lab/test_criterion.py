"""The very bytes of the site's own job train over several jobs, whatever happens, to the end."""

from __future__ import annotations

import pytest
from harness import CHECKOUT, Lab, waits

# A step of the small model counts for 100, and it saves as rarely as a big one would: 50000 steps by 16 ranks would
# take two cores half an hour.
TRAINER = f"""
import sys

sys.path.insert(0, {str(CHECKOUT / "pyhelpers")!r})
from outlast.demo import train


class Trainer(train.Trainer):
    def step(self):
        self.run.progress.step += 99
        return super().step()


train.Trainer = Trainer
small = "--per_device_train_batch_size 1 --save_steps 10000 --step_time 0.16"
sys.exit(train.main([*sys.argv[1:], *small.split()]))
"""


@pytest.mark.seldom
@pytest.mark.timeout(1500)
def test_the_bytes_of_the_1b_32n_job_train_over_several_jobs_and_finish(lab: Lab) -> None:
    lab.run = job = lab.main_job
    text = lab.alice(str(CHECKOUT / "bin/render"), lab.site, job, "--account", "abc123", "--nodes", "2")
    lab.write("job.sh", text)
    lab.write("train.py", TRAINER)
    # The first job trains until it is told to end, the second one until it has crashed, and then until a host is lost.
    crash = {"kind": "segv", "rank": 9, "step": 26000, "once": "crashed"}
    lab.faults(waits(15000), crash)
    first = lab.submit()
    assert lab.partition(first) == lab.main_queue

    lab.wait_event("first_step", 120, job=first)
    lab.end_in(first, 601)  # its margin is 600 s
    second = lab.successor(first, 120)
    lab.faults(crash, waits(40000))

    lab.wait_event("ended", 400, job=second, **{"class": "crash"})
    lab.wait_event("first_step", 180, job=second, attempt=2)
    lab.command("off", lab.host_of(second, 1))
    lab.faults()

    lab.finish(600)
    lab.assert_resumed()
    assert lab.durable_steps()[-1] == 50000
    assert len(lab.durable_steps()) <= 3
    assert lab.endings()[:2] == ["walltime", "crash"]
    assert lab.endings()[-1] == "done"
    assert len(lab.events("launched")) == 4
