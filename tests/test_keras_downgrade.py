"""Keras 3 models written for Keras 2: tf_keras opens them and the same outputs come out.

Keras 2.3.1 needs Python 3.7 and is not run here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rnnbridge as rb
from tests.golden import whole_models
from tests.keras_models import MODELS, Recorded, allowed, answers, keras_named, opened, saved

BUILT = ("functional", "nested_models", "both_ways", "masked", "hard", "encoder_decoder", "among_others")


def drawn(model: Any) -> Any:
    """The model with seeded weights."""
    rng = np.random.default_rng(5)
    model.set_weights([
        (rng.uniform(0.5, 1.5, one.shape) if "variance" in one.path else 0.5 * rng.standard_normal(one.shape))
        for one in model.weights
    ])  # fmt: skip
    return model


def config_of(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        return dict(json.loads(file.attrs["model_config"]))


def layer_of(path: Path, name: str) -> dict[str, Any]:
    return next(one for one in config_of(path)["config"]["layers"] if one["config"]["name"] == name)


@pytest.mark.filterwarnings("ignore:(Do not pass an .input_shape|Argument .alpha. is deprecated):UserWarning")
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("name", BUILT)
def test_tf_keras_gives_the_outputs_of_keras_3(name: str, suffix: str, tmp_path: Path) -> None:
    model = drawn(getattr(whole_models, name)(keras_named("keras")))
    saved(model, tmp_path / f"new{suffix}")
    rb.convert(tmp_path / f"new{suffix}", tmp_path / "old.h5", "keras-2", verify=False)
    old, inputs = opened("tf_keras", tmp_path / "old.h5"), Recorded(MODELS / "keras-2.3.1" / f"{name}.h5").inputs
    (want,), (got,), (limits,) = answers(model, inputs), answers(old, inputs), allowed(old, inputs)
    assert len(want) == len(got)
    for theirs, ours, limit in zip(want, got, limits, strict=True):
        assert np.abs(ours - theirs).max() <= limit


def lstm_and_gru(keras: Any, **more: Any) -> Any:
    layers = keras.layers
    x = layers.Input((7, 5), name="x")
    both = layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode="ave", name="both")(x)
    return drawn(keras.Model(x, [layers.Dense(2, name="out")(layers.LSTM(11, name="lstm", **more)(x)), both]))


def test_a_model_goes_to_the_gpu_layers_and_back(tmp_path: Path) -> None:
    keras = keras_named("keras")
    model = lstm_and_gru(keras, dropout=0.25)
    saved(model, tmp_path / "new.keras")
    report = rb.convert(tmp_path / "new.keras", tmp_path / "gpu.h5", "keras-cudnn", verify=False)
    assert layer_of(tmp_path / "gpu.h5", "lstm")["class_name"] == "CuDNNLSTM"
    assert layer_of(tmp_path / "gpu.h5", "both")["config"]["layer"]["class_name"] == "CuDNNGRU"
    (told,) = [str(one) for one in report.model if one.name == "lstm"]
    assert "dropout=0.25 dropped" in told
    rb.convert(tmp_path / "gpu.h5", tmp_path / "again.keras", verify=False)
    again, x = opened("keras", tmp_path / "again.keras"), np.random.default_rng(3).standard_normal((3, 7, 5), "float32")
    (want,), (got,), (limits,) = answers(model, [x]), answers(again, [x]), allowed(model, [x])
    for theirs, ours, limit in zip(want, got, limits, strict=True):
        assert np.abs(ours - theirs).max() <= limit


@pytest.mark.parametrize(("more", "reason"), [
    ({"activation": "relu"}, "relu"), ({"recurrent_activation": "hard_sigmoid"}, "hard_sigmoid"),
])  # fmt: skip
def test_the_gpu_layers_hold_no_other_activation(more: dict[str, str], reason: str, tmp_path: Path) -> None:
    saved(lstm_and_gru(keras_named("keras"), **more), tmp_path / "new.keras")
    with pytest.raises(rb.Incompatible, match=reason):
        rb.convert(tmp_path / "new.keras", tmp_path / "gpu.h5", "keras-cudnn", verify=False)
    assert not (tmp_path / "gpu.h5").exists()


def test_a_layer_for_the_gpu_becomes_one_for_the_cpu_within_keras_2(tmp_path: Path) -> None:
    source = MODELS / "keras-2.3.1" / "gpu_layers.h5"
    rb.convert(source, tmp_path / "cpu.h5", "keras-2", verify=False)
    config = layer_of(tmp_path / "cpu.h5", "lstm")["config"]
    assert (config["activation"], config["recurrent_activation"]) == ("tanh", "sigmoid")
    recorded, model = Recorded(source), opened("tf_keras", tmp_path / "cpu.h5")
    (got,), (limits,) = answers(model, recorded.inputs), allowed(model, recorded.inputs)
    for theirs, ours, limit in zip(recorded.batches[0], got, limits, strict=True):
        assert np.abs(ours - theirs).max() <= limit


def test_what_keras_2_has_not_is_refused_by_name(tmp_path: Path) -> None:
    keras = keras_named("keras")
    layers = keras.layers
    x = layers.Input((7, 5), name="x")
    y = layers.Dense(2, activation="hard_sigmoid", name="dense")(layers.LSTM(3, name="lstm")(x))
    saved(keras.Model(x, keras.ops.multiply(layers.Identity(name="same")(y), y)), tmp_path / "new.keras")
    with pytest.raises(rb.Incompatible) as caught:
        rb.convert(tmp_path / "new.keras", tmp_path / "old.h5", "keras-2", verify=False)
    for said in ("'same': Keras 2 has no Identity", "'dense': Dense with activation hard_sigmoid", "Multiply"):
        assert said in str(caught.value)
    assert not (tmp_path / "old.h5").exists()


def test_a_mask_of_the_users_own_is_refused(tmp_path: Path) -> None:
    keras = keras_named("keras")
    x, mask = keras.layers.Input((7, 5), name="x"), keras.layers.Input((7,), dtype="bool", name="mask")
    saved(keras.Model([x, mask], keras.layers.LSTM(3, name="lstm")(x, mask=mask)), tmp_path / "new.keras")
    with pytest.raises(rb.Incompatible, match="'lstm': a call with"):
        rb.convert(tmp_path / "new.keras", tmp_path / "old.h5", "keras-2", verify=False)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    saved(lstm_and_gru(keras_named("keras")), tmp_path / "new.keras")
    for name in ("one.h5", "two.h5"):
        rb.convert(tmp_path / "new.keras", tmp_path / name, "keras-2", verify=False)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()


def towers(keras: Any) -> Any:
    """A functional model called twice inside another one, which is an output of a third."""
    layers = keras.layers
    x = layers.Input((7, 5), name="tower_x")
    tower = keras.Model(x, layers.LSTM(3, name="lstm")(x), name="tower")
    a, b = layers.Input((7, 5), name="a"), layers.Input((7, 5), name="b")
    both = keras.Model([a, b], layers.Subtract(name="less")([tower(a), tower(b)]), name="both")
    left, right = layers.Input((7, 5), name="left"), layers.Input((7, 5), name="right")
    return drawn(keras.Model([left, right], [both([left, right]), layers.Dense(2, name="out")(both([right, left]))]))


def test_calls_of_a_nested_model_are_counted_from_1(tmp_path: Path) -> None:
    model = towers(keras_named("keras"))
    saved(model, tmp_path / "new.keras")
    rb.convert(tmp_path / "new.keras", tmp_path / "old.h5", "keras-2", verify=False)
    # asserted before the file is opened: tf_keras looks for a call 0 of a nested model without end
    assert layer_of(tmp_path / "old.h5", "out")["inbound_nodes"] == [[["both", 2, 0, {}]]]
    assert layer_of(tmp_path / "old.h5", "both")["config"]["layers"][-1]["inbound_nodes"] == [
        [["tower", 1, 0, {}], ["tower", 2, 0, {}]]
    ]
    inputs = list(np.random.default_rng(3).standard_normal((2, 3, 7, 5), "float32"))
    old = opened("tf_keras", tmp_path / "old.h5")
    (want,), (got,), (limits,) = answers(model, inputs), answers(old, inputs), allowed(old, inputs)
    for theirs, ours, limit in zip(want, got, limits, strict=True):
        assert np.abs(ours - theirs).max() <= limit


@pytest.mark.parametrize("form", ["dict", "nested"])
def test_inputs_and_outputs_that_are_no_flat_list_are_refused_in_words_of_their_own(form: str, tmp_path: Path) -> None:
    keras = keras_named("keras")
    x, h = keras.layers.Input((7, 5), name="x"), keras.layers.Input((3,), name="h")
    y = keras.layers.GRU(3, name="gru")(x, initial_state=[h])
    ends = {"dict": ({"x": x, "h": h}, {"y": y}), "nested": ([x, [h]], [[y], y])}[form]
    saved(keras.Model(*ends, name="ended"), tmp_path / "new.keras")
    said = {"dict": "a dict with the keys x, h", "nested": "a list with lists or dicts in it"}[form]
    with pytest.raises(rb.Incompatible, match=f"the inputs of the model 'ended' are {said}") as refused:
        rb.convert(tmp_path / "new.keras", tmp_path / "old.h5", "keras-2", verify=False)
    assert "the outputs of the model 'ended' are a" in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["new.keras"]
