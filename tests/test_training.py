"""Forward and all gradients against the oracle, over a generated matrix and all its corners.

RNNBRIDGE_TRAINING_DRAWS: how many problems are drawn beyond the corners; each number draws the same ones every time.
"""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import numpy as np
import pytest

from rnnbridge.activation import CONSTANTS, Activation
from tests.gradients import Problem, by_name, judge, outputs_by_name, same_bits
from tests.samples import BIASES, CELLS, DIRECTIONS, spec_of

DRAWS = int(os.environ.get("RNNBRIDGE_TRAINING_DRAWS", "300"))
LENGTHS = ("none", "mixed", "zeros", "all zero")
MERGES = ("concat", "sum", "mul", "ave", "none")
DTYPES = ("float32", "float64")
# (T, N, I, H): one, primes, I < H, I > H, and one less and one more than the vectors and panels of every set.
SIZES = [
    (1, 1, 1, 1), (5, 1, 7, 3), (7, 3, 2, 5), (3, 2, 17, 1), (11, 3, 1, 7), (2, 5, 3, 15), (3, 7, 5, 16), (5, 2, 3, 17),
    (3, 13, 11, 8), (2, 17, 5, 31), (3, 3, 33, 32), (2, 2, 7, 33), (2, 5, 65, 63), (2, 3, 13, 64), (2, 1, 3, 65),
]  # fmt: skip


def drawn(index: int) -> Problem:
    """One problem of the matrix: every option by chance."""
    rng = np.random.default_rng([20, index])

    def pick(options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    T, N, I, H = pick(SIZES)
    layers, direction = int(rng.integers(1, 5)), pick(DIRECTIONS)
    merge = pick(MERGES[: 5 if layers == 1 else 4]) if direction == "bidirectional" else "concat"
    order = "processing" if direction == "reverse" and layers == 1 and rng.random() < 0.5 else "input"
    spec = spec_of(
        pick(list(CELLS)),
        input_size=I,
        hidden_size=H,
        num_layers=layers,
        direction=direction,
        merge=merge,
        output_order=order,
        bias=pick(BIASES),
    )
    dropout = pick([0.0, 0.0, 0.4]) if layers > 1 else 0.0
    return Problem(spec, T, N, pick(DTYPES), pick(LENGTHS), dropout, bool(rng.integers(2)), pick([1, 2, 3]))


def corners() -> dict[str, Problem]:
    """Each option on its own and in the company that broke fused kernels elsewhere."""
    found = {}
    for cell, direction, bias in product(CELLS, DIRECTIONS, BIASES):
        spec = spec_of(cell, num_layers=2, direction=direction, bias=bias)
        found[f"{cell}-{direction}-{bias}"] = Problem(spec, 5, 3, lengths="zeros", threads=2)
    for cell, lengths, recompute in product(CELLS, LENGTHS, (False, True)):
        spec = spec_of(cell, num_layers=3, direction="bidirectional")
        name = f"{cell}-{lengths}" + "-recompute" * recompute
        found[name] = Problem(spec, 7, 3, "float64", lengths, 0.3, recompute, 3)
    for cell, merge in product(CELLS, MERGES):
        spec = spec_of(cell, num_layers=1 + (merge != "none"), direction="bidirectional", merge=merge)
        found[f"{cell}-{merge}"] = Problem(spec, 5, 3, lengths="mixed")
    for cell in CELLS:
        spec = spec_of(cell, direction="reverse", output_order="processing")
        found[f"{cell}-processing"] = Problem(spec, 5, 3, lengths="mixed")
        for T, recompute in ((67, False), (131, True)):  # more steps than a chunk has
            spec = spec_of(cell, num_layers=2, direction="bidirectional")
            found[f"{cell}-long" + "-recompute" * recompute] = Problem(spec, T, 2, "float64", "mixed", 0, recompute, 2)
    for cell, direction, recompute in product(CELLS, DIRECTIONS, (False, True)):  # three stretches of 4 steps
        spec = spec_of(cell, num_layers=3, direction=direction)
        name = f"{cell}-{direction}-stretches" + "-recompute" * recompute
        found[name] = Problem(spec, 11, 131, "float64", "zeros", 0.3, recompute, 3)
    return found


CORNERS = corners()


def judged_gradients(problem: Problem) -> dict[str, np.ndarray]:
    """Judges the gradients and gives the outputs."""
    net = problem.layer()
    y, state, tape = problem.forward(net)
    grads = problem.backward(net, tape)
    judge(by_name(grads), problem.exact(), problem.exact(np.float32), problem.dtype)
    return outputs_by_name(y, state)


def judged(problem: Problem) -> None:
    outputs = judged_gradients(problem)
    exact = problem.exact_outputs()
    rough = {name: one.astype(np.float32) for name, one in exact.items()}
    judge(outputs, exact, rough, problem.dtype)


@pytest.mark.parametrize("name", CORNERS)
def test_corner(name: str) -> None:
    judged(CORNERS[name])


@pytest.mark.parametrize("index", range(DRAWS))
def test_drawn(index: int) -> None:
    judged(drawn(index))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(set(CONSTANTS) - {"silu", "gelu"}))
