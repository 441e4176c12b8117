"""Keras layers in memory, of Keras 3 and of tf_keras: read, made, filled, and refused with every reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation, run_reference
from rnnbridge.spec import RNNSpec
from tests.samples import CELLS, inputs_of, spec_of, weights_of

PACKAGES = ("keras", "tf_keras")
I, H = 5, 3


@pytest.fixture(params=PACKAGES)
def keras(request: pytest.FixtureRequest) -> Any:
    return imported(request.param)


def imported(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed: its layers are not tried")


def filled(layer: Any, inputs: tuple[int | None, ...] = (None, None, I)) -> Any:
    """The layer, built, with no weight zero."""
    layer.build(inputs)
    rng = np.random.default_rng(3)
    layer.set_weights([rng.uniform(0.2, 1, w.shape) * rng.choice([-1, 1], w.shape) for w in layer.weights])
    return layer


LAYERS: dict[str, Callable[[Any], Any]] = {
    "LSTM": lambda k: k.LSTM(H, recurrent_activation="hard_sigmoid", return_sequences=True),
    "LSTM relu": lambda k: k.LSTM(H, activation="relu", use_bias=False, return_sequences=True),
    "GRU after": lambda k: k.GRU(H, return_sequences=True, reset_after=True),
    "GRU before": lambda k: k.GRU(H, return_sequences=True, reset_after=False, go_backwards=True),
    "SimpleRNN": lambda k: k.SimpleRNN(H, activation="softsign", return_sequences=True),
    "LSTM leaky relu": lambda k: k.LSTM(H, activation=k.LeakyReLU(0.3), return_sequences=True),
    "GRU elu": lambda k: k.GRU(H, activation=k.ELU(0.7), reset_after=True, return_sequences=True),
    "Bidirectional": lambda k: k.Bidirectional(k.LSTM(H, return_sequences=True), merge_mode="ave"),
    "RNN": lambda k: k.RNN(k.GRUCell(H, reset_after=True), return_sequences=True),
    "stack": lambda k: k.RNN([k.LSTMCell(H), k.LSTMCell(H), k.LSTMCell(H)], return_sequences=True),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_layer_is_read(keras: Any, make: Callable[[Any], Any]) -> None:
    layer = filled(make(keras.layers))
    weights = rb.from_framework(layer)
    x = inputs_of(weights.spec, 3).x
    exact = run_reference(weights.spec, weights.arrays, x)["y"]
    y = np.asarray(layer(x.transpose(1, 0, 2))).transpose(1, 0, 2)
    assert np.abs(y - exact).max() <= expectation(weights.spec, weights.arrays, x).tolerance["y"]
    assert weights.origin.convention.endswith(f"@{3 if keras.__name__ == 'keras' else 2}")
    assert not weights.origin.assumptions


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "SimpleRNNCell"])
def test_a_cell_is_read(keras: Any, kind: str) -> None:
    cell = filled(getattr(keras.layers, kind)(H), (None, I))
    weights = rb.from_framework(cell)
    given = inputs_of(weights.spec, 3, steps=1)
    tensor = keras.ops.convert_to_tensor if hasattr(keras, "ops") else keras.backend.constant
    _, after = cell(tensor(given.x[0]), [tensor(state[0]) for state in (given.h0, given.c0) if state is not None])
    exact = run_reference(weights.spec, weights.arrays, given.x, given.h0, given.c0)["h"][0]
    allowed = expectation(weights.spec, weights.arrays, given.x, given.h0, given.c0).tolerance["h"]
    assert np.abs(np.asarray(after[0]) - exact).max() <= allowed


SPECS: dict[str, RNNSpec] = {
    **{f"{cell} {bias}": spec_of(cell, bias=bias) for cell in CELLS for bias in ("none", "single", "double")},
    "backwards": spec_of("gru_after", direction="reverse", output_order="processing"),
    "both ways": spec_of("gru_before", bias="single", direction="bidirectional", merge="sum"),
    "stack": spec_of("lstm", bias="single", num_layers=3),
    "stack both ways": spec_of("rnn_tanh", bias="single", num_layers=2, direction="bidirectional"),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_layer_is_made(spec: RNNSpec) -> None:
    imported("keras")
    weights = weights_of(spec)
    x = inputs_of(spec, 3).x
    y = np.asarray(rb.to_framework(weights, "keras")(x.transpose(1, 0, 2))).transpose(1, 0, 2)
    assert (
        np.abs(y - run_reference(spec, weights.arrays, x)["y"]).max()
        <= expectation(spec, weights.arrays, x).tolerance["y"]
    )


def test_double_precision_is_kept() -> None:
    imported("keras")
    weights = weights_of(spec_of("gru_after"), dtype="float64")
    layer = rb.to_framework(weights, "keras")
    assert rb.from_framework(layer) == weights


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_layer_is_filled(keras: Any, make: Callable[[Any], Any]) -> None:
    weights = rb.from_framework(filled(make(keras.layers)))
    other = make(keras.layers)
    assert rb.to_framework(weights, "keras", into=other) is other
    assert rb.from_framework(other) == weights


def test_filling_brings_the_bias_to_the_layers_form(keras: Any) -> None:
    layer = keras.layers.GRU(H, reset_after=True)
    rb.to_framework(weights_of(spec_of("gru_after", bias="none")), "keras", into=layer)
    assert not layer.get_weights()[2].any()


def test_another_layer_is_not_filled_and_every_reason_is_given(keras: Any) -> None:
    layer = filled(keras.layers.GRU(H + 2, reset_after=False, activation="relu"))
    before = layer.get_weights()
    with pytest.raises(rb.Incompatible) as caught:
        rb.to_framework(weights_of(spec_of("gru_after")), "keras", into=layer)
    said = "\n".join(caught.value.reasons)
    for word in ("hidden_size is 5 in the layer and 3 in the weights", "reset gate after", "activation tanh"):
        assert word in said
    assert all(np.array_equal(a, b) for a, b in zip(before, layer.get_weights(), strict=True))


def test_a_bias_has_no_place_in_a_layer_without(keras: Any) -> None:
    with pytest.raises(rb.Incompatible, match="bias"):
        rb.to_framework(weights_of(spec_of("lstm")), "keras", into=keras.layers.LSTM(H, use_bias=False))


def test_what_is_not_built_is_said_so(keras: Any) -> None:
    with pytest.raises(rb.ArgumentError, match="is not built yet"):
        rb.from_framework(keras.layers.LSTM(H))


def test_a_keras_that_is_not_known_is_refused(keras: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = filled(keras.layers.LSTM(H))
    monkeypatch.setattr(keras, "__version__", "4.0.1")
    with pytest.raises(rb.Incompatible, match=r"layer of Keras 4\.0\.1"):
        rb.from_framework(layer)


def test_classes_of_the_users_own_are_refused(keras: Any) -> None:
    class Mine(keras.layers.LSTM):
        pass

    with pytest.raises(rb.Incompatible, match="class of your own"):
        rb.from_framework(filled(Mine(H)))


def test_unequal_cells_are_no_stack(keras: Any) -> None:
    cells = [keras.layers.LSTMCell(H), keras.layers.GRUCell(H)]
    with pytest.raises(rb.Incompatible, match="one at a time"):
        rb.from_framework(filled(keras.layers.RNN(cells)))


def test_keras_has_no_time_first_layer() -> None:
    with pytest.raises(rb.Incompatible, match=r"\[N, T, I\]"):
        rb.to_framework(weights_of(spec_of("lstm")), "keras", batch_first=False)
