"""Seeded layers and inputs that can show a mistake: prime and unequal sizes, no zero bias, non-zero states."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights

I, H, T = 5, 3, 7
CELLS: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm"},
    "gru_after": {"cell": "gru", "reset": "after"},
    "gru_before": {"cell": "gru", "reset": "before"},
    "rnn_tanh": {"cell": "rnn", "activations": ("tanh",)},
    "rnn_relu": {"cell": "rnn", "activations": ("relu",)},
}
DIRECTIONS = ("forward", "reverse", "bidirectional")
BIASES = ("none", "single", "double")


def spec_of(cell: str, **changes: Any) -> RNNSpec:
    """A spec of `CELLS`, I = 5 and H = 3 unless changed."""
    return RNNSpec(**{"input_size": I, "hidden_size": H, "bias": "double", **CELLS[cell], **changes})


def weights_of(spec: RNNSpec, seed: int = 0, dtype: str = "float32") -> RNNWeights:
    """Weights about as large as trained ones; every number differs from every other and from zero."""
    rng = np.random.default_rng([seed, *spec.cell.encode(), spec.num_layers, spec.num_directions])
    arrays = {
        name: (rng.uniform(0.2, 1.0, shape) * rng.choice([-1, 1], shape)).astype(dtype)
        for name, shape in spec.weight_shapes().items()
    }
    return RNNWeights(spec, arrays)


@dataclass(frozen=True)
class Inputs:
    """x [T, N, I], h0 and c0 [L*D, N, .] (c0 None unless an LSTM), lengths [N] or None."""

    x: np.ndarray
    h0: np.ndarray
    c0: np.ndarray | None
    lengths: np.ndarray | None


def inputs_of(
    spec: RNNSpec, batch: int, steps: int = T, seed: int = 1, lengths: bool = False, dtype: str = "float32"
) -> Inputs:
    """Inputs and non-zero states; lengths unsorted, with 0 and T among them where the batch is large enough."""
    rng = np.random.default_rng([seed, batch, steps])
    states = spec.num_layers * spec.num_directions
    some = rng.permutation([0, steps, *rng.integers(1, steps, max(batch - 2, 0))])[:batch] if lengths else None
    return Inputs(
        rng.standard_normal((steps, batch, spec.input_size)).astype(dtype),
        rng.uniform(-0.9, 0.9, (states, batch, spec.state_size)).astype(dtype),
        rng.uniform(-0.9, 0.9, (states, batch, spec.hidden_size)).astype(dtype) if spec.has_cell_state else None,
        some,
    )


def all_specs(layers: tuple[int, ...] = (1, 2, 3)) -> list[tuple[str, RNNSpec]]:
    """Every cell x layers x direction x bias form, with a name for each."""
    return [
        (f"{cell}-{count}-{direction}-{bias}", spec_of(cell, num_layers=count, direction=direction, bias=bias))
        for cell, count, direction, bias in product(CELLS, layers, DIRECTIONS, BIASES)
    ]
