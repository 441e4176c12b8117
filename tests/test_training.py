"""Forward and all gradients against the oracle, over a generated matrix and all its corners (tests/problems.py), and
bits that may depend on nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from rnnbridge._native import build_info
from rnnbridge.activation import CONSTANTS, Activation
from tests.gradients import Arrays, Problem, by_name, differences, judge, outputs_by_name, report, same_bits
from tests.problems import choices, corners, drawn, every_pair, judgement, pairs
from tests.samples import CELLS, spec_of

DTYPES = ("float32", "float64")
MATRIX = corners() | drawn()
ENOUGH = 300


def judged(problem: Problem) -> None:
    judge(problem.results(), *judgement(problem), problem.dtype)


@pytest.mark.parametrize("name", MATRIX)
def test_matrix(name: str) -> None:
    judged(MATRIX[name])


def test_the_matrix_meets_every_pair_of_options() -> None:
    assert every_pair() == set().union(*map(pairs, choices(ENOUGH)))


def test_the_worst_element_and_where_it_is_are_said() -> None:
    problem = Problem(spec_of("lstm", num_layers=2), 7, 3)
    got, (exact, rough) = problem.results(), judgement(problem)
    got["weight_hh_l1"][7, 2] += 1
    got["x"][3, 1, 4] = np.nan
    got["h0"][1, 2, 0] += 2
    with pytest.raises(AssertionError) as caught:
        judge(got, exact, rough, "float32")
    found = re.findall(r"(\w+\[[\d, ]+\]) is (\S+), exact (\S+), allowed \S+: \S+ times too far", str(caught.value))
    assert [where for where, *_ in found] == ["x[3, 1, 4]", "h0[1, 2, 0]", "weight_hh_l1[7, 2]"]
    assert [float(value) for _, value, _ in found[1:]] == [got["h0"][1, 2, 0], got["weight_hh_l1"][7, 2]]
    assert float(found[0][2]) == exact["x"][3, 1, 4]


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx2_wide", "avx512"])
def test_matrix_on_one_instruction_set(isa: str, tmp_path: Path) -> None:
    """tests/running_matrix.py runs it in a process of its own; here it is judged."""
    usable = build_info()["isa"]["usable"]
    if isa not in usable:
        pytest.skip(f"{isa} cannot run here; usable are {', '.join(usable)}")
    command = [sys.executable, "-m", "tests.running_matrix", str(tmp_path / "results.npz")]
    run = subprocess.run(
        command, env={**os.environ, "RNNBRIDGE_ISA": isa}, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [isa]
    got: dict[str, Arrays] = {}
    with np.load(tmp_path / "results.npz") as file:
        for key in file.files:
            name, array = key.split("/")
            got.setdefault(name, {})[array] = file[key]
    assert got.keys() == MATRIX.keys()
    found = {
        f"{name} {text}": excess
        for name, problem in MATRIX.items()
        for text, excess in differences(got[name], *judgement(problem), problem.dtype).items()
    }
    assert not found, report(found)


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
            judged(
                Problem(spec_of(cell, hidden_size=17, activations=activations), 2, 3, dtype, recompute=cell == "lstm")
            )


@pytest.mark.parametrize("cell", CELLS)
def test_the_bits_depend_on_neither_threads_nor_recomputation(cell: str) -> None:
    spec = spec_of(cell, hidden_size=37, num_layers=3, direction="bidirectional")
    wanted = Problem(spec, 41, 13, lengths="zeros", dropout=0.3, threads=1).results()
    for threads, recompute in product((1, 2, 3), (False, True)):
        problem = Problem(spec, 41, 13, "float32", "zeros", 0.3, recompute, threads)
        assert same_bits(problem.results(), wanted), (threads, recompute)


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("cell", CELLS)
def test_the_bits_of_a_sequence_depend_on_no_company(cell: str, direction: str) -> None:
    spec = spec_of(cell, hidden_size=17, num_layers=2, direction=direction)
    many, few = Problem(spec, 11, 131, lengths="zeros"), Problem(spec, 11, 2, lengths="mixed")  # stretches of 4, of 11
    chosen = np.flatnonzero(many.steps())[[3, 1]]
    for name, array in many.given.items():
        few.given[name][...] = array[:, chosen]
    net = many.layer()
    results = []
    for problem, lengths in ((many, many.steps()), (few, many.steps()[chosen])):
        y, state, tape = net.forward(problem.given["x"], problem.pair("h0", "c0"), lengths, training=True)
        grads = net.backward(tape, problem.given["dy"], problem.pair("dhn", "dcn"), want=("x", "state"))
        results.append(outputs_by_name(y, state) | {k: a for k, a in by_name(grads).items() if a is not None})
    assert same_bits({name: np.ascontiguousarray(array[:, chosen]) for name, array in results[0].items()}, results[1])


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
    wanted = problem.results()
    past = np.arange(7)[:, None] >= problem.steps()
    assert not wanted["x"][past].any()
    problem.given["x"][past] = np.nan
    problem.given["dy"][past] = np.nan
    assert same_bits(problem.results(), wanted)
    none = problem.steps() == 0
    assert np.array_equal(wanted["h0"][:, none], problem.given["dhn"][:, none])


def test_infinity_and_nan_stay_in_their_sample() -> None:
    problem = Problem(spec_of("gru_before", num_layers=2, direction="bidirectional"), 7, 5)
    clean = problem.results()
    problem.given["x"][3, 2], problem.given["dy"][1, 4] = np.nan, np.inf
    dirty = problem.results()
    rest = [0, 1, 3]
    assert np.isnan(dirty["x"][:, 2]).all()
    assert not np.isfinite(dirty["h0"][:, 4]).all()
    assert np.array_equal(dirty["x"][:, rest], clean["x"][:, rest])
    assert np.isnan(dirty["weight_ih_l0"]).any()
