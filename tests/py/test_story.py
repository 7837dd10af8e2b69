import re
import time
from pathlib import Path

import pytest
from conftest import event

from outlast import story


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("- submitted successor=1 by=ann", "ann submitted job 1 to start the run"),
        ("12 submitted successor=13", "job 12 submitted job 13"),
        ("12 started host=n1 durable_step=120", "job 12 started on n1, with a checkpoint of step 120"),
        ("12 started host=n1 durable_step=0", "job 12 started on n1, without a checkpoint"),
        ("12 launched step=0", "job 12 launched the trainer from the beginning"),
        (
            "12 ended class=walltime evidence=deadline step=120 then=submit",
            "job 12 stopped in time at step 120 (deadline)",
        ),
        ("12 ended class=crash step=80 then=relaunch", "job 12 crashed at step 80; starts again"),
        ("12 loss_bad step=80 why=nan", "job 12 finds the loss wrong from step 80 on: nan"),
        ("12 signal name=TERM from=outside", "job 12 got TERM from outside"),
        ("12 signal name=stop from=deadline", "job 12 asks the trainer to stop: its time is nearly over"),
        ("12 held why=stuck todo=look", "job 12 holds the run: stuck; then type: look"),
        (
            "12 hang phase=steps age_s=400 limit_s=300 step=7",
            "job 12 hangs at step 7 (400 s in phase steps, limit 300 s): writes down what its processes do",
        ),
        ("12 finished step=200", "job 12 finished the run at step 200"),
        ("12 checkpoint_torn step=80 why=lost", "job 12 found the checkpoint of step 80 torn: lost"),
        ("12 juggled out=n1", "job 12: juggled out=n1"),
        (
            "12 preflight nodes=4 seconds=1 unknown=0 blamed= site=",
            "job 12 asked its 4 nodes how they are, in 1 s; all are well",
        ),
        (
            "12 preflight nodes=4 seconds=1 unknown=2 blamed=n2:clock site=",
            "job 12 asked its 4 nodes how they are, in 1 s; bad: n2:clock; unknown: 2",
        ),
        ("12 swapped out=n2 in=n9", "job 12 puts n9 into the place of n2"),
    ],
)
def test_line_tells_an_event_in_words(line: str, words: str) -> None:
    assert story.line(event(1, line))[10:] == words


def test_every_event_that_a_job_writes_has_words() -> None:
    root = Path(__file__).parents[2]
    texts = [path.read_text() for path in [*root.glob("lib/**/*.sh"), *root.glob("pyhelpers/outlast/sidecar/*.py")]]
    names = set(re.findall(r'(?:ol_ledger_add |say\("event", ")([a-z_]+)', "\n".join(texts)))
    assert len(names) > 20
    assert [name for name in sorted(names) if story.line(event(1, f"12 {name}")).endswith(f"job 12: {name}")] == []


def test_line_starts_with_the_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert story.line(event(1, "1 started")).startswith("00:16:41  ")


def test_line_sends_nothing_but_text_to_the_terminal() -> None:
    told = story.line(event(1, "1 warned text=\x1b]0;pwned\x07\r\x9b2J"))
    assert re.fullmatch(r"[ -~]+", told)
