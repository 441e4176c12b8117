"""The numbers that everybody computes with in one case, and what they should come to. Knows no peer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.bench.cases import Case
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]


@dataclass(frozen=True)
class Problem:
    """One case with its numbers.

    Args:
        case: what it is of.
        weights: canonical arrays by name.
        x: [T, N, I]. dy: [T, N, D*H], the gradient of what is trained for, zero past a length.
        lengths: int64 [N], or None.
    """

    case: Case
    weights: Mapping[str, Array]
    x: Array
    dy: Array
    lengths: Array | None

    def to_weights(self) -> RNNWeights:
        """The layer."""
        return RNNWeights(self.case.spec, self.weights)


def problem_of(case: Case, seed: int = 0) -> Problem:
    """Uniform weights of +-1/sqrt(H), as PyTorch starts with, and inputs of +-1.

    The same numbers whatever the mode and the threads.
    """
    numbers, spec, bound = np.random.default_rng(seed), case.spec, 1 / math.sqrt(case.H)

    def drawn(shape: tuple[int, ...], limit: float) -> Array:
        return numbers.uniform(-limit, limit, shape).astype(case.dtype)

    weights = {name: drawn(shape, bound) for name, shape in spec.weight_shapes().items()}
    x, dy = drawn((case.T, case.N, case.I), 1.0), drawn((case.T, case.N, spec.output_size), 1.0)
    lengths = case.steps()
    if lengths is not None:
        past = np.arange(case.T)[:, None] >= lengths
        x[past], dy[past] = 0, 0
    return Problem(case, weights, x, dy, lengths)


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Arrays by name, for another process."""
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_arrays(path: Path) -> dict[str, Array]:
    """What `save_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)
