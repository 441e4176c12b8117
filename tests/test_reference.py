"""The NumPy reference against the oracle: every cell, direction, bias form, merge, and lengths."""

from __future__ import annotations

import numpy as np
import pytest

from rnnbridge.activation import CONSTANTS, Activation
from rnnbridge.errors import ArgumentError
from rnnbridge.reference import activate, forward
from rnnbridge.spec import RNNSpec
from tests import oracle
from tests.samples import all_specs, inputs_of, spec_of, weights_of

SPECS = [
    *all_specs(),
    *((f"merge-{m}", spec_of("lstm", direction="bidirectional", merge=m)) for m in ("sum", "mul", "ave", "none")),
    ("stacked-sum", spec_of("gru_before", direction="bidirectional", merge="sum", num_layers=2)),
    ("processing", spec_of("gru_after", direction="reverse", output_order="processing")),
    ("hard", spec_of("lstm", activations=("hard_sigmoid(0.2, 0.5)", "relu", "linear"))),
]


@pytest.mark.parametrize(("name", "spec"), SPECS, ids=[name for name, _ in SPECS])
@pytest.mark.parametrize("lengths", [False, True], ids=["full", "lengths"])
@pytest.mark.parametrize("batch", [1, 3])
def test_reference_is_the_oracle(name: str, spec: RNNSpec, batch: int, lengths: bool) -> None:
    weights = weights_of(spec, dtype="float64")
    given = inputs_of(spec, batch, lengths=lengths, dtype="float64")
    y, h, c = oracle.run(spec, weights.arrays, given.x, given.h0, given.c0, given.lengths)
    got = forward(spec, weights.arrays, given.x, given.h0, given.c0, given.lengths)
    # Both add at most I + H + 3 products a step; a step multiplies an error by at most the recurrent matrix's norm.
    norm = max(np.abs(array).sum(axis=1).max() for name, array in weights.arrays.items() if "weight_hh" in name)
    bound = np.finfo(np.float64).eps * 16 * len(given.x) * max(1.0, norm) ** (2 if "relu" in name else 1)
    bound *= max(1.0, np.abs(y).max()) * spec.num_layers
    assert np.abs(got.y - y).max() <= bound
    assert np.abs(got.h - h).max() <= bound
    assert (got.c is None) == (c is None)
    assert c is None or np.abs(got.c - c).max() <= bound * max(1.0, np.abs(c).max())


def test_what_lies_past_a_length_is_never_seen() -> None:
    spec = spec_of("lstm", direction="bidirectional", num_layers=2)
    given = inputs_of(spec, 3, lengths=True)
    dirty = given.x.copy()
    for n, length in enumerate(given.lengths):
        dirty[length:, n] = np.nan
    clean = forward(spec, weights_of(spec).arrays, given.x, given.h0, given.c0, given.lengths)
    got = forward(spec, weights_of(spec).arrays, dirty, given.h0, given.c0, given.lengths)
    assert np.array_equal(clean.y, got.y)
    assert np.array_equal(clean.h, got.h)


def test_projection_peephole_clips_and_coupling_against_equations_written_out() -> None:
    """One step with everything on at once, each term by hand."""
    spec = spec_of("lstm", proj_size=2, peephole=True, clip=0.7, cell_clip=0.5, proj_clip=0.3, coupled="f=1-i")
    weights = weights_of(spec, dtype="float64")
    given = inputs_of(spec, 3, steps=1, dtype="float64")
    a = weights.arrays
    x, h, c = given.x[0], given.h0[0], given.c0[0]
    pre = x @ a["weight_ih_l0"].T + a["bias_ih_l0"] + h @ a["weight_hh_l0"].T + a["bias_hh_l0"]
    i, _, g, o = (pre[:, k * 3 : k * 3 + 3] for k in range(4))
    sigmoid = lambda v: 1 / (1 + np.exp(-np.clip(v, -0.7, 0.7)))  # noqa: E731
    i = sigmoid(i + a["peephole_l0"][0] * c)
    new_c = np.clip((1 - i) * c + i * np.tanh(np.clip(g, -0.7, 0.7)), -0.5, 0.5)
    o = sigmoid(o + a["peephole_l0"][2] * new_c)
    new_h = np.clip((o * np.tanh(new_c)) @ a["weight_hr_l0"].T, -0.3, 0.3)
    got = forward(spec, a, given.x, given.h0, given.c0)
    assert np.allclose(got.y[0], new_h, rtol=0, atol=16 * np.finfo(float).eps)
    assert np.allclose(got.c[0], new_c, rtol=0, atol=16 * np.finfo(float).eps)


