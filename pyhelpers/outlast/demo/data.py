"""The text, and which piece of it each rank sees at each step.

Batches depend on (seed, step, rank) alone: a run that resumes at a step sees what it would have seen.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.uint8]

VOCABULARY = 128  # ASCII; another byte is read as "?"
BLOCK = 4096  # bytes; every tenth block is for evaluation
TEXT_BYTES = 600_000
EVAL_WINDOWS = 1024


@dataclass(frozen=True)
class Text:
    """Tokens to train on and to evaluate on, each one long row."""

    train: Tokens
    evaluation: Tokens


def standard_library() -> Text:
    """The first modules of the standard library, in the order of their names."""
    return split(_encode(_sources(Path(os.__file__).parent)))


def _sources(folder: Path) -> bytes:
    text = b""
    for path in sorted(folder.glob("[a-z]*.py")):
        text += path.read_bytes()
        if len(text) >= TEXT_BYTES:
            break
    return text


def _encode(text: bytes) -> Tokens:
    tokens = np.frombuffer(text, dtype=np.uint8).copy()
    tokens[tokens >= VOCABULARY] = ord("?")
    return tokens


def split(tokens: Tokens) -> Text:
    """Every tenth block for evaluation, the others for training; an incomplete last block is left out."""
    blocks = tokens[: len(tokens) // BLOCK * BLOCK].reshape(-1, BLOCK)
    is_evaluation = np.arange(len(blocks)) % 10 == 9
    return Text(blocks[~is_evaluation].reshape(-1), blocks[is_evaluation].reshape(-1))


def batch(tokens: Tokens, size: int, context: int, seed: int, step: int, rank: int) -> tuple[Tokens, Tokens]:
    """What a rank sees at a step: windows (size, context), and the token after each (size,)."""
    starts = np.random.default_rng([seed, step, rank]).integers(0, len(tokens) - context, size)
    return _windows(tokens, starts, context)


def evaluation_batch(tokens: Tokens, context: int) -> tuple[Tokens, Tokens]:
    """The same windows at each evaluation, evenly spread: (EVAL_WINDOWS, context) and (EVAL_WINDOWS,)."""
    starts = np.linspace(0, len(tokens) - context - 1, EVAL_WINDOWS).astype(np.int64)
    return _windows(tokens, starts, context)


def _windows(tokens: Tokens, starts: NDArray[np.int64], context: int) -> tuple[Tokens, Tokens]:
    return tokens[starts[:, None] + np.arange(context)], tokens[starts + context]
