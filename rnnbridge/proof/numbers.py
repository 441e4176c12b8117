"""The weights of two layers compared number by number: what running them cannot show, a dead unit say, shows here.

Knows canonical weights; runs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.gates import change_gates, scale_gates
from rnnbridge.proof.report import Measurement
from rnnbridge.proof.tolerance import max_abs_error
from rnnbridge.spec import ACTIVATION_SLOTS, GATES, RNNSpec
from rnnbridge.weights import RNNWeights

Arrays = dict[str, NDArray[Any]]
# A number may have been rounded once on its way, by a rewrite, and once more when it was read back.
_ROUNDINGS = 2


def compare_weights(layer: str, source: RNNWeights, target: RNNWeights) -> Measurement | None:
    """The largest difference of two layers' numbers, relative to the largest number of the same array.

    Both are brought to one form first: biases that are added are added up, a coupled gate is written out, a hard
    sigmoid has slope 1. None where they still have different arrays, as after another kind of rewrite.
    """
    one, other = _common_form(source), _common_form(target)
    if one.keys() != other.keys() or any(one[name].shape != other[name].shape for name in one):
        return None
    error = max((_relative(one[name], other[name]) for name in one), default=0.0)
    eps = max(float(np.finfo(weights.dtype).eps) for weights in (source, target))
    return Measurement(layer, "weights", "target", "number by number", error, _ROUNDINGS * eps)


def _common_form(weights: RNNWeights) -> Arrays:
    spec = weights.spec
    arrays = {name: array.astype(np.float64) for name, array in weights.arrays.items()}
    for _, _, suffix in spec.positions():
        arrays |= _summed_biases(spec, arrays, suffix)
    if spec.coupled:
        off, on = spec.coupled[0], spec.coupled[-1]
        arrays = {name: change_gates(a, name, spec.cell, {off: lambda g: -g[on]}) for name, a in arrays.items()}
    return {name: _unit_slope(spec, name, array) for name, array in arrays.items()}


def _summed_biases(spec: RNNSpec, arrays: Arrays, suffix: str) -> Arrays:
    """bias_ih with what acts on the same sum added; bias_hh with what does not, the n gate of a reset-after GRU."""
    zero = np.zeros(len(spec.gates) * spec.hidden_size)
    inputs, hidden = (arrays.get(f"{name}{suffix}", zero) for name in ("bias_ih", "bias_hh"))
    apart = np.zeros(len(spec.gates), bool)
    if spec.reset == "after":
        apart[GATES["gru"].index("n")] = True
    apart = np.repeat(apart, spec.hidden_size)
    return {
        f"bias_ih{suffix}": np.where(apart, inputs, inputs + hidden),
        f"bias_hh{suffix}": np.where(apart, hidden, 0),
    }


def _unit_slope(spec: RNNSpec, name: str, array: NDArray[Any]) -> NDArray[Any]:
    slopes = {
        gate: float(activation.alpha or 1)
        for activation, gates in zip(spec.activations, ACTIVATION_SLOTS[spec.cell], strict=True)
        for gate in gates
        if activation.name == "hard_sigmoid"
    }
    return scale_gates(array, name, spec.cell, slopes)


def _relative(one: NDArray[Any], other: NDArray[Any]) -> float:
    finite = np.abs(one[np.isfinite(one)])
    return max_abs_error(one, other) / (float(finite.max(initial=0.0)) or 1.0)
