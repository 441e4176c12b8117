"""The inputs that a proof runs: seeded, sized by the layer, with non-zero states. Knows no file and no framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.spec import RNNSpec

Array = NDArray[Any]
T = 7
N = 3
SHORTER = (T, 3, 1)  # for layers that amplify rounding until nothing can be told from it


@dataclass(frozen=True)
class Sample:
    """One input.

    Args:
        x: [T, N, I]. h0: [L*D, N, H or P]. c0: [L*D, N, H], None unless an LSTM. All float32, so that every
            runner gets the same numbers.
        lengths: [N], 1..T; None is T everywhere.
    """

    x: Array
    h0: Array
    c0: Array | None
    lengths: Array | None

    def valid_steps(self, spec: RNNSpec) -> Array:
        """Boolean [T, N]: the steps of y that lie within a length."""
        steps, batch = self.x.shape[:2]
        lengths = np.full(batch, steps) if self.lengths is None else self.lengths
        valid: Array = np.arange(steps)[:, None] < lengths
        return valid[::-1] if spec.output_order == "processing" else valid


def samples_for(spec: RNNSpec, seed: int, steps: int = T) -> list[Sample]:
    """N sequences without lengths, N with lengths among them 1 and T, one sequence without and one with a length.

    Args:
        steps: T of all of them.
    """
    rng = np.random.default_rng(seed)
    shorter = max(steps, 2)  # exclusive: any length below T, where there is one
    several = rng.permutation([1, steps, *rng.integers(1, shorter, N - 2)])
    one = rng.integers(1, shorter, 1)
    kinds = ((N, None), (N, several), (1, None), (1, one))
    return [_sample(spec, rng, steps, batch, lengths) for batch, lengths in kinds]


def _sample(spec: RNNSpec, rng: np.random.Generator, steps: int, batch: int, lengths: Array | None) -> Sample:
    states = spec.num_layers * spec.num_directions
    x = rng.standard_normal((steps, batch, spec.input_size))
    h0 = rng.uniform(-0.9, 0.9, (states, batch, spec.state_size))
    c0 = rng.standard_normal((states, batch, spec.hidden_size)).astype(np.float32) if spec.has_cell_state else None
    return Sample(x.astype(np.float32), h0.astype(np.float32), c0, lengths)
