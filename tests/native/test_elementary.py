"""sigmoid and tanh of the fast path, in units in the last place: seen through an RNN of one step whose weights do
nothing (W = 1, U = 0, no bias), so that y = f(x)."""

from __future__ import annotations

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights

# In ulp. The polynomial adds 0.1; the rest is the roundings of its last sum, of 1 + exp or m + 2 and of the division,
# each up to one ulp of a result whose mantissa is close to 2.
LIMIT = 2.5
DTYPES = ("float32", "float64")
FUNCTIONS = ("sigmoid", "tanh")


def apply(name: str, x: np.ndarray) -> np.ndarray:
    """f(x) for x [N]; one sequence per value."""
    spec = RNNSpec(cell="rnn", input_size=1, hidden_size=1, bias="none", activations=(name,))
    arrays = {"weight_ih_l0": np.ones((1, 1), x.dtype), "weight_hh_l0": np.zeros((1, 1), x.dtype)}
    y, _ = rb.layer(RNNWeights(spec, arrays))(x.reshape(1, -1, 1))
    return np.asarray(y).ravel()


def exact(name: str, x: np.ndarray) -> np.ndarray:
    """In the widest type of NumPy, whose own error is far below an ulp of a float32 and below that of a float64."""
    wide = x.astype(np.longdouble)
    if name == "tanh":
        return np.tanh(wide)
    small = np.exp(-np.abs(wide))
    return np.where(wide >= 0, 1 / (1 + small), small / (1 + small))


def arguments(dtype: str) -> np.ndarray:
    """All magnitudes and the range where the functions bend; no result below the smallest normal number."""
    rng = np.random.default_rng(11)
    lowest = -87.0 if dtype == "float32" else -700.0
    spread = rng.choice([-1, 1], 20011) * 10.0 ** rng.uniform(-20, 0, 20011)
    return np.concatenate([spread, rng.uniform(-3, 3, 40009), rng.uniform(lowest, -lowest, 20021)]).astype(dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_error_in_ulp(name: str, dtype: str) -> None:
    if np.finfo(np.longdouble).eps >= np.finfo(dtype).eps / 64:
        pytest.skip(f"this machine's long double cannot judge {dtype}")
    x = arguments(dtype)
    wanted = exact(name, x)
    ulp = np.spacing(np.abs(wanted).astype(dtype)).astype(np.longdouble)
    errors = np.abs(apply(name, x).astype(np.longdouble) - wanted) / ulp
    assert errors.max() <= LIMIT, (x[errors.argmax()], errors.max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends_are_exact_and_nan_stays(dtype: str) -> None:
    largest = np.finfo(dtype).max
    x = np.array([np.inf, largest, -np.inf, -largest, np.nan, 0.0], dtype)
    assert np.array_equal(apply("tanh", x), np.array([1, 1, -1, -1, np.nan, 0], dtype), equal_nan=True)
    assert np.array_equal(apply("sigmoid", x), np.array([1, 1, 0, 0, np.nan, 0.5], dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sigmoid_falls_to_zero_at_both_ends_of_its_range(dtype: str) -> None:
    """Where exp(-x) leaves the range of the type nothing but 0 or a number below the smallest normal one may appear."""
    edge = -np.log(np.finfo(dtype).max)
    y = apply("sigmoid", np.linspace(edge - 3, edge + 3, 4001).astype(dtype))
    assert ((y >= 0) & (y < 32 * np.finfo(dtype).smallest_normal)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_tanh_is_odd(dtype: str) -> None:
    x = arguments(dtype)
    assert np.array_equal(apply("tanh", -x), -apply("tanh", x))
