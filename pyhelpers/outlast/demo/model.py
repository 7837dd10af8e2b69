"""The language model: which byte comes after a window of bytes (Bengio et al., 2003), and AdamW.

Shapes: B windows in a batch, C bytes in a window, V bytes in the vocabulary, D numbers a byte, H hidden units.
Weights are a plain dict of arrays by name, float32 in training and float64 where a test asks for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outlast.demo.data import VOCABULARY, Tokens

Array = NDArray[np.floating[Any]]
Weights = dict[str, Array]

CONTEXT = 16
WIDTH = 16
HIDDEN = 128
BETAS = (0.9, 0.99)
EPSILON = 1e-8
DECAY = 0.01
MAX_NORM = 1.0
WARMUP_STEPS = 20


def initial(seed: int, context: int = CONTEXT, width: int = WIDTH, hidden: int = HIDDEN) -> Weights:
    """Fresh weights: embedding (V, D), w1 (C*D, H), b1 (H,), w2 (H, V), b2 (V,)."""
    rng = np.random.default_rng(seed)

    def normal(rows: int, columns: int, scale: float) -> Array:
        return (rng.standard_normal((rows, columns)) * scale).astype(np.float32)

    return {
        "embedding": normal(VOCABULARY, width, 0.5),
        "w1": normal(context * width, hidden, 1 / math.sqrt(context * width)),
        "b1": np.zeros(hidden, np.float32),
        "w2": normal(hidden, VOCABULARY, 0.1 / math.sqrt(hidden)),
        "b2": np.zeros(VOCABULARY, np.float32),
    }


def loss(weights: Weights, windows: Tokens, following: Tokens) -> float:
    """Mean cross-entropy in nats a byte; windows (B, C), following (B,)."""
    _, _, log_p = _forward(weights, windows)
    return _cross_entropy(log_p, following)


def loss_and_gradients(weights: Weights, windows: Tokens, following: Tokens) -> tuple[float, Weights]:
    """The loss as above and its gradients, shaped as the weights."""
    x, h, log_p = _forward(weights, windows)
    rows = len(following)
    d_logits = np.exp(log_p)
    d_logits[np.arange(rows), following] -= 1
    d_logits /= rows
    d_h = (d_logits @ weights["w2"].T) * (1 - h * h)
    d_x = (d_h @ weights["w1"].T).reshape(*windows.shape, -1)
    d_embedding = np.zeros_like(weights["embedding"])
    np.add.at(d_embedding, windows, d_x)
    return _cross_entropy(log_p, following), {
        "embedding": d_embedding,
        "w1": x.T @ d_h,
        "b1": d_h.sum(axis=0),
        "w2": h.T @ d_logits,
        "b2": d_logits.sum(axis=0),
    }


def _forward(weights: Weights, windows: Tokens) -> tuple[Array, Array, Array]:
    """Inputs (B, C*D), hidden units (B, H), log-probabilities (B, V)."""
    x = weights["embedding"][windows].reshape(len(windows), -1)
    h = np.tanh(x @ weights["w1"] + weights["b1"])
    logits = h @ weights["w2"] + weights["b2"]
    logits -= logits.max(axis=1, keepdims=True)
    return x, h, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _cross_entropy(log_p: Array, following: Tokens) -> float:
    return float(-log_p[np.arange(len(following)), following].mean())


@dataclass
class Adam:
    """First and second moments of the gradients, shaped as the weights."""

    first: Weights
    second: Weights


def adam(weights: Weights) -> Adam:
    """Moments before the first step: zeros."""
    zeros = {name: np.zeros_like(value) for name, value in weights.items()}
    return Adam(zeros, {name: value.copy() for name, value in zeros.items()})


def learning_rate(step: int, max_steps: int, peak: float) -> float:
    """The rate of the given step, the first being 1: linear warm-up, then half a cosine down to 0."""
    if step <= WARMUP_STEPS:
        return peak * step / WARMUP_STEPS
    done = (step - WARMUP_STEPS) / max(1, max_steps - WARMUP_STEPS)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def update(weights: Weights, gradients: Weights, moments: Adam, step: int, rate: float) -> float:
    """The norm of the gradients, after one AdamW step on the weights in place; `step` counts from 1."""
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
    scale = min(1.0, MAX_NORM / (norm + 1e-6))
    for name, weight in weights.items():
        g = gradients[name] * scale
        m, v = moments.first[name], moments.second[name]
        m += (1 - BETAS[0]) * (g - m)
        v += (1 - BETAS[1]) * (g * g - v)
        m_hat, v_hat = m / (1 - BETAS[0] ** step), v / (1 - BETAS[1] ** step)
        weight -= rate * (m_hat / (np.sqrt(v_hat) + EPSILON) + DECAY * weight)
    return norm


def pack(loss_value: float, gradients: Weights) -> NDArray[np.float32]:
    """Loss and gradients, in the order of their names, as one row for the ranks to average."""
    parts = [np.array([loss_value]), *(gradients[name].reshape(-1) for name in sorted(gradients))]
    return np.concatenate(parts, dtype=np.float32)


def unpack(row: NDArray[np.float32], like: Weights) -> tuple[float, Weights]:
    """Loss and gradients out of such a row, the gradients shaped and named as `like`."""
    gradients: Weights = {}
    at = 1
    for name in sorted(like):
        value = like[name]
        gradients[name] = row[at : at + value.size].reshape(value.shape)
        at += value.size
    return float(row[0]), gradients
