"""Weights drawn anew, by the name of the scheme."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rnnbridge.engine.arguments import whole
from rnnbridge.errors import ArgumentError
from rnnbridge.gates import split_gates
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights, float_dtype

Array = NDArray[np.float64]
Arrays = dict[str, Array]


def drawn(spec: RNNSpec, init: str, seed: int | None, dtype: DTypeLike) -> RNNWeights:
    """New weights.

    Args:
        init: a name of `INITIALISATIONS`.
        seed: the same numbers for the same seed, in either dtype; None draws others each time.

    Raises:
        ArgumentError: an unknown name or dtype.
    """
    kind = float_dtype(dtype)
    if init not in INITIALISATIONS:
        raise ArgumentError(f"init is {init!r}; it is {', '.join(map(repr, INITIALISATIONS))}")
    generator = np.random.default_rng(None if seed is None else whole("seed", seed, least=0, most=2**64 - 1))
    arrays = INITIALISATIONS[init](spec, generator)
    return RNNWeights(spec, {name: array.astype(kind) for name, array in arrays.items()})


def _pytorch(spec: RNNSpec, generator: np.random.Generator) -> Arrays:
    """U(-1/sqrt(H), 1/sqrt(H)) for everything (torch/nn/modules/rnn.py, RNNBase.reset_parameters)."""
    bound = 1 / math.sqrt(spec.hidden_size)
    return {name: generator.uniform(-bound, bound, shape) for name, shape in spec.weight_shapes().items()}


def _keras(spec: RNNSpec, generator: np.random.Generator) -> Arrays:
    """Glorot-uniform kernels, one orthogonal recurrent kernel [H, G*H], zero biases, and one for an LSTM's forget bias
    (keras/src/layers/rnn/lstm.py: unit_forget_bias; initializers/random_initializers.py)."""
    arrays = {}
    for name, shape in spec.weight_shapes().items():
        if name.startswith("weight_ih"):
            bound = math.sqrt(6 / sum(shape))
            arrays[name] = generator.uniform(-bound, bound, shape)
        else:
            arrays[name] = _orthogonal(shape, generator) if name.startswith("weight_hh") else np.zeros(shape)
        if name.startswith("bias_ih") and spec.cell == "lstm":
            split_gates(arrays[name], name, spec.cell)["f"][...] = 1
    return arrays


def _orthogonal_recurrent(spec: RNNSpec, generator: np.random.Generator) -> Arrays:
    """PyTorch's, but each gate's recurrent matrix [H, H] is orthogonal (Saxe et al. 2013)."""
    arrays = _pytorch(spec, generator)
    for name, array in arrays.items():
        if name.startswith("weight_hh"):
            for rows in split_gates(array, name, spec.cell).values():
                rows[...] = _orthogonal(rows.shape, generator)
    return arrays


def _orthogonal(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Orthonormal columns, all such matrices equally likely: the signs of R make the factorisation unique."""
    q, r = np.linalg.qr(generator.standard_normal(shape))
    return q * np.sign(np.diag(r))


INITIALISATIONS: dict[str, Callable[[RNNSpec, np.random.Generator], Arrays]] = {
    "pytorch": _pytorch,
    "keras": _keras,
    "orthogonal": _orthogonal_recurrent,
}