VALUES = {
    "hard_sigmoid": ((0.2, 0.5), [0.0, 0.3, 0.7, 1.0]),
    "affine": ((2.0, 1.0), [-5.0, -1.0, 3.0, 7.0]),
    "leaky_relu": ((0.1,), [-0.3, -0.1, 1.0, 3.0]),
    "thresholded_relu": ((1.5,), [0.0, 0.0, 0.0, 3.0]),
    "scaled_tanh": ((2.0, 0.5), [2 * np.tanh(-1.5), 2 * np.tanh(-0.5), 2 * np.tanh(0.5), 2 * np.tanh(1.5)]),
    "elu": ((0.5,), [0.5 * (np.exp(-3) - 1), 0.5 * (np.exp(-1) - 1), 1.0, 3.0]),
    "selu": ((), [-1.6705687287671118, -1.1113307378125625, 1.0507009873554805, 3.1521029620664415]),
    "softsign": ((), [-0.75, -0.5, 0.5, 0.75]),
    "softplus": ((), [0.04858735157374196, 0.31326168751822286, 1.3132616875182228, 3.048587351573742]),
    "exponential": ((), [np.exp(-3.0), np.exp(-1.0), np.exp(1.0), np.exp(3.0)]),
    "silu": ((), [-0.14227761953270035, -0.2689414213699951, 0.7310585786300049, 2.8577223804672998]),
    "gelu": ((), [-0.00404969409489028, -0.1586552539314571, 0.8413447460685429, 2.9959503059051097]),
    "sigmoid": ((), [0.04742587317756678, 0.2689414213699951, 0.7310585786300049, 0.9525741268224334]),
    "tanh": ((), [-0.9950547536867305, -0.7615941559557649, 0.7615941559557649, 0.9950547536867305]),
    "relu": ((), [0.0, 0.0, 1.0, 3.0]),
    "linear": ((), [-3.0, -1.0, 1.0, 3.0]),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_activations_have_their_published_values(name: str) -> None:
    constants, wanted = VALUES[name]
    x = np.array([-3.0, -1.0, 1.0, 3.0])
    if name == "hard_sigmoid":
        x, wanted = np.array([-2.5, -1.0, 1.0, 2.5]), [0.0, 0.3, 0.7, 1.0]
    got = activate(Activation(name, *constants))(x)
    # The published values have 13 digits or more; erf and exp are right to a few eps.
    assert np.all(np.abs(got - wanted) <= 1e3 * np.finfo(np.float64).eps * np.maximum(1, np.abs(wanted)))
    assert np.isnan(activate(Activation(name, *constants))(np.array([np.nan]))).all()


def test_bad_calls_say_what_was_given_and_what_is_accepted() -> None:
    spec = spec_of("lstm")
    arrays = weights_of(spec).arrays
    with pytest.raises(ArgumentError, match=r"x is \[0, 1, 5\].*T at least 1"):
        forward(spec, arrays, np.zeros((0, 1, 5)))
    with pytest.raises(ArgumentError, match=r"from 0 to T = 2"):
        forward(spec, arrays, np.zeros((2, 1, 5)), lengths=np.array([3]))
    with pytest.raises(ArgumentError, match=r"h0 is \[1, 1, 4\]; it is \[1, 1, 3\]"):
        forward(spec, arrays, np.zeros((2, 1, 5)), np.zeros((1, 1, 4)))
