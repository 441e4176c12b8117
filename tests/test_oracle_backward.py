"""The gradients' judge is judged: by finite differences of the forward oracle, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from rnnbridge.activation import CONSTANTS, Activation
from rnnbridge.proof import tolerance
from rnnbridge.reference import forward
from rnnbridge.spec import RNNSpec
from tests import oracle, oracle_backward
from tests.samples import CELLS, inputs_of, spec_of, weights_of

EPS = np.finfo(np.float64).eps
STEP = EPS ** (1 / 3)  # where the rounding error of a central difference meets its truncation error
SPECS = {
    **{cell: spec_of(cell) for cell in CELLS},
    **{f"{cell}-stack": spec_of(cell, num_layers=2, direction="bidirectional", bias="single") for cell in CELLS},
    **{f"{cell}-reverse": spec_of(cell, num_layers=2, direction="reverse", bias="none") for cell in CELLS},
    **{f"merge-{m}": spec_of("lstm", num_layers=2, direction="bidirectional", merge=m) for m in ("sum", "mul", "ave")},
    "apart": spec_of("gru_before", direction="bidirectional", merge="none"),
    "processing": spec_of("gru_after", direction="reverse", output_order="processing"),
}


def problem(spec: RNNSpec, masked: bool, steps: int = 5) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """What gradients are taken of, by name, and everything else that a run needs."""
    given, rng = inputs_of(spec, 3, steps=steps, lengths=True, dtype="float64"), np.random.default_rng(3)
    arrays = {name: array / 2 for name, array in weights_of(spec, dtype="float64").arrays.items()}
    free = {"x": given.x, "h0": given.h0, **arrays} | ({} if given.c0 is None else {"c0": given.c0})
    masks = [rng.choice([0.0, 1.25], (steps, 3, spec.output_size)) for _ in range(spec.num_layers - 1)]
    down = {"dy": (steps, 3, spec.output_size), "dhn": given.h0.shape, "dcn": given.h0.shape}
    fixed = {name: rng.standard_normal(shape) for name, shape in down.items()}
    return free, {"lengths": given.lengths, "masks": masks if masked else None, **fixed}


def loss(spec: RNNSpec, free: dict[str, np.ndarray], fixed: dict[str, object], run: object = oracle.run) -> float:
    arrays = {name: array for name, array in free.items() if name not in ("x", "h0", "c0")}
    masks = {} if fixed["masks"] is None else {"masks": fixed["masks"]}
    y, h, c = run(spec, arrays, free["x"], free["h0"], free.get("c0"), fixed["lengths"], **masks)
    total = (y * fixed["dy"]).sum() + (h * fixed["dhn"]).sum()
    return float(total if c is None else total + (c * fixed["dcn"]).sum())


def judged_by_differences(spec: RNNSpec, masked: bool, run: object = oracle.run, steps: int = 5) -> None:
    free, fixed = problem(spec, masked, steps)
    states = {"h0": free["h0"], "c0": free.get("c0")}
    arrays = {name: array for name, array in free.items() if name not in ("x", "h0", "c0")}
    got = oracle_backward.gradients(spec, arrays, free["x"], **states, **fixed)
    assert got.keys() == free.keys()
    rng = np.random.default_rng(7)
    for name, array in free.items():
        assert got[name].shape == array.shape
        for index in rng.integers(0, array.size, 5):
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved.flat[index] += sign * STEP
                ends.append(loss(spec, {**free, name: moved}, fixed, run))
            limit = 64 * STEP**2 * max(1.0, *map(abs, ends), float(np.abs(got[name]).max()))
            assert abs((ends[0] - ends[1]) / (2 * STEP) - got[name].flat[index]) <= limit, (name, index)


@pytest.mark.parametrize("masked", [False, True], ids=["", "dropout"])
@pytest.mark.parametrize("name", SPECS)
def test_the_oracle_is_the_derivative_of_the_forward_oracle(name: str, masked: bool) -> None:
    judged_by_differences(SPECS[name], masked)


@pytest.mark.parametrize("name", SPECS)
def test_its_outputs_are_the_forward_oracles(name: str) -> None:
    spec = SPECS[name]
    free, fixed = problem(spec, masked=True)
    arrays = {name: array for name, array in free.items() if name not in ("x", "h0", "c0")}
    given = free["x"], free["h0"], free.get("c0"), fixed["lengths"], fixed["masks"]
    got, wanted = oracle_backward.results(spec, arrays, *given), oracle.run(spec, arrays, *given)
    assert [output for output in "yhc" if output in got] == ["y", "h", "c"][: 2 + spec.has_cell_state]
    for output, array in zip("yhc", wanted, strict=True):
        assert array is None or tolerance.max_abs_error(got[output], array) <= 64 * EPS * np.abs(array).max()


@pytest.mark.parametrize("name", oracle_backward.ACTIVATIONS)
def test_every_activation_that_can_be_trained(name: str) -> None:
    one, bounded = Activation(name, *(0.3, 0.6)[: len(CONSTANTS[name])]), Activation("hard_sigmoid", 0.2, 0.5)
    # In few steps: an exponential that is fed back has no derivative that a difference could follow for long.
    judged_by_differences(spec_of("lstm", activations=(bounded, one, one)), False, forward, steps=2)
    judged_by_differences(spec_of("gru_before", activations=(one, bounded)), False, forward, steps=2)


def test_what_is_past_a_length_has_no_gradient() -> None:
    spec = SPECS["lstm-stack"]
    free, fixed = problem(spec, masked=True)
    states = {"h0": free["h0"], "c0": free["c0"]}
    arrays = {name: array for name, array in free.items() if name not in ("x", "h0", "c0")}
    got = oracle_backward.gradients(spec, arrays, free["x"], **states, **fixed)
    padding = np.arange(5)[:, None] >= fixed["lengths"]
    assert not got["x"][padding].any()
    empty = np.flatnonzero(fixed["lengths"] == 0)
    assert np.array_equal(got["h0"][:, empty], fixed["dhn"][:, empty])
    assert np.array_equal(got["c0"][:, empty], fixed["dcn"][:, empty])
