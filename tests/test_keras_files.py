"""Whole Keras models whose config contradicts the arrays, holds code, or says what nobody says any more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rnnbridge as rb
from tests.keras_files import changed_config


def more_units(layer: dict[str, Any]) -> None:
    if layer["class_name"] == "GRU":
        layer["config"]["units"] += 2


def other_formula(layer: dict[str, Any]) -> None:
    if layer["config"]["name"] == "gru_after":
        layer["config"]["reset_after"] = False


@pytest.mark.parametrize(("change", "words"), [
    (more_units, "the config says gru_before = GRU of 7 units"),
    (other_formula, "'gru_after': the config says reset_after=False, and the bias is that of a GRU reset after"),
])  # fmt: skip
def test_a_config_that_its_arrays_contradict(
    change: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    with pytest.raises(rb.FormatError) as caught:
        rb.load(changed_config(tmp_path, change))
    assert words in str(caught.value)
    assert "changed.h5" in str(caught.value)


def test_code_in_a_config_is_data(tmp_path: Path) -> None:
    """A Lambda, a class of the user's own and a ConvLSTM2D: named, left as they are, never run."""

    def change(layer: dict[str, Any]) -> None:
        if layer["class_name"] == "InputLayer":
            layer["class_name"] = "Lambda"
            layer["config"]["function"] = ["__import__('os').abort()", None, None]
        if layer["config"]["name"] == "gru_after":
            layer["class_name"] = "ConvLSTM2D"
        if layer["config"]["name"] == "gru_before":
            layer["module"] = "my.own.layers"
        if layer["config"]["name"] == "gru_after_no_bias":
            layer["config"]["activation"] = "softmax"

    bundle = rb.load(changed_config(tmp_path, change))
    for said in ("'gru_after' (ConvLSTM2D) is not", "'gru_before' (GRU) is not", "activation 'softmax' is none of"):
        assert any(said in notice for notice in bundle.notices)
    assert bundle.layers
    assert not {"gru_after", "gru_before", "gru_after_no_bias"} & set(bundle)
    assert "gru_before/gru_before/kernel:0" in bundle.tensors


def test_dead_keywords_are_passed_over(tmp_path: Path) -> None:
    """keras-team/keras 20750 and 20106: time_major=False, batch_input_shape and what else Keras 3 refuses."""

    def change(layer: dict[str, Any]) -> None:
        layer["config"] |= {"time_major": False, "batch_input_shape": [None, None, 3], "consume_less": "gpu"}

    bundle = rb.load(changed_config(tmp_path, change))
    assert bundle["gru_after"].origin.batch_first is True


def test_a_frozen_layer_comes_after_the_others_in_a_group(tmp_path: Path) -> None:
    """Keras writes what is trained before what is frozen: names and shapes would give the wrong layer its weights."""
    keras = pytest.importorskip("tf_keras", reason="tf_keras is not installed, so it cannot write such a file")
    layers = keras.layers
    inner = keras.Sequential(
        [layers.LSTM(5, return_sequences=True, trainable=False, name="first"), layers.LSTM(5, name="second")],
        name="inner",
    )
    model = keras.Sequential([layers.Input((None, 5)), inner])
    model.save_weights(str(tmp_path / "w.h5"))
    whole = tmp_path / "frozen.h5"
    whole.write_bytes((tmp_path / "w.h5").read_bytes())
    with h5py.File(whole, "r+") as file:
        group = file.create_group("model_weights")
        for key in list(file.attrs):
            group.attrs[key] = file.attrs[key]
            del file.attrs[key]
        for name in [name for name in file if name != "model_weights"]:
            file.move(name, f"model_weights/{name}")
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": model.get_config()})
    bundle = rb.load(whole)
    for layer in inner.layers:
        kernel = layer.get_weights()[0]
        assert np.array_equal(bundle[f"inner/{layer.name}"].arrays["weight_ih_l0"], kernel.T)
