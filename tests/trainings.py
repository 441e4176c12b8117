"""Small trainings that the tests run, and that may be broken off and resumed in a process of their own.

python -m tests.trainings KIND CHECKPOINT MAX_STEPS [EVERY]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import rnnbridge as rb
from rnnbridge.training import (
    MSE,
    Adam,
    Batches,
    CosineDecay,
    CrossEntropy,
    EarlyStopping,
    Embedding,
    History,
    LastStep,
    Linear,
    Plateau,
    RMSprop,
    Sequential,
    WarmUp,
    Windows,
    fit,
    seeds,
)

TOKENS, H = 13, 11


def lines(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens [count, 7], whether there is a 3 before the length, and lengths of 0 to 7."""
    rng = np.random.default_rng(seed)
    tokens, lengths = rng.integers(0, TOKENS, (count, 7)), rng.integers(0, 8, count)
    return tokens, ((tokens == 3) & (np.arange(7) < lengths[:, None])).any(axis=1).astype(int), lengths


def stream(steps: int, seed: int = 2) -> np.ndarray:
    """Tokens [steps] that mostly count upwards."""
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.choice([1, 1, 1, 5], steps)) % TOKENS


def classifier() -> dict[str, Any]:
    """Lengths, dropout, two directions, validation, early stopping, a plateau."""
    seed = seeds(11)
    lstm = rb.LSTM(5, H, 2, bidirectional=True, dropout=0.3, seed=next(seed), batch_first=True)
    layers = [LastStep(bidirectional=True), Linear(2 * H, 2, seed=next(seed))]
    return {
        "model": Sequential(Embedding(TOKENS, 5, seed=next(seed)), lstm, *layers),
        "data": Batches(*lines(61), batch_size=17, seed=next(seed)),
        "validation": Batches(*lines(23, seed=5), batch_size=23),
        "loss": CrossEntropy(),
        "optimiser": Adam(0.02, amsgrad=True),
        "schedule": Plateau(patience=0, threshold=0.2),
        "early_stopping": EarlyStopping(3),
        "clip_norm": 1.0,
    }


def language_model() -> dict[str, Any]:
    """A state that is carried on, dropout, a rate that changes at every update."""
    seed = seeds(12)
    return {
        "model": Sequential(
            Embedding(TOKENS, 5, seed=next(seed)),
            rb.GRU(5, H, 3, reset="before", dropout=0.2, seed=next(seed), batch_first=True),
            Sequential(Linear(H, TOKENS, seed=next(seed))),
        ),
        "data": Windows(stream(301), batch_size=3, steps=17),
        "loss": CrossEntropy(),
        "optimiser": RMSprop(0.01, momentum=0.5, centered=True),
        "schedule": WarmUp(3, CosineDecay(20, per="step"), per="step"),
        "clip_value": 0.1,
    }


def regression() -> dict[str, Any]:
    """Numbers in float64, an LSTM alone."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((29, 5, 3))
    return {
        "model": rb.LSTM(3, 2, dropout=0.1, num_layers=2, seed=4, dtype="float64", batch_first=True),
        "data": Batches(x, np.tanh(np.cumsum(x[..., :2], axis=1)), batch_size=7, seed=6),
        "loss": MSE(),
        "optimiser": Adam(0.03),
    }


TRAININGS = {"classifier": classifier, "language model": language_model, "regression": regression}


def train(kind: str, **changes: Any) -> tuple[Any, History]:
    """The trained model, and its history."""
    options = {"epochs": 5, **TRAININGS[kind](), **changes}
    model, data = options.pop("model"), options.pop("data")
    return model, fit(model, data, **options)


if __name__ == "__main__":
    name, path, steps, *every = sys.argv[1:]
    train(name, checkpoint=path, max_steps=int(steps), resume=True, checkpoint_every=int(every[0]) if every else None)
