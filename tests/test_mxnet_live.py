"""gluon's layers in memory: read, made and filled, with MXNet's own numbers. Needs MXNet 1.9.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import JudgeTask, Settings
from rnnbridge.converters.mxnet_judge import run_layer
from rnnbridge.proof.tolerance import expectation
from tests.samples import inputs_of, spec_of, weights_of

mx = pytest.importorskip("mxnet", reason="MXNet is not installed; it needs an environment of its own (numpy 1.23)")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LAYERS: list[tuple[str, dict[str, Any]]] = [
    ("lstm", {}),
    ("lstm", {"num_layers": 3, "direction": "bidirectional"}),
    ("lstm", {"num_layers": 2, "proj_size": 2}),
    ("gru_after", {"num_layers": 2, "direction": "bidirectional"}),
    ("rnn_tanh", {"num_layers": 2}),
    ("rnn_relu", {"direction": "bidirectional"}),
]


def answer(layer: Any, x: np.ndarray, states: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """y and the final states of a layer [T, N, .] or a cell."""
    given = [mx.nd.array(state) for state in states]
    if isinstance(layer, mx.gluon.rnn.RecurrentCell):
        y, final = layer.unroll(len(x), mx.nd.array(x), [s[0] for s in given], layout="TNC", merge_outputs=True)
        return y.asnumpy(), [state.asnumpy()[None] for state in final]
    y, final = layer(mx.nd.array(x), given)
    return y.asnumpy(), [state.asnumpy() for state in final]


def assert_same_numbers(weights: rb.RNNWeights, layer: Any) -> None:
    for batch in (1, 3):
        given = inputs_of(weights.spec, batch)
        exact, allowed = expectation(weights.spec, weights.arrays, given.x, given.h0, given.c0)
        y, final = answer(layer, given.x, [state for state in (given.h0, given.c0) if state is not None])
        assert np.abs(exact["y"] - y).max() <= allowed["y"]
        for name, state in zip("hc", final, strict=False):
            assert np.abs(exact[name] - state).max() <= allowed[name]


@pytest.mark.parametrize(("cell", "changes"), LAYERS)
def test_a_layer_is_made_and_read_back(cell: str, changes: dict[str, Any]) -> None:
    weights = weights_of(spec_of(cell, **changes))
    layer = rb.to_framework(weights, "mxnet")
    assert_same_numbers(weights, layer)
    again = rb.from_framework(layer)
    assert again == weights
    assert again.origin.batch_first is False
    assert rb.from_framework(rb.to_framework(weights, "mxnet", batch_first=True)).origin.batch_first is True


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell", "LSTMPCell"])
def test_a_cell_is_read_and_filled(kind: str) -> None:
    home = mx.gluon.contrib.rnn if kind == "LSTMPCell" else mx.gluon.rnn
    sizes = (3, 2) if kind == "LSTMPCell" else (3,)
    cell, other = (getattr(home, kind)(*sizes, input_size=5) for _ in range(2))
    for one in (cell, other):
        one.initialize(mx.init.Uniform(0.7))
    weights = rb.from_framework(cell)
    assert weights.origin.convention == f"mxnet.{kind}"
    assert_same_numbers(weights, cell)
    assert rb.from_framework(other) != weights
    assert rb.from_framework(rb.to_framework(weights, "mxnet", into=other)) == weights
    assert type(rb.to_framework(weights, "mxnet")) is type(cell)


@pytest.mark.parametrize(("cell", "changes"), LAYERS)
def test_mxnet_judges_what_is_written(cell: str, changes: dict[str, Any], tmp_path: Path) -> None:
    weights = weights_of(spec_of(cell, **changes))
    written = rb.save(rb.Bundle({"encoder": weights}), tmp_path / "a.params")
    settings = Settings(written.layers[0].settings)
    read = rb.load(tmp_path / "a.params", settings=settings)["encoder"]
    given = inputs_of(weights.spec, 3)
    sample = (given.x, given.h0, given.c0)
    theirs = run_layer(JudgeTask(tmp_path / "a.params", "encoder", settings, read, *sample, None))
    exact, allowed = expectation(weights.spec, weights.arrays, *sample)
    assert theirs.keys() == allowed.keys()
    assert all(np.abs(exact[name] - array).max() <= allowed[name] for name, array in theirs.items())
    with pytest.raises(rb.Incompatible):
        run_layer(JudgeTask(tmp_path / "a.params", "encoder", settings, read, *sample, np.array([7, 3, 0])))


def test_what_cannot_be_read_or_filled_says_why() -> None:
    lstm = mx.gluon.rnn.LSTM
    clipped = lstm(3, input_size=5, state_clip_min=-1, state_clip_max=1)
    clipped.initialize()
    hard = mx.gluon.rnn.LSTMCell(3, input_size=5, recurrent_activation="relu")
    hard.initialize()
    for layer, reason in ((lstm(3), "no values yet"), (clipped, "clips"), (hard, "recurrent activation is relu")):
        with pytest.raises(rb.Incompatible) as caught:
            rb.from_framework(layer)
        assert any(reason in one for one in caught.value.reasons)
    target = lstm(7, input_size=5)
    target.initialize()
    with pytest.raises(rb.Incompatible) as caught:
        rb.to_framework(weights_of(spec_of("lstm")), "mxnet", into=target)
    assert any("l0_h2h_weight is (28, 7) there and (12, 3) here" in one for one in caught.value.reasons)
