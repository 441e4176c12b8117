"""The sample in every `.npz` of ours: a small seeded input and what the layer makes of it, which prove the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import ArgumentError, FormatError
from rnnbridge.reference import forward
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]
_STEPS, _LENGTHS = 5, (3, 5, 0)


def sample_of(weights: RNNWeights) -> dict[str, Array]:
    """An input with non-zero states and unequal lengths, and the reference's float64 results.

    Returns:
        x [T, N, I], h0 [L*D, N, H or P], lengths [N], y [T, N, .], h; c0 and c [L*D, N, H] for an LSTM.
    """
    spec, rng = weights.spec, np.random.default_rng(0)
    batch, states = len(_LENGTHS), spec.num_layers * spec.num_directions
    given: dict[str, Array] = {
        "x": rng.standard_normal((_STEPS, batch, spec.input_size)).astype(np.float32),
        "h0": rng.uniform(-0.9, 0.9, (states, batch, spec.state_size)).astype(np.float32),
    }
    if spec.has_cell_state:
        given["c0"] = rng.uniform(-0.9, 0.9, (states, batch, spec.hidden_size)).astype(np.float32)
    given["lengths"] = np.array(_LENGTHS, np.int64)
    return {**given, **_results(weights, given)}


def check_sample(weights: RNNWeights, sample: Mapping[str, Array], where: str) -> None:
    """Run the input again and compare.

    Both runs are in float64 and differ by the order of sums alone: half of float64's digits is far more than they can
    lose, and far less than what a wrong gate, formula or array changes.

    Raises:
        FormatError: the sample is missing or of other shapes, or the results are not those in the file.
    """
    try:
        results = _results(weights, sample)
    except (KeyError, ArgumentError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"{where}: its sample cannot be run ({error}); self_check=false reads it unproven") from error
    for name, ours in results.items():
        theirs = sample.get(name)
        if theirs is None or theirs.shape != ours.shape:
            raise FormatError(f"{where}: its sample has no {name} {list(ours.shape)}")
        finite = np.abs(ours[np.isfinite(ours)])
        tolerance = np.sqrt(np.finfo(np.float64).eps) * max(1.0, finite.max(initial=0.0))
        if not np.allclose(theirs, ours, rtol=0, atol=tolerance, equal_nan=True):
            raise FormatError(
                f"{where}: its sample gives another {name} than the file says (tolerance {tolerance:.2g}): the arrays "
                "or the spec were changed after it was written; self_check=false reads it unproven"
            )


def _results(weights: RNNWeights, given: Mapping[str, Array]) -> dict[str, Array]:
    y, h, c = forward(weights.spec, weights.arrays, given["x"], given["h0"], given.get("c0"), given["lengths"])
    return {"y": y, "h": h} | ({} if c is None else {"c": c})
