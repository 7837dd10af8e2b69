"""The training stands still, or seems to."""

from __future__ import annotations

import pytest
from harness import Lab

TRAIN = """python3 -u train.py --output_dir {ckpt_dir} --max_steps {target_step} --save_steps 20 --logging_steps 5
  --eval_steps 20 --step_time 0.1 {resume}"""
# It lives as long as the launcher, and writes where the ranks do.
TRACKER = "me=$BASHPID; (while kill -0 $me; do echo tracker: heartbeat; sleep 0.5; done) 2>/dev/null &"


@pytest.mark.seldom
def test_a_rank_that_stops_while_a_tracker_chats_is_a_hang_and_a_long_evaluation_is_none(lab: Lab) -> None:
    lab.faults(
        {"kind": "slow_eval", "step": 20, "seconds": 25, "once": "evaluated"},
        {"kind": "stop", "rank": 3, "step": 70, "once": "stopped"},
    )
    words = {"command": TRAIN, "setup": TRACKER, "progress.target_step": "160"}
    words |= {"spares": "1", "watchdog.idle_s": "10", "watchdog.eval_s": "120", "watchdog.save_s": "60"}
    lab.render(*(word for key, value in words.items() for word in ("--set", f"{key}={value}")))
    job = lab.submit()
    hang = lab.wait_event("hang", 150)
    assert (hang["phase"], hang["limit_s"]) == ("steps", 10)
    assert hang["step"] > 60  # and not in the evaluation
    victim = lab.host_of(job, 1)
    lab.finish()
    assert lab.endings(job) == ["hang", "done"]
    end = lab.events("ended")[0]
    assert (end["code"], end["then"], end["fingerprint"]) == (124, "relaunch", "hang/steps")
    first, second = map(lab.hosts, lab.events("launched"))
    assert first[1] == victim
    assert second[0] == first[0] and victim not in second
    stacks = {path.stem: path.read_text() for path in (lab.folder / f"stacks/{job}.0.1").glob("*.txt")}
    assert stacks.keys() == set(first)
    assert [stacks[host].count("State: T (stopped)") for host in (lab.host_of(job), victim)] == [0, 1]
    assert [rank for rank in range(4) if any(f", rank {rank}: " in text for text in stacks.values())] == [0, 1, 2, 3]
    assert lab.log(job).count("tracker: heartbeat") > 50
    lab.assert_resumed()
