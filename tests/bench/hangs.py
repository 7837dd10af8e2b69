"""The watchdog's judgement over simulated months: `python tests/bench/hangs.py [HOURS]`.

Each trace is a trainer's cadence, seeded, and goes through the functions of lib/cadence.sh themselves. Beside it: fixed
limits on silence, as simpler watchers have them. Prints the table of docs/benchmarks.md.
"""

import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
JOB_S = 12 * 3600
FIXED_S = (300, 1800)
HANGS = 12  # real ones of each kind, each in a run of its own
PLAY = r"""
source "$1/lib/cadence.sh"
OUTLAST_IDLE_S=0 OUTLAST_START_LIMIT_S=0 OUTLAST_EVAL_LIMIT_S=0 OUTLAST_SAVE_LIMIT_S=0 OUTLAST_TARGET_STEP=0
ol_cadence_recall
ol_cadence_begin 0
while read -r t what word; do
  # Five minutes are the least that any limit is.
  if ((t - OL_CADENCE_T > 300)) && ol_cadence_judge "$((t - 1))"; then
    echo "$((t - OL_CADENCE_AGE_S + OL_CADENCE_LIMIT_S))"
    ol_cadence_hung
  fi
  case $what in
    launch) ol_cadence_begin "$t" "$word" ;;
    step) ol_cadence_step "$t" "$word" ;;
    end) ;;
    *) ol_cadence_sign "$t" "$what" "$word" ;;
  esac
done
"""

Event = tuple[int, str, str]  # second, what, word; as `launch`, `step` or a sign of lib/cadence.sh


class Trainer:
    """Makes the events of a run: steps, and what its kind does between them."""

    def __init__(self, kind: str, seed: int) -> None:
        self.random = random.Random(f"{kind} {seed}")
        self.kind = kind
        self.now = 0.0
        self.step = 0
        self.step_s = self.random.choice([4.0, 6.0, 10.0, 20.0, 45.0])
        self.due = dict.fromkeys(("save", "eval", "compile", "pause", "stall"), 0.0)
        self.tells = seed % 2 == 0  # does its log tell of evaluations?

    def events(self, end_s: float) -> Iterator[Event]:
        """Up to about that second, in jobs of 12 hours."""
        while self.now < end_s:
            job_end = min(end_s, self.now + JOB_S)
            yield int(self.now), "launch", str(self.step or "")
            yield from self.start()
            while self.now < job_end:
                yield from self.train()

    def start(self) -> Iterator[Event]:
        """Imports, a checkpoint, a compile: words, and no step."""
        until = self.now + self.random.uniform(120, 2400 if self.kind == "compile" else 480)
        while self.now < until:
            yield int(self.now), "log", ""
            self.now += self.random.uniform(5, 120)
        for what in self.due:
            self.due[what] = self.now + self.random.uniform(600, 3600)

    def train(self) -> Iterator[Event]:
        """The next steps, and what comes behind them."""
        for _ in range(self.burst()):
            self.step += 1
        yield int(self.now), "step", str(self.step)
        yield from {"saves": self.save, "evaluations": self.evaluate}.get(self.kind, self.nothing)()
        self.pause()

    def burst(self) -> int:
        """How many steps are told at once: output that goes through a buffer comes in heaps."""
        steps = self.random.randint(2, 30) if self.kind == "bursts" else 1
        self.now += sum(self.random.uniform(0.9, 1.15) * self.step_s for _ in range(steps))
        return steps

    def is_due(self, what: str, every_s: tuple[float, float]) -> bool:
        """Is it time? Then the next time is drawn."""
        if self.now < self.due[what]:
            return False
        self.due[what] = self.now + self.random.uniform(*every_s)
        return True

    def nothing(self) -> Iterator[Event]:
        """No event."""
        return iter(())

    def save(self) -> Iterator[Event]:
        """A checkpoint that stops all: its files move; the watch looks at them every ten seconds."""
        if not self.is_due("save", (1200, 5400)):
            return
        until = self.now + self.random.uniform(30, 900)
        while self.now + 20 < until:
            self.now += self.random.choice([10, 10, 20, 60])
            yield int(self.now), "save", str(self.now)
        self.now = max(until, self.now)

    def evaluate(self) -> Iterator[Event]:
        """An evaluation that grows from one to forty minutes in 100 hours; in every second run nothing tells of it."""
        if not self.is_due("eval", (2400, 4800)):
            return
        until = self.now + min(2400.0, 60 + self.now / 150) * self.random.uniform(0.8, 1.2)
        while self.tells and self.now + 30 < until:
            yield int(self.now), "eval", str(self.now)
            self.now += 30
        self.now = until

    def pause(self) -> None:
        """Silence without a word of why."""
        if self.kind == "compile" and self.is_due("compile", (1e9, 1e9)):  # once a job
            self.now += self.random.uniform(180, 900)
        elif self.kind == "epochs" and self.is_due("pause", (5400, 14400)):
            self.now += self.random.uniform(30, 400)
        elif self.kind == "stalls" and self.is_due("stall", (7200, 43200)):
            self.now += min(1200.0, self.random.lognormvariate(3.7, 1.0))


