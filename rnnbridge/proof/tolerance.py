"""How far two correct runs of one layer may lie apart: computed from the layer and its input, never typed in.

Knows no file, no framework and no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rnnbridge.reference import forward
from rnnbridge.spec import RNNSpec

Array = NDArray[Any]
Outputs = dict[str, Array]

# Two correct float32 programs differ in the order of their sums, in fused multiply-adds, in their exp and tanh, and
# in one rounding of a rewritten weight. Each makes an error like plain arithmetic's, so a few times that error covers
# them; sixteen leaves room for an input on which plain arithmetic happened to be lucky.
FACTOR = 16
SHARP = 2.0**-8


def run_reference(
    spec: RNNSpec,
    arrays: Mapping[str, Array],
    x: Array,
    h0: Array | None = None,
    c0: Array | None = None,
    lengths: Array | None = None,
    dtype: DTypeLike = np.float64,
) -> Outputs:
    """The reference's outputs by name: "y" [T, N, .], "h" and, for an LSTM, "c" [L*D, N, .]."""
    y, h, c = forward(spec, arrays, x, h0, c0, lengths, dtype)
    return {"y": y, "h": h} if c is None else {"y": y, "h": h, "c": c}


class Expectation(NamedTuple):
    """What a layer gives on an input: the float64 outputs, and how far a correct float32 run may lie from each."""

    outputs: Outputs
    tolerance: dict[str, float]


def expectation(
    spec: RNNSpec,
    arrays: Mapping[str, Array],
    x: Array,
    h0: Array | None = None,
    c0: Array | None = None,
    lengths: Array | None = None,
) -> Expectation:
    """The exact outputs, and the largest absolute error that a correct float32 run of this layer may have in each.

    The tolerance is `FACTOR` times the error that plain float32 arithmetic makes on this very input, the reference in
    float32 against the reference in float64, and at least `FACTOR * eps * max|y|`. A layer that amplifies rounding is
    so given the room it needs and no other layer is.

    Args:
        spec, arrays: the layer, as in `RNNWeights`.
        x, h0, c0, lengths: the input, as `rnnbridge.reference.forward` takes it.

    Returns:
        Both by output: "y", "h" and, for an LSTM, "c".
    """
    exact = run_reference(spec, arrays, x, h0, c0, lengths)
    rough = run_reference(spec, arrays, x, h0, c0, lengths, np.float32)
    return Expectation(exact, {name: tolerance_between(exact[name], rough[name]) for name in exact})


def tolerance_between(exact: Array, rough: Array) -> float:
    """How far a correct float32 run may lie from one output, given in float64 and in plain float32."""
    eps = float(np.finfo(np.float32).eps)
    finite = np.abs(exact[np.isfinite(exact)])
    largest = float(finite.max(initial=0.0))
    error = np.abs(rough.astype(np.float64) - exact)
    return FACTOR * max(float(error[np.isfinite(error)].max(initial=0.0)), eps * largest)


def is_sharp(tolerance: float, exact: Array) -> bool:
    """Whether a tolerance can tell right from wrong: it is a small part of the largest value.

    A layer with large recurrent weights may be chaotic: it doubles a rounding error in every step until the error is as
    large as the values.
    """
    return tolerance <= SHARP * float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0))


def for_dtype(float32: float, dtype: DTypeLike) -> float:
    """The tolerance where everybody computes in `dtype`: rounding errors shrink with eps."""
    eps = float(np.finfo(np.dtype(dtype)).eps)
    return float32 * eps / float(np.finfo(np.float32).eps)


def max_abs_error(got: Array, exact: Array) -> float:
    """The largest absolute difference; NaN against NaN, and an infinity against itself, is none.

    Returns:
        inf where the shapes differ, or where one side alone is NaN or infinite.
    """
    if got.shape != exact.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        difference = np.abs(got.astype(np.float64) - exact)
    same = (got == exact) | (np.isnan(got) & np.isnan(exact))
    difference = np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf))
    return float(difference.max(initial=0.0))