def test_every_activation_that_can_be_trained_in_every_slot(name: str, dtype: str) -> None:
    one, bounded = Activation(name, *(0.3, 0.6)[: len(CONSTANTS[name])]), Activation("hard_sigmoid", 0.2, 0.5)
    for cell, slots in {
        "lstm": [(one, bounded, bounded), (bounded, one, bounded), (bounded, bounded, one)],
        "gru_after": [(one, bounded), (bounded, one)],
        "gru_before": [(one, bounded), (bounded, one)],
        "rnn_tanh": [(one,)],
    }.items():
        for activations in slots:  # in two steps: an exponential that is fed back leaves the range of a float in a few
            judged_gradients(
                Problem(spec_of(cell, hidden_size=17, activations=activations), 2, 3, dtype, recompute=cell == "lstm")
            )


def results(problem: Problem, **backward: Any) -> dict[str, np.ndarray]:
    net = problem.layer()
    y, state, tape = problem.forward(net)
    return {**outputs_by_name(y, state), **by_name(problem.backward(net, tape, **backward))}


@pytest.mark.parametrize("cell", CELLS)
def test_the_bits_depend_on_neither_threads_nor_recomputation_nor_company(cell: str) -> None:
    spec = spec_of(cell, hidden_size=37, num_layers=3, direction="bidirectional")
    wanted = results(Problem(spec, 41, 13, lengths="zeros", dropout=0.3, threads=1))
    for threads, recompute in product((1, 2, 3), (False, True)):
        problem = Problem(spec, 41, 13, "float32", "zeros", 0.3, recompute, threads)
        assert same_bits(results(problem), wanted), (threads, recompute)


@pytest.mark.parametrize("cell", CELLS)
def test_a_backward_that_is_repeated_gives_the_same_bits(cell: str) -> None:
    problem = Problem(spec_of(cell, num_layers=2, direction="bidirectional"), 7, 3, lengths="mixed", dropout=0.3)
    net = problem.layer()
    _, _, tape = problem.forward(net)
    first = by_name(problem.backward(net, tape))
    problem.forward(net)
    net(problem.given["x"])
    for _ in range(3):
        assert same_bits(by_name(problem.backward(net, tape)), first)


@pytest.mark.parametrize("lengths", ["mixed", "zeros"])
@pytest.mark.parametrize("cell", CELLS)
def test_what_is_past_a_length_is_never_read_and_has_no_gradient(cell: str, lengths: str) -> None:
    problem = Problem(spec_of(cell, num_layers=2, direction="bidirectional"), 7, 5, lengths=lengths, dropout=0.3)
    wanted = results(problem)
    past = np.arange(7)[:, None] >= problem.steps()
    assert not wanted["x"][past].any()
    problem.given["x"][past] = np.nan
    problem.given["dy"][past] = np.nan
    assert same_bits(results(problem), wanted)
    none = problem.steps() == 0
    assert np.array_equal(wanted["h0"][:, none], problem.given["dhn"][:, none])


def test_infinity_and_nan_stay_in_their_sample() -> None:
    problem = Problem(spec_of("gru_before", num_layers=2, direction="bidirectional"), 7, 5)
    clean = results(problem)
    problem.given["x"][3, 2], problem.given["dy"][1, 4] = np.nan, np.inf
    dirty = results(problem)
    rest = [0, 1, 3]
    assert np.isnan(dirty["x"][:, 2]).all()
    assert not np.isfinite(dirty["h0"][:, 4]).all()
    assert np.array_equal(dirty["x"][:, rest], clean["x"][:, rest])
    assert np.isnan(dirty["weight_ih_l0"]).any()
