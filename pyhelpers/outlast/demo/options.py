"""The trainer's arguments: those of a Hugging Face Trainer that mean something here, the others accepted."""

from __future__ import annotations

import argparse

LIKE_TRAINER = "as in transformers.TrainingArguments"


def parser() -> argparse.ArgumentParser:
    """Arguments by name, with their defaults."""
    known = argparse.ArgumentParser(prog="outlast.demo.train", description=__doc__, allow_abbrev=False)
    known.add_argument("--output_dir", default="checkpoints", help=LIKE_TRAINER)
    known.add_argument("--resume_from_checkpoint", default="", help="a folder, or True: the newest in output_dir")
    known.add_argument("--max_steps", type=int, default=1000, help=LIKE_TRAINER)
    known.add_argument("--save_steps", type=int, default=100, help="0: only at the end")
    known.add_argument("--logging_steps", type=int, default=10, help="0: never")
    known.add_argument("--eval_steps", type=int, default=50, help="0: never")
    known.add_argument("--save_total_limit", type=int, default=0, help="checkpoints kept; 0: all")
    known.add_argument("--seed", type=int, default=42, help="of weights and data order")
    known.add_argument("--learning_rate", type=float, default=1e-2, help="the highest, after warm-up")
    known.add_argument("--per_device_train_batch_size", type=int, default=64, help="windows a rank and step")
    known.add_argument("--ddp_timeout", type=float, default=1800, help="seconds to wait for a peer")
    known.add_argument("--step_time", type=float, default=0.0, help="seconds that a step takes at least")
    known.add_argument("--plain", action="store_true", help="print `step 120 loss 2.31` lines and no bar")
    return known


def parse(words: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """The arguments, and the words without meaning here, in their order. Exits 2 on a wrong value."""
    return parser().parse_known_args(words)
