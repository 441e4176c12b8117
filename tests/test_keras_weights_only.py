"""Keras files of weights alone: what shapes and names say, what is assumed, and what the user can set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import run_reference
from tests.keras_files import GOLDEN, cell, rng, weights_file


@pytest.mark.parametrize(("bias", "gates", "row"), [
    ((12,), 4, "keras.LSTM@2"), ((24,), 4, "keras.CuDNNLSTM"), ((9,), 3, "keras.GRU(reset_after=False)@2"),
    ((2, 9), 3, "keras.GRU(reset_after=True)@2"), ((18,), 3, "keras.CuDNNGRU"), ((3,), 1, "keras.SimpleRNN@2"),
])  # fmt: skip
def test_the_bias_tells_the_layer(bias: tuple[int, ...], gates: int, row: str, tmp_path: Path) -> None:
    """keras-team/keras 8860, Keras-Trigger-Word 15: the length of the bias is the only sign in a weights-only file."""
    weights = rb.load(weights_file(tmp_path / "w.h5", {"rnn_1": cell("rnn_1", 5, 3, gates, bias)}))["rnn_1"]
    assert weights.origin.convention == row
    assert any(str(list(bias)) in sentence for sentence in weights.origin.evidence)


def test_without_a_bias_the_user_says_which(tmp_path: Path) -> None:
    path = weights_file(tmp_path / "w.h5", {"rnn": cell("rnn", 5, 3, 4, None)})
    assert "layer_class" in {one.key for one in rb.load(path)["rnn"].origin.assumptions}
    plain, gpu = rb.load(path)["rnn"], rb.load(path, settings={"layer_class": "CuDNNLSTM"})["rnn"]
    assert gpu.origin.convention == "keras.CuDNNLSTM"
    assert not np.array_equal(gpu.arrays["weight_ih_l0"], plain.arrays["weight_ih_l0"])
    assert np.array_equal(np.sort(gpu.arrays["weight_ih_l0"], None), np.sort(plain.arrays["weight_ih_l0"], None))
    assert not gpu.arrays["bias_ih_l0"].any()
    with pytest.raises(rb.ArgumentError, match="it is one of LSTM, GRU"):
        rb.load(path, settings={"layer_class": "Transformer"})


@pytest.mark.parametrize(("version", "gates"), [
    (None, "hard_sigmoid(0.2, 0.5)"), ("1.2.2", "hard_sigmoid(0.2, 0.5)"), ("2.2.4", "hard_sigmoid(0.2, 0.5)"),
    ("2.2.4-tf", "hard_sigmoid(0.2, 0.5)"), ("2.3.0", "sigmoid"), ("2.3.0-tf", "sigmoid"), ("2.15.0", "sigmoid"),
    ("3.15.1", "sigmoid"),
])  # fmt: skip
def test_the_gates_activation_by_version(version: str | None, gates: str, tmp_path: Path) -> None:
    """minimaxir/textgenrnn 153: the default changed with Keras 2.3; cuDNN layers never had it."""
    layers = {"plain": cell("plain", 5, 3, 4, (12,)), "gpu": cell("gpu", 5, 3, 4, (24,))}
    bundle = rb.load(weights_file(tmp_path / "w.h5", layers, version))
    assert str(bundle["plain"].spec.activations[0]) == gates
    assert str(bundle["gpu"].spec.activations[0]) == "sigmoid"
    (assumed,) = [one for one in bundle["plain"].origin.assumptions if one.key == "recurrent_activation"]
    assert assumed.value == gates.partition("(")[0]


@pytest.mark.parametrize(("version", "slope"), [("2.15.0", 0.2), ("3.15.1", 1 / 6)])
def test_hard_sigmoid_by_version(version: str, slope: float, tmp_path: Path) -> None:
    """tensorflow/tensorflow 65381: at 1 it is 0.7 in Keras 2 and 0.6667 in Keras 3."""
    path = weights_file(tmp_path / "w.h5", {"rnn": cell("rnn", 5, 3, 4, (12,))}, version)
    weights = rb.load(path, settings={"recurrent_activation": "hard_sigmoid"})["rnn"]
    assert weights.spec.activations[0].alpha == slope


def test_a_hard_sigmoid_of_nobody_knows_which_keras(tmp_path: Path) -> None:
    path = GOLDEN / "tf_keras-2.21.0" / "mixed.weights.h5"
    with pytest.raises(rb.ArgumentError, match="set keras_version=2 or keras_version=3 too"):
        rb.load(path, settings={"recurrent_activation": "hard_sigmoid"})


@pytest.mark.parametrize(("key", "value", "words"), [
    ("keras_version", "latest", "versions 1, 2 and 3 are read"), ("go_backwards", "maybe", "it is true or false"),
    ("reverse", "true", "nothing here takes the setting 'reverse'"),
    ("activation", "tnh", "setting activation: .*'tnh'"),
])  # fmt: skip
def test_settings_that_say_nothing(key: str, value: str, words: str) -> None:
    with pytest.raises(rb.ArgumentError, match=words):
        rb.load(GOLDEN / "keras-2.3.1" / "gru.weights.h5", settings={key: value})


def test_cudnn_kernels_are_reshaped_and_not_transposed(tmp_path: Path) -> None:
    """keras-team/keras PR 8307: each gate's [I, H] block holds the bytes of a matrix [H, I]; only I != H shows it."""
    kernel = np.arange(5 * 12, dtype="float32").reshape(5, 12)
    weights = cell("gpu", 5, 3, 4, (24,)) | {"gpu/kernel:0": kernel}
    read = rb.load(weights_file(tmp_path / "w.h5", {"gpu": weights}))["gpu"].arrays["weight_ih_l0"]
    for gate in range(4):
        assert np.array_equal(read[3 * gate : 3 * gate + 3], kernel[:, 3 * gate : 3 * gate + 3].reshape(3, 5))