KINDS = {
    "steady": "a step every 4 to 45 s",
    "saves": "checkpoints of up to 15 min that stop all",
    "evaluations": "evaluations that grow to 40 min, half of them untold",
    "compile": "starts of up to 40 min, and within the hour a compile of up to 15",
    "bursts": "output through a buffer, in heaps of up to 25 min",
    "epochs": "silent pauses of up to 7 min every few hours",
    "stalls": "a file system that stalls, up to 20 min",
}


def alarms(events: list[Event]) -> list[int]:
    """The seconds at which lib/cadence.sh calls it a hang."""
    text = "".join(f"{t} {what} {word}\n" for t, what, word in events)
    words = ["bash", "-u", "-c", PLAY, "play", str(ROOT)]
    return [
        int(line)
        for line in subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout.split()
    ]


def fixed(events: list[Event], limit_s: int) -> int:
    """How often a limit on silence is passed."""
    times = [t for t, _, _ in events]
    return sum(b - a > limit_s for a, b in pairwise(times))


def hang(kind: str, seed: int) -> tuple[float, float]:
    """Detection delay of a real hang and the run's typical gap between steps, in seconds."""
    trainer = Trainer(kind, 1000 + seed)
    at = random.Random(f"hang {kind} {seed}").uniform(0.4, 20) * 3600
    events = [event for event in trainer.events(at + 1) if event[0] <= at]
    steps = [t for t, what, _ in events if what == "step"]
    typical = statistics.median(b - a for a, b in pairwise(steps))
    last = events[-1][0]
    found = [t for t in alarms([*events, (last + 40_000, "end", "")]) if t > last]
    return found[0] - last, typical


def row(kind: str, hours: float) -> str:
    """A line of the table."""
    false, beside, watched = 0, [0, 0], 0.0
    for seed in range(4):
        events = list(Trainer(kind, seed).events(hours * 3600 / 4))
        watched += events[-1][0] / 3600
        false += len(alarms(events))
        beside = [count + fixed(events, limit) for count, limit in zip(beside, FIXED_S, strict=True)]
    hangs = [hang(kind, seed) for seed in range(HANGS)]
    delay = statistics.median(delay for delay, _ in hangs)
    worst = max(delay for delay, _ in hangs)
    multiple = statistics.median(delay / typical for delay, typical in hangs)
    others = statistics.median(FIXED_S[1] / typical for _, typical in hangs)
    return (
        f"| {KINDS[kind]} | {watched:.0f} | {false} | {beside[0]} | {beside[1]} | "
        f"{delay:.0f} s, at most {worst:.0f} | {multiple:.0f} | {others:.0f} |"
    )


def main() -> None:
    """Print the table."""
    hours = float(sys.argv[1]) if sys.argv[1:] else 1000.0
    print(
        "| trainer | hours | false alarms | at 5 min | at 30 min | delay of a real hang | in steps | 30 min in steps |"
    )
    print("|" + " --- |" * 8)
    for kind in KINDS:
        print(row(kind, hours / len(KINDS)), flush=True)


if __name__ == "__main__":
    main()
