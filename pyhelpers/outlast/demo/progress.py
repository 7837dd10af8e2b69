"""What a run prints: the lines and the bar of a Hugging Face Trainer, or plain lines."""

from __future__ import annotations

import sys
import time

BAR_EVERY_S = 0.1  # tqdm's own
BAR_WIDTH = 10
EVAL_BATCHES = 40  # of an evaluation that takes its time
PLAIN = {"loss": "loss", "eval_loss": "eval", "train_runtime": "runtime"}  # what a plain line tells, and how


def bar(step: int, total: int, passed_s: float, steps_made: int) -> str:
    """The bar as tqdm draws it: ` 12%|#2        | 120/1000 [00:10<01:10, 12.00it/s]`."""
    share = step / total if total else 1.0
    tenths = int(share * BAR_WIDTH * 10)
    full, rest = divmod(tenths, 10)
    drawn = ("#" * full + (str(rest) if rest else "")).ljust(BAR_WIDTH)
    rate = steps_made / passed_s if steps_made and passed_s else 0.0
    left = clock((total - step) / rate) if rate else "?"
    speed = f"{rate:5.2f}it/s" if rate else "?it/s"
    return f"{int(share * 100):3d}%|{drawn}| {step}/{total} [{clock(passed_s)}<{left}, {speed}]"


def clock(seconds: float) -> str:
    """MM:SS, or H:MM:SS from an hour on."""
    minutes, s = divmod(int(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}" if hours else f"{m:02d}:{s:02d}"


class Reporter:
    """Prints for rank 0; on every other rank, `speaks` false, it is silent."""

    def __init__(self, total: int, plain: bool, speaks: bool) -> None:
        self.total = total
        self.plain = plain
        self.speaks = speaks
        self.began = self.drawn = time.monotonic()

    def begin(self, step: int, world: int) -> None:
        """Say that training begins. The bar begins at 0 even in a resumed run, as the Trainer's does."""
        self.note("***** Running training *****")
        self.note(f"  Number of ranks = {world}")
        self.note(f"  Total optimization steps = {self.total:,}")
        if step and not self.plain:
            self.note(f"  Continuing training from global step {step}")
        self.began = time.monotonic()
        self._draw(0, 0)

    def note(self, text: str) -> None:
        """A line on stderr."""
        if self.speaks:
            print(text, file=sys.stderr, flush=True)

    def stepped(self, step: int, made: int) -> None:
        """A step is done, the `made`-th of this launch."""
        if step >= self.total or time.monotonic() - self.drawn >= BAR_EVERY_S:
            self._draw(step, made)

    def logged(self, entry: dict[str, float], step: int) -> None:
        """Print what has been logged, on stdout, on a line of its own."""
        if not self.speaks:
            return
        if self.plain:
            words = [f"{PLAIN[name]} {value:.4g}" for name, value in entry.items() if name in PLAIN]
            print("step", step, *words, flush=True)
            return
        print("\r" + " " * 79 + "\r", end="", file=sys.stderr, flush=True)
        print(entry, flush=True)

    def evaluate(self, seconds: float) -> None:
        """Take so long over an evaluation, with a bar as the Trainer draws one."""
        for batch in range(EVAL_BATCHES):
            self.note("\r" + bar(batch, EVAL_BATCHES, batch * seconds / EVAL_BATCHES, batch))
            time.sleep(seconds / EVAL_BATCHES)

    def end(self) -> None:
        """Leave the bar's line."""
        if self.speaks and not self.plain:
            print(file=sys.stderr, flush=True)

    def _draw(self, step: int, made: int) -> None:
        if self.speaks and not self.plain:
            self.drawn = time.monotonic()
            print("\r" + bar(step, self.total, self.drawn - self.began, made), end="", file=sys.stderr, flush=True)
