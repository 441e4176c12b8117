"""Numbers below the normal ones count as zero in a call, and are what they were outside of it."""

from __future__ import annotations

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge import RNNWeights
from tests.samples import spec_of, weights_of

T, N, I, H = 11, 13, 1, 1


def ones(dtype: str) -> rb.layers.Layer:
    """A relu cell that adds x to h."""
    spec = spec_of("rnn_relu", input_size=I, hidden_size=H, bias="none")
    return rb.layer(
        RNNWeights(spec, {name: np.ones_like(array) for name, array in weights_of(spec, dtype=dtype).arrays.items()})
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_denormals_count_as_zero(dtype: str, threads: int) -> None:
    net, smallest = ones(dtype), np.finfo(dtype).tiny
    for value, wanted in ((smallest / 2, 0), (smallest, smallest)):
        x = np.zeros((T, N, I), dtype)
        x[0] = value
        y, _, tape = net.forward(x, training=True, threads=threads)
        assert np.array_equal(y, np.full((T, N, H), wanted, dtype))
        x[0] = 1
        tape = net.forward(x, training=True, threads=threads)[2]
        dy = np.zeros((T, N, H), dtype)
        dy[-1] = value
        assert np.array_equal(net.backward(tape, dy, threads=threads).x, np.full((T, N, I), wanted, dtype))


def test_the_callers_own_arithmetic_has_them() -> None:
    half = np.full(3, np.finfo("float32").tiny / 2, "float32")
    net = ones("float32")
    tape = net.forward(np.ones((T, N, I), "float32"), training=True, threads=2)[2]
    net.backward(tape, np.ones((T, N, H), "float32"), threads=2)
    assert (half * np.float32(1) != 0).all()


def test_infinity_and_nan_are_not_touched() -> None:
    x = np.ones((T, 3, I), "float32")
    x[4, 0], x[4, 1] = np.inf, np.nan
    y = ones("float32")(x)[0]
    assert np.isinf(y[4:, 0]).all()
    assert np.isnan(y[4:, 1]).all()
    assert np.isfinite(y[:, 2]).all()
    assert np.isfinite(y[:4]).all()
