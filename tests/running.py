"""Layers of the engine and what goes into them, small enough to run by the hundred, and comparing bits."""

from __future__ import annotations

from typing import Any

import numpy as np

import rnnbridge as rb
from rnnbridge.layers import Layer
from rnnbridge.weights import RNNWeights
from tests.samples import inputs_of, spec_of, weights_of

T, N, I, H = 7, 3, 5, 17


def layer_of(cell: str = "lstm", batch_first: bool = False, dtype: str = "float32", **changes: Any) -> Layer:
    spec = spec_of(cell, hidden_size=H, **changes)
    arrays = {name: array / 4 for name, array in weights_of(spec, dtype=dtype).arrays.items()}
    return rb.layer(RNNWeights(spec, arrays), batch_first=batch_first)


def state_of(net: Layer, batch: int = N) -> Any:
    given = inputs_of(net.spec, batch, dtype=net.dtype.name)
    return given.h0 if given.c0 is None else (given.h0, given.c0)


def x_of(batch: int = N, dtype: str = "float32") -> np.ndarray:
    return inputs_of(spec_of("lstm"), batch, T, dtype=dtype).x


def parts(state: Any) -> tuple[np.ndarray, ...]:
    return state if isinstance(state, tuple) else (state,)


def equal(one: Any, other: Any) -> bool:
    pairs = zip(parts(one), parts(other), strict=True)
    return all(a.shape == b.shape and np.array_equal(a, b, equal_nan=True) for a, b in pairs)
