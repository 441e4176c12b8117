"""Keras as judge of its own files: every kind of layer, from other states, with lengths 0..T; and what it cannot."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import Judge, JudgeTask, Settings, catalogue
from rnnbridge.proof.tolerance import expectation
from tests.samples import inputs_of

GOLDEN = Path(__file__).parent / "golden"
JUDGES = {judge.name: judge for judge in catalogue().formats["keras"].judges}
TF_KERAS = [
    "keras-1.2.2/mixed.h5", "keras-2.3.1/cudnn.h5", "keras-2.3.1/cudnn_nested.h5", "keras-2.3.1/gru.h5",
    "keras-2.3.1/cells.h5", "tf_keras-2.21.0/mixed.keras", "tf_keras-2.21.0/two_ways.weights.h5",
]  # fmt: skip
KERAS_3 = [
    "keras-3.15.1/mixed.keras", "keras-3.15.1/cells.weights.h5", "keras-3.15.1/two_ways.keras",
    "keras-3.15.1/narrow.keras", "tf_keras-2.21.0/two_ways.weights.h5",
]  # fmt: skip


def judge_named(name: str) -> Judge:
    judge = JUDGES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(judge.module, reason=f"{judge.module} is not installed, so it cannot judge")
    return judge


def task_for(path: Path, layer: str, weights: rb.RNNWeights, batch: int = 3) -> JudgeTask:
    given = inputs_of(weights.spec, batch, lengths=batch > 1)
    return JudgeTask(path, layer, Settings({}), weights, given.x, given.h0, given.c0, given.lengths)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("name", "source"), [("tf_keras", one) for one in TF_KERAS] + [("Keras 3", one) for one in KERAS_3]
)
def test_a_judge_gives_the_references_numbers(name: str, source: str, batch: int) -> None:
    judge, path = judge_named(name), GOLDEN / source
    for layer, weights in rb.load(path).layers.items():
        task = task_for(path, layer, weights, batch)
        exact, allowed = expectation(weights.spec, weights.arrays, task.x, task.h0, task.c0, task.lengths)
        got = judge.run(task)
        assert got.keys() == exact.keys()
        for output, array in exact.items():
            assert got[output].shape == array.shape
            assert np.abs(got[output] - array).max() <= allowed[output], (layer, output)


def test_a_judge_runs_the_file_and_not_what_was_read() -> None:
    judge, path = judge_named("tf_keras"), GOLDEN / "keras-2.3.1" / "cudnn.h5"
    weights = rb.load(path)["gru"]
    wrong = rb.RNNWeights(weights.spec, {name: array + 1 for name, array in weights.arrays.items()}, weights.origin)
    right, given = judge.run(task_for(path, "gru", weights)), judge.run(task_for(path, "gru", wrong))
    assert np.array_equal(right["y"], given["y"])


@pytest.mark.parametrize(("name", "source", "layer", "reason"), [
    ("Keras 3", "keras-2.3.1/cudnn.h5", "gru", "no loader for the arrays of CuDNNGRU"),
    ("Keras 3", "keras-1.2.2/mixed.h5", "lstm_backwards", "no loader for the arrays of LSTM@1"),
    ("Keras 3", "keras-2.3.1/gru.h5", "gru_after_hard_sigmoid", r"has no activation hard_sigmoid\(0.2, 0.5\)"),
    ("tf_keras", "keras-3.15.1/mixed.h5", "lstm_hard_sigmoid", "has no activation hard_sigmoid"),
])  # fmt: skip
def test_what_a_judge_cannot_run_it_says(name: str, source: str, layer: str, reason: str) -> None:
    judge, path = judge_named(name), GOLDEN / source
    with pytest.raises(rb.Incompatible, match=reason):
        judge.run(task_for(path, layer, rb.load(path)[layer]))
