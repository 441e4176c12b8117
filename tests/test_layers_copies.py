"""Layers through pickle and copy: the same numbers and options, in memory of their own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.layers import Layer
from rnnbridge.weights import Origin, RNNWeights
from tests.running import I, equal, x_of
from tests.samples import CELLS, spec_of, weights_of

COPIES: dict[str, Callable[[Layer], Layer]] = {
    **{f"pickle {n}": lambda net, n=n: pickle.loads(pickle.dumps(net, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
LAYERS: dict[str, Callable[[], Layer]] = {
    "LSTM": lambda: rb.LSTM(I, 17, 2, bidirectional=True, dropout=0.3, dtype="float64", batch_first=True),
    "GRU": lambda: rb.GRU(I, 17, reset="before", bias="single"),
    "RNN": lambda: rb.RNN(I, 17, activation="leaky_relu(0.1)"),
    **{cell: lambda cell=cell: rb.layer(weights_of(spec_of(cell, num_layers=2))) for cell in CELLS},
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", LAYERS)
def test_a_copy_is_the_same_layer(name: str, how: str) -> None:
    net = LAYERS[name]()
    twin = COPIES[how](net)
    assert type(twin) is type(net)
    assert (repr(twin), twin.spec, twin.origin, twin.dropout) == (repr(net), net.spec, net.origin, net.dropout)
    x = x_of(dtype=net.dtype.name)
    (y, state), (same, final) = net(x), twin(x)
    assert equal(same, y)
    assert equal(final, state)


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_owns_its_weights(how: str) -> None:
    net = LAYERS["LSTM"]()
    before, x = COPIES[how](net), x_of(dtype="float64")
    y = net(x)[0]
    net.weights["bias_hh_l0"][2] += 0.5
    assert equal(before(x)[0], y)
    assert not equal(net(x)[0], y)
    assert equal(COPIES[how](net)(x)[0], net(x)[0])


@pytest.mark.parametrize("how", COPIES)
def test_a_frozen_layer_stays_frozen_and_its_origin_stays_known(how: str) -> None:
    weights = weights_of(spec_of("gru_after"))
    origin = Origin(framework="keras", name="rnn_1", storage_dtype="float16")
    net = rb.layer(RNNWeights(weights.spec, weights.arrays, origin))
    net.freeze()
    twin = COPIES[how](net)
    assert twin.frozen
    assert twin.origin == origin
    assert not np.shares_memory(twin.weights["weight_hh_l0"], net.weights["weight_hh_l0"])
    with pytest.raises(ValueError, match="read-only"):
        twin.weights["bias_hh_l0"][2] = 0
