"""What the benchmark checks everybody against, judged by the oracle; and the arithmetic that it credits."""

from __future__ import annotations

import numpy as np
import pytest

from rnnbridge.bench.cases import CELLS, Case
from rnnbridge.bench.problem import Problem, problem_of
from rnnbridge.bench.truth import truth
from tests import oracle_backward


def case_of(cell: str, **changes: object) -> Case:
    return Case(**{"cell": cell, "T": 7, "N": 3, "I": 5, "H": 2, "mode": "training", **changes})  # type: ignore[arg-type]


def by_the_oracle(problem: Problem) -> dict[str, np.ndarray]:
    spec, N = problem.case.spec, problem.case.N
    zeros = np.zeros((spec.num_layers * spec.num_directions, N, spec.hidden_size))
    found = oracle_backward.results(
        spec, problem.weights, problem.x, zeros, zeros, lengths=problem.lengths, dy=problem.dy
    )
    named = {"x": "dx", **{name: f"d{name}" for name in problem.weights}}
    return {named.get(name, name): array for name, array in found.items() if name not in ("h0", "c0")}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "changes",
    [{}, {"N": 1}, {"layers": 2}, {"bidirectional": True, "layers": 3}, {"bidirectional": True, "lengths": "uniform"}],
    ids=["plain", "batch 1", "two layers", "bidirectional stack", "lengths"],
)
def test_outputs_and_gradients_are_the_oracles(cell: str, changes: dict[str, object]) -> None:
    problem = problem_of(case_of(cell, **changes))
    wanted, found = by_the_oracle(problem), truth(problem)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        room = 64 * problem.case.T * np.finfo(np.float64).eps * (1 + np.abs(array).max())
        np.testing.assert_allclose(found[name], array, rtol=0, atol=room, err_msg=name)


def test_plain_arithmetic_stays_plain() -> None:
    assert all(array.dtype == np.float32 for array in truth(problem_of(case_of("gru-before")), np.float32).values())


def test_the_numbers_do_not_depend_on_mode_and_threads() -> None:
    one, other = (problem_of(case_of("lstm", mode=mode, threads=n)) for mode, n in (("inference", 1), ("training", 2)))
    assert all(np.array_equal(one.weights[name], other.weights[name]) for name in one.weights)
    assert np.array_equal(one.x, other.x)


@pytest.mark.parametrize("lengths", ["uniform", "heavy"])
def test_lengths_are_in_range_and_one_is_full(lengths: str) -> None:
    steps = case_of("lstm", T=128, N=31, lengths=lengths).steps()
    assert steps is not None
    assert steps.max() == 128
    assert steps.min() >= 1
    assert steps.mean() < 100


def test_operations_are_those_of_the_products() -> None:
    # 2 (multiply and add) x 3 gates x H x (I + H) x rows; the upper layer reads both directions
    rows, gates = 7 * 3, 3 * 2
    assert case_of("gru", mode="inference").operations() == 2 * gates * (5 + 2) * rows
    two = case_of("gru", mode="inference", layers=2, bidirectional=True)
    assert two.operations() == 2 * 2 * gates * ((5 + 2) + (4 + 2)) * rows
    assert case_of("gru").operations() == 3 * case_of("gru", mode="inference").operations()
    short = case_of("gru", mode="inference", lengths="uniform")
    assert short.operations() == 2 * gates * (5 + 2) * int(short.steps().sum())
