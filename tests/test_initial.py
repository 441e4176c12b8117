"""Weights drawn anew by the name of the scheme, against the formulas and against the frameworks they are named for."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.gates import split_gates
from rnnbridge.layers.initial import INITIALISATIONS, drawn
from tests.samples import CELLS, spec_of

I, H = 23, 67
EPS = float(np.finfo(np.float64).eps)


def arrays_of(cell: str, init: str, **changes: object) -> dict[str, np.ndarray]:
    spec = spec_of(cell, **{"input_size": I, "hidden_size": H, "num_layers": 2, **changes})
    return dict(drawn(spec, init, 3, "float64").arrays)


def is_uniform(array: np.ndarray, bound: float) -> bool:
    """Within the bound and filling it: each quarter of the range has its share, give or take five standard errors."""
    shares = np.histogram(array, bins=4, range=(-bound, bound))[0] / array.size
    return bool(np.abs(array).max() <= bound and np.abs(shares - 0.25).max() <= 5 * math.sqrt(3 / 16 / array.size))


def is_orthonormal(array: np.ndarray) -> bool:
    """Whether the columns are."""
    return bool(np.abs(array.T @ array - np.eye(array.shape[1])).max() <= 16 * EPS * math.sqrt(array.shape[0]))


@pytest.mark.parametrize("cell", CELLS)
def test_pytorchs(cell: str) -> None:
    assert all(is_uniform(array, 1 / math.sqrt(H)) for array in arrays_of(cell, "pytorch").values())


@pytest.mark.parametrize("bias", ["none", "single", "double"])
@pytest.mark.parametrize("cell", CELLS)
def test_kerass(cell: str, bias: str) -> None:
    for name, array in arrays_of(cell, "keras", bias=bias).items():
        if name.startswith("weight_ih"):
            assert is_uniform(array, math.sqrt(6 / (array.shape[0] + array.shape[1])))
        elif name.startswith("weight_hh"):
            assert is_orthonormal(array)
        else:
            for gate, rows in split_gates(array, name, spec_of(cell).cell).items():
                ones = cell == "lstm" and gate == "f" and name.startswith("bias_ih")
                assert np.array_equal(rows, np.full(H, float(ones)))


@pytest.mark.parametrize("cell", CELLS)
def test_each_gates_recurrent_matrix_is_orthogonal(cell: str) -> None:
    for name, array in arrays_of(cell, "orthogonal").items():
        if name.startswith("weight_hh"):
            gates = list(split_gates(array, name, spec_of(cell).cell).values())
            assert all(is_orthonormal(rows) for rows in gates)
            assert len({rows.tobytes() for rows in gates}) == len(gates)
        else:
            assert is_uniform(array, 1 / math.sqrt(H))


def test_keras_itself_draws_the_same_way() -> None:
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    layer = keras.layers.LSTM(H)
    layer.build((None, None, I))
    kernel, recurrent, bias = (np.asarray(array, np.float64) for array in layer.get_weights())
    assert is_uniform(kernel, math.sqrt(6 / (I + 4 * H)))
    assert np.abs(recurrent @ recurrent.T - np.eye(H)).max() <= 1e-5
    ours = arrays_of("lstm", "keras", bias="single", num_layers=1)["bias_ih_l0"]
    assert np.array_equal(bias, ours)


@pytest.mark.parametrize("init", INITIALISATIONS)
def test_the_constructors_take_the_name_and_the_seed(init: str) -> None:
    for make in (
        lambda **options: rb.LSTM(5, 7, **options),
        lambda **options: rb.GRU(5, 7, reset="before", **options),
        lambda **options: rb.RNN(5, 7, activation="relu", **options),
    ):
        one, same, other = (make(init=init, seed=seed) for seed in (1, 1, 2))
        for name, array in one.weights.items():
            assert np.array_equal(array, same.weights[name])
        assert not np.array_equal(one.weights["weight_hh_l0"], other.weights["weight_hh_l0"])


def test_an_unknown_name() -> None:
    with pytest.raises(rb.ArgumentError, match="init is 'xavier'; it is 'pytorch', 'keras', 'orthogonal'"):
        rb.LSTM(5, 7, init="xavier")
