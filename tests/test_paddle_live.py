"""paddle.nn's layers in memory and Paddle as the judge of files: read, made and filled, with Paddle's own numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import JudgeTask, Settings
from rnnbridge.converters.paddle_judge import run_layer
from rnnbridge.proof.tolerance import expectation
from tests.samples import inputs_of, spec_of, weights_of

paddle = pytest.importorskip("paddle", reason="PaddlePaddle is not installed; it wants an environment of its own")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Skip loading for"),
    pytest.mark.filterwarnings("ignore::paddle.utils.deprecated.VisibleDeprecationWarning"),
]
LAYERS: list[tuple[str, dict[str, Any]]] = [
    ("lstm", {}),
    ("lstm", {"num_layers": 3, "direction": "bidirectional"}),
    ("lstm", {"num_layers": 2, "proj_size": 2, "direction": "bidirectional"}),
    ("gru_after", {"num_layers": 2, "direction": "bidirectional"}),
    ("rnn_tanh", {"num_layers": 2}),
    ("rnn_relu", {"direction": "bidirectional"}),
]
each_layer = pytest.mark.parametrize(("cell", "changes"), LAYERS)


def answer(layer: Any, x: np.ndarray, states: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """y [T, N, .] and the final states of a layer or a cell."""
    is_cell = not hasattr(layer, "time_major")
    given = [paddle.to_tensor(state[0] if is_cell else state) for state in states]
    runner = paddle.nn.RNN(layer, time_major=True) if is_cell else layer
    swap = runner.time_major is False
    y, final = runner(paddle.to_tensor(x.swapaxes(0, 1) if swap else x), tuple(given) if len(given) > 1 else given[0])
    finals = [state.numpy() for state in (final if len(given) > 1 else [final])]
    return y.numpy().swapaxes(0, 1) if swap else y.numpy(), [one[None] if is_cell else one for one in finals]


def assert_same_numbers(weights: rb.RNNWeights, layer: Any) -> None:
    for batch in (1, 3):
        given = inputs_of(weights.spec, batch, dtype=str(weights.dtype))
        exact, allowed = expectation(weights.spec, weights.arrays, given.x, given.h0, given.c0)
        y, final = answer(layer, given.x, [state for state in (given.h0, given.c0) if state is not None])
        assert np.abs(exact["y"] - y).max() <= allowed["y"]
        for name, state in zip("hc", final, strict=False):
            assert np.abs(exact[name] - state).max() <= allowed[name]


@each_layer
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_layer_is_made_and_read_back(cell: str, changes: dict[str, Any], dtype: str) -> None:
    weights = weights_of(spec_of(cell, **changes), dtype=dtype)
    layer = rb.to_framework(weights, "paddle")
    assert_same_numbers(weights, layer)
    again = rb.from_framework(layer)
    assert again == weights
    assert again.origin.batch_first is True
    assert not again.origin.assumptions
    other = rb.to_framework(weights, "paddle", batch_first=False)
    assert rb.from_framework(other).origin.batch_first is False
    assert_same_numbers(weights, other)
    assert paddle.get_default_dtype() == "float32"


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "SimpleRNNCell"])
@pytest.mark.parametrize("changes", [{}, {"proj_size": 2}, {"bias_ih_attr": False}])
def test_a_cell_is_read_and_filled(kind: str, changes: dict[str, Any]) -> None:
    if "proj_size" in changes and kind != "LSTMCell":
        changes = {"bias_hh_attr": False}
    cell, other = (getattr(paddle.nn, kind)(5, 3, **changes) for _ in range(2))
    weights = rb.from_framework(cell)
    assert weights.origin.convention == f"paddle.{kind}"
    assert_same_numbers(weights, cell)
    assert rb.from_framework(other) != weights
    assert rb.from_framework(rb.to_framework(weights, "paddle", into=other)) == weights
    assert type(rb.to_framework(weights, "paddle")) is type(cell)


@each_layer
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_paddle_judges_what_is_written(cell: str, changes: dict[str, Any], dtype: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of(cell, **changes), dtype=dtype)
    written = rb.save(rb.Bundle({"encoder": weights}), tmp_path / "a.pdparams")
    settings = Settings(written.layers[0].settings)
    read = rb.load(tmp_path / "a.pdparams", settings=settings)["encoder"]
    given = inputs_of(weights.spec, 3, dtype=dtype, lengths=True)
    for lengths in (None, given.lengths):
        task = JudgeTask(tmp_path / "a.pdparams", "encoder", settings, read, given.x, given.h0, given.c0, lengths)
        if lengths is not None and weights.spec.proj_size:
            with pytest.raises(rb.Incompatible, match="projection"):
                run_layer(task)
            continue
        theirs = run_layer(task)
        exact, allowed = expectation(weights.spec, weights.arrays, given.x, given.h0, given.c0, lengths)
        assert theirs.keys() == allowed.keys()
        assert all(np.abs(exact[name] - array).max() <= allowed[name] for name, array in theirs.items())


@each_layer
def test_paddle_loads_what_is_written(cell: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """By paddle.load and set_state_dict into what the line makes: every parameter is found."""
    weights = weights_of(spec_of(cell, **changes))
    written = rb.save(weights, tmp_path / "a.pdparams")
    layer = eval(written.layers[0].constructor, {"paddle": paddle})  # the line that people paste
    missing, unexpected = layer.set_state_dict(paddle.load(str(tmp_path / "a.pdparams")))
    assert all("_l" in name for name in missing)
    assert not unexpected
    assert rb.from_framework(layer) == weights


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_what_paddle_saves_is_read(protocol: int, tmp_path: Path) -> None:
    layer = paddle.nn.GRU(5, 3, num_layers=2, direction="bidirect")
    paddle.save(layer.state_dict(), str(tmp_path / "a.pdparams"), protocol=protocol)
    assert rb.load(tmp_path / "a.pdparams")["rnn"] == rb.from_framework(layer)


def test_a_conversion_is_judged_by_paddle(tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("gru_after", num_layers=2)), tmp_path / "a.npz")
    report = rb.convert(tmp_path / "a.npz", tmp_path / "b.pdparams")
    assert report.ok
    assert any("PaddlePaddle" in str(judge) for judge in report.judges)


def test_what_cannot_be_filled_says_why() -> None:
    weights = weights_of(spec_of("rnn_tanh"))
    for other, reason in (
        (paddle.nn.SimpleRNN(5, 3, activation="relu"), "activation is relu there"),
        (paddle.nn.SimpleRNN(5, 2), "0.cell_fw.weight_hh is"),
        (paddle.nn.SimpleRNN(5, 3, num_layers=2), "1.cell_fw.weight_hh is"),
        (paddle.nn.Linear(5, 3), "none of paddle.nn's LSTM"),
    ):
        before = {name: value.numpy() for name, value in other.state_dict().items()}
        with pytest.raises(rb.Incompatible) as caught:
            rb.to_framework(weights, "paddle", into=other)
        assert any(reason in one for one in caught.value.reasons), caught.value.reasons
        assert all(np.array_equal(before[name], value.numpy()) for name, value in other.state_dict().items())
    with pytest.raises(rb.Incompatible):
        rb.to_framework(weights, "paddle", into=paddle.nn.SimpleRNN(5, 3), batch_first=False)


def test_the_faults_are_still_there() -> None:
    """A version of Paddle that has lost one should be told no more."""
    if paddle.__version__ != "3.3.1":
        pytest.skip(f"the table of faults is of 3.3.1, here is {paddle.__version__}")
    line = "import paddle; paddle.nn.GRU(5, 3, bias_ih_attr=False)(paddle.ones([2, 7, 5]))"
    assert subprocess.run([sys.executable, "-c", line], capture_output=True, check=False).returncode != 0
    y, _ = paddle.nn.LSTM(5, 3, proj_size=2)(paddle.ones([1, 7, 5]), None, paddle.to_tensor([3]))
    assert y.numpy()[0, 3:].any()
    with pytest.raises(ValueError, match="dimension"):
        paddle.nn.LSTMCell(5, 3, proj_size=2)(paddle.ones([1, 5]))
    with pytest.raises(Exception, match="dimension"):
        paddle.nn.LSTM(5, 3).to(dtype="float16")