def keras_1_lstm() -> dict[str, Any]:
    parts = {"W": (5, 3), "U": (3, 3), "b": (3,)}
    return {f"lstm_1_{base}_{gate}": rng().standard_normal(shape) + k
            for k, gate in enumerate("icfo") for base, shape in parts.items()}  # fmt: skip


def test_keras_1_gates_come_in_another_order(tmp_path: Path) -> None:
    """keras-team/keras 3088: twelve arrays, i c f o, each W, U, b."""
    arrays = keras_1_lstm()
    weights = rb.load(weights_file(tmp_path / "w.h5", {"lstm_1": arrays}, None))["lstm_1"]
    assert weights.origin.convention == "keras.LSTM@1"
    for row, gate in enumerate("ifco"):
        W, b = arrays[f"lstm_1_W_{gate}"], arrays[f"lstm_1_b_{gate}"]
        assert np.array_equal(weights.arrays["weight_ih_l0"][3 * row : 3 * row + 3], W.T.astype("float32"))
        assert np.array_equal(weights.arrays["bias_ih_l0"][3 * row : 3 * row + 3], b.astype("float32"))


def test_bidirectional_halves_by_name(tmp_path: Path) -> None:
    """keras-team/keras 10626: two Bidirectional layers, read without rebuilding the model."""
    layers = {
        f"bidirectional_{k}": cell(f"bidirectional_{k}/forward_lstm_{k}", 5, 3, 4, (12,))
        | cell(f"bidirectional_{k}/backward_lstm_{k}", 5, 3, 4, (12,))
        for k in (1, 2)
    }
    bundle = rb.load(weights_file(tmp_path / "w.h5", layers))
    assert list(bundle) == list(layers)
    assert {weights.spec.direction for weights in bundle.layers.values()} == {"bidirectional"}


def bidirectional(path: Path) -> Path:
    sides = [cell(f"bidirectional_1/{side}_lstm_1", 5, 3, 4, (12,)) for side in ("forward", "backward")]
    return weights_file(path, {"bidirectional_1": sides[0] | sides[1]})


def test_which_way_a_bidirectional_starts_is_assumed(tmp_path: Path) -> None:
    path = bidirectional(tmp_path / "w.h5")
    (assumed,) = [one for one in rb.load(path)["bidirectional_1"].origin.assumptions if one.key == "go_backwards"]
    assert assumed.value == "false"
    settings = {"go_backwards": "false"}
    assert "go_backwards" not in {
        one.key for one in rb.load(path, settings=settings)["bidirectional_1"].origin.assumptions
    }
    with pytest.raises(rb.FormatError, match=r"'bidirectional_1' .* go_backwards=True, so that both directions"):
        rb.load(path, settings={"go_backwards": "true"})


@pytest.mark.parametrize("asked", ["SimpleRNN", "CuDNNLSTM", "CuDNNGRU", "GRU"])
def test_a_class_that_arrays_per_gate_cannot_be(asked: str, tmp_path: Path) -> None:
    with pytest.raises(rb.ArgumentError, match=f"layer_class='{asked}'; .* those of LSTM in Keras 1"):
        rb.load(weights_file(tmp_path / "w.h5", {"lstm_1": keras_1_lstm()}, None), settings={"layer_class": asked})


def test_nan_weights_are_accepted(tmp_path: Path) -> None:
    weights = cell("rnn", 5, 3, 1, (3,)) | {"rnn/bias:0": np.full(3, np.nan)}
    read = rb.load(weights_file(tmp_path / "w.h5", {"rnn": weights}))["rnn"]
    assert np.isnan(run_reference(read.spec, read.arrays, np.ones((2, 1, 5)))["y"]).all()
