"""Weights are compared number by number too: what no run shows is a difference, and what a rewrite does is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.numbers import compare_weights
from rnnbridge.weights import RNNWeights
from tests.samples import CELLS, spec_of, weights_of


def changed(weights: RNNWeights, name: str, index: tuple[int, ...], by: float) -> RNNWeights:
    arrays = {key: array.copy() for key, array in weights.arrays.items()}
    arrays[name][index] += by
    return RNNWeights(weights.spec, arrays)


def dead_relu() -> RNNWeights:
    weights = weights_of(spec_of("rnn_relu"))
    return changed(weights, "bias_ih_l0", (2,), -50.0)


@pytest.mark.parametrize(
    ("weights", "name", "index", "by"),
    [
        (dead_relu(), "weight_ih_l0", (2, 1), 5.0),
        (RNNWeights(spec_of("lstm"), {k: a * 100 for k, a in weights_of(spec_of("lstm")).arrays.items()}),
         "weight_hh_l0", (2, 1), 1.0),
        (RNNWeights(spec_of("lstm", num_layers=5),
                    {k: a / 20 for k, a in weights_of(spec_of("lstm", num_layers=5)).arrays.items()}),
         "weight_ih_l1", (2, 2), 1e-3),
    ],
    ids=["a dead unit", "a saturated layer", "small weights far below the output"],
)  # fmt: skip
def test_a_number_that_no_run_shows_is_a_difference(
    weights: RNNWeights, name: str, index: tuple[int, ...], by: float, tmp_path: Path
) -> None:
    rb.save(weights, tmp_path / "a.npz")
    rb.save(changed(weights, name, index, by), tmp_path / "b.npz")
    assert rb.verify(tmp_path / "a.npz", tmp_path / "a.npz")
    report = rb.verify(tmp_path / "a.npz", tmp_path / "b.npz")
    assert not report
    assert any(one.output == "weights" for one in report.failures)


def rewritten(cell: str, **changes: Any) -> tuple[RNNWeights, RNNWeights]:
    """A layer with two biases, and the same with all that can be in bias_ih."""
    weights = weights_of(spec_of(cell, **changes))
    spec, arrays = weights.spec, {name: array.copy() for name, array in weights.arrays.items()}
    for _, _, suffix in spec.positions():
        hidden = arrays[f"bias_hh{suffix}"]
        moved = hidden.copy()
        if spec.reset == "after":
            moved[2 * spec.hidden_size :] = 0
        arrays[f"bias_ih{suffix}"] += moved
        arrays[f"bias_hh{suffix}"] = hidden - moved
    return weights, RNNWeights(spec, arrays)


@pytest.mark.parametrize("cell", CELLS)
def test_biases_that_are_added_are_compared_as_their_sum(cell: str) -> None:
    one, other = rewritten(cell, direction="bidirectional", num_layers=2)
    found = compare_weights("rnn", one, other)
    assert found is not None
    assert found.ok
    wrong = changed(other, "bias_hh_l1_reverse", (other.spec.hidden_size * len(other.spec.gates) - 1,), 1e-3)
    found = compare_weights("rnn", one, wrong)
    assert found is not None
    assert not found.ok


def test_the_two_biases_of_a_candidate_behind_the_reset_gate_are_not_one() -> None:
    weights = weights_of(spec_of("gru_after"))
    moved = changed(changed(weights, "bias_ih_l0", (7,), 0.25), "bias_hh_l0", (7,), -0.25)
    found = compare_weights("rnn", weights, moved)
    assert found is not None
    assert not found.ok


def test_rescaled_and_uncoupled_layers_have_the_same_numbers() -> None:
    scaled = {}
    weights = weights_of(spec_of("lstm", activations=("hard_sigmoid(0.2, 0.5)", "tanh", "tanh")))
    for name, array in weights.arrays.items():
        rows = array.reshape(4, -1).astype(np.float64)
        scaled[name] = (rows * np.array([[1.2], [1.2], [1.0], [1.2]])).reshape(array.shape).astype(np.float32)
    other = RNNWeights(weights.spec.replace(activations=(f"hard_sigmoid({1 / 6!r}, 0.5)", "tanh", "tanh")), scaled)
    found = compare_weights("rnn", weights, other)
    assert found is not None
    assert found.ok
    coupled = weights_of(spec_of("lstm", coupled="f=1-i"))
    full = {name: array.reshape(4, -1).copy() for name, array in coupled.arrays.items()}
    for array in full.values():
        array[1] = -array[0]
    shaped = {name: array.reshape(coupled.arrays[name].shape) for name, array in full.items()}
    found = compare_weights("rnn", coupled, RNNWeights(coupled.spec.replace(coupled=None), shaped))
    assert found is not None
    assert found.ok


def test_a_layer_beyond_the_other_file_is_a_difference_unless_pairs_are_chosen(tmp_path: Path) -> None:
    both = rb.Bundle({"one": weights_of(spec_of("lstm")), "two": weights_of(spec_of("gru_after"))})
    rb.save(both, tmp_path / "both.npz")
    rb.save(rb.Bundle({"one": both["one"]}), tmp_path / "one.npz")
    for pair in (("both.npz", "one.npz"), ("one.npz", "both.npz")):
        report = rb.verify(*(tmp_path / name for name in pair))
        assert not report
        assert "no partner for two" in report.summary
    assert rb.verify(tmp_path / "both.npz", tmp_path / "one.npz", map={"one": "one"})
