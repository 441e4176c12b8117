"""An argument of the wrong kind is an error in words, wherever a plan takes one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from tests.test_training_plan import Run, run_of

BLOCKS = ("packed", "workspace", "tape")
STATES = ("h0", "c0")
FORWARD = (*BLOCKS, "x", "y", *STATES, "hn", "cn", "lengths")
BACKWARD = (*BLOCKS, "x", "y", *STATES, "dy", "dhn", "dcn", "dx", "dh0", "dc0")
NO_ARRAYS = ([1.0], "a", object(), 5)
NO_GENERATIONS = (-1, 2**64, 5 + 2**64, 1.5, "a", None)
NO_FLAGS = (-1, 4, 2**32, 2**32 + 1, "a", None, 1.0)


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of()


@pytest.mark.parametrize("name", FORWARD)
def test_a_forward_takes_arrays(run: Run, name: str) -> None:
    for value in NO_ARRAYS:
        with pytest.raises(rb.ArgumentError, match=f"{name} is a {type(value).__name__}; it is a NumPy array"):
            run.forward(**{name: value})


@pytest.mark.parametrize("name", BACKWARD)
def test_a_backward_takes_arrays(run: Run, name: str) -> None:
    for value in NO_ARRAYS:
        with pytest.raises(rb.ArgumentError, match=f"{name} is a {type(value).__name__}; it is a NumPy array"):
            run.backward(**{name: value})


@pytest.mark.parametrize("name", ["packed", "workspace"])
def test_memory_that_is_left_out(run: Run, name: str) -> None:
    for call in (run.forward, run.backward):
        with pytest.raises(rb.ArgumentError, match=f"{name} is a NoneType"):
            call(**{name: None})


def test_numbers_do_not_wrap_around(run: Run) -> None:
    for generation in NO_GENERATIONS:
        for call in (run.forward, run.backward):
            with pytest.raises(rb.ArgumentError, match="generation is"):
                call(generation=generation)
    for accumulate in NO_FLAGS:
        with pytest.raises(rb.ArgumentError, match="accumulate is"):
            run.backward(accumulate=accumulate)


def test_options_and_mappings(run: Run) -> None:
    calls: dict[str, Any] = {
        "dropout is a float; it is a Dropout": lambda: run.forward(dropout=0.3),
        "dweights is a list; it is a Mapping": lambda: run.backward(dweights=[1]),
        "weights is a list; it is a Mapping": lambda: run.plan.pack([1]),
        "out is a list; it is a NumPy array": lambda: run.plan.pack(run.problem.weights.arrays, out=[1]),
        "bias_ih_l0 is a list; it is a NumPy array": lambda: run.plan.pack(
            {**run.problem.weights.arrays, "bias_ih_l0": [1.0]}
        ),
        "spec is a str; it is a RNNSpec": lambda: rb.Plan("lstm", 3, 5),
        "spec is a NoneType; it is a RNNSpec": lambda: rb.Plan(None, 3, 5),
    }
    for said, call in calls.items():
        with pytest.raises(rb.ArgumentError, match=said):
            call()


def test_what_a_layers_backward_is_asked_for() -> None:
    net = rb.LSTM(3, 5, seed=1)
    tape = net.forward(np.ones((2, 1, 3), np.float32), training=True)[2]
    for want in (5, None, ("x", 5), [None], [["x"]]):
        with pytest.raises(rb.ArgumentError, match="want "):
            net.backward(tape, want=want)
    for into in (5, "a", {}, {"x": None}):
        with pytest.raises(rb.ArgumentError, match="; it is a Gradients"):
            net.backward(tape, into=into)
