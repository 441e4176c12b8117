"""The engine's numbers against the oracle and the reference, and its bits against themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.activation import CONSTANTS, Activation
from rnnbridge.proof.tolerance import expectation, for_dtype, max_abs_error, run_reference
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights
from tests import oracle
from tests.samples import CELLS, DIRECTIONS, Inputs, all_specs, inputs_of, spec_of, weights_of

MERGES = ("sum", "mul", "ave", "none")
SPECS = [
    *all_specs(),
    *((f"merge-{m}", spec_of("gru_after", direction="bidirectional", merge=m)) for m in MERGES),
    *((f"stacked-{m}", spec_of("lstm", direction="bidirectional", merge=m, num_layers=2)) for m in MERGES[:3]),
    *((f"processing-{c}", spec_of(c, direction="reverse", output_order="processing")) for c in CELLS),
]
DTYPES = ("float32", "float64")


def outputs(net: rb.layers.Layer, given: Inputs, **options: Any) -> dict[str, np.ndarray]:
    """y, h and, for an LSTM, c of one call that starts from the given states."""
    state = given.h0 if given.c0 is None else (given.h0, given.c0)
    y, final = net(given.x, state, given.lengths, **options)
    joined = np.concatenate(y, axis=-1) if isinstance(y, tuple) else y
    return {"y": joined, **dict(zip("hc", final if isinstance(final, tuple) else (final,), strict=False))}


def tolerances(weights: RNNWeights, given: Inputs) -> dict[str, float]:
    allowed = expectation(weights.spec, weights.arrays, given.x, given.h0, given.c0, given.lengths).tolerance
    return {name: for_dtype(one, weights.dtype) for name, one in allowed.items()}


def judged_by_reference(weights: RNNWeights, given: Inputs) -> None:
    exact = run_reference(weights.spec, weights.arrays, given.x, given.h0, given.c0, given.lengths)
    got, allowed = outputs(rb.layer(weights), given), tolerances(weights, given)
    errors = {name: max_abs_error(got[name], exact[name]) for name in exact}
    assert all(errors[name] <= allowed[name] for name in exact), (errors, allowed)


def trained(spec: RNNSpec, dtype: str = "float32") -> RNNWeights:
    """Weights whose recurrence neither dies nor explodes at any H."""
    arrays = weights_of(spec, dtype=dtype).arrays
    return RNNWeights(spec, {name: array / math.sqrt(spec.hidden_size) for name, array in arrays.items()})


def same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name].view(np.uint8), other[name].view(np.uint8)) for name in one | other)


@pytest.mark.parametrize(("name", "spec"), SPECS, ids=[name for name, _ in SPECS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [False, True], ids=["full", "lengths"])
@pytest.mark.parametrize("batch", [1, 3])
def test_engine_is_the_oracle(name: str, spec: RNNSpec, dtype: str, lengths: bool, batch: int) -> None:
    weights = weights_of(spec, dtype=dtype)
    given = inputs_of(spec, batch, lengths=lengths, dtype=dtype)
    exact = dict(zip("yhc", oracle.run(spec, weights.arrays, given.x, given.h0, given.c0, given.lengths), strict=True))
    got, allowed = outputs(rb.layer(weights), given), tolerances(weights, given)
    for output, limit in allowed.items():
        assert max_abs_error(got[output], exact[output]) <= limit


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("batch", "hidden", "size"),
    [(1, 37, 11), (2, 17, 1), (3, 67, 71), (5, 1, 13), (7, 31, 5), (17, 41, 19), (29, 8, 3)],
)
def test_sizes_that_fill_vectors_and_tiles_and_leave_tails(
    cell: str, dtype: str, batch: int, hidden: int, size: int
) -> None:
    spec = spec_of(cell, input_size=size, hidden_size=hidden, num_layers=2, direction="bidirectional")
    judged_by_reference(trained(spec, dtype), inputs_of(spec, batch, steps=23, lengths=True, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONSTANTS)
def test_every_activation_in_every_slot(name: str, dtype: str) -> None:
    one = Activation(name, *(0.3, 0.6)[: len(CONSTANTS[name])])
    bounded = Activation("hard_sigmoid", 0.2, 0.5)
    for cell, slots in {
        "lstm": [(one, bounded, bounded), (bounded, one, bounded), (bounded, bounded, one)],
        "gru_after": [(one, bounded), (bounded, one)],
        "gru_before": [(one, bounded), (bounded, one)],
        "rnn_tanh": [(one,)],
    }.items():
        for activations in slots:
            spec = spec_of(cell, hidden_size=17, activations=activations)
            # One step from a state: an exponential that is fed back leaves the range of a float in a few.
            judged_by_reference(trained(spec, dtype), inputs_of(spec, 3, steps=1, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELLS)
def test_bits_depend_on_nothing_but_the_numbers(cell: str, direction: str, dtype: str) -> None:
    spec = spec_of(cell, hidden_size=37, num_layers=2, direction=direction)
    net = rb.layer(trained(spec, dtype))
    given = inputs_of(spec, 17, steps=11, lengths=True, dtype=dtype)
    alone = outputs(net, given, threads=1)
    assert same_bits(alone, outputs(net, given, threads=2))
    assert same_bits(alone, outputs(net, given, threads=5))
    net.freeze()
    assert same_bits(alone, outputs(net, given))
    backwards = Inputs(*(None if part is None else part[..., ::-1, :] for part in (given.x, given.h0, given.c0)), None)
    turned = outputs(net, Inputs(backwards.x, backwards.h0, backwards.c0, given.lengths[::-1]))
    assert same_bits(alone, {name: np.ascontiguousarray(part[:, ::-1]) for name, part in turned.items()})


@pytest.mark.parametrize("cell", CELLS)
def test_what_lies_past_a_length_is_never_read(cell: str) -> None:
    spec = spec_of(cell, hidden_size=17, num_layers=2, direction="bidirectional")
    given = inputs_of(spec, 5, lengths=True)
    dirty = given.x.copy()
    for n, length in enumerate(given.lengths):
        dirty[length:, n] = np.nan
    net = rb.layer(trained(spec))
    clean, got = outputs(net, given), outputs(net, Inputs(dirty, given.h0, given.c0, given.lengths))
    assert same_bits(clean, got)
    assert all((got["y"][length:, n] == 0).all() for n, length in enumerate(given.lengths))
    nothing = int(np.flatnonzero(given.lengths == 0)[0])
    assert np.array_equal(got["h"][:, nothing], given.h0[:, nothing])


@pytest.mark.parametrize("cell", CELLS)
def test_nan_and_infinity_pass_through(cell: str) -> None:
    spec = spec_of(cell, hidden_size=17)
    given = inputs_of(spec, 3)
    given.x[2, 1, 0] = np.nan
    y = outputs(rb.layer(trained(spec)), given)["y"]
    assert np.isnan(y[2:, 1]).all()
    assert np.isfinite(y[:2]).all()
    assert np.isfinite(y[:, [0, 2]]).all()
    arrays = {name: array.copy() for name, array in trained(spec).arrays.items()}
    arrays["weight_hh_l0"][...] = np.nan
    assert np.isnan(outputs(rb.layer(RNNWeights(spec, arrays)), inputs_of(spec, 3))["y"]).all()
