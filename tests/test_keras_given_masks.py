"""Masked recurrent layers with initial states, upgraded: Keras 3 hands such a call no mask, so it is given one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.keras_given_masks import with_masks
from rnnbridge.converters.keras_masks import mask_differences, masks_to_give
from tests.keras_models import allowed, answers, opened, saved
from tests.test_keras_masks import layer
from tests.test_keras_write import imported

WITH_STATES = "it takes initial states, and to such a call Keras 3 gives no mask"
PATTERNS = {"none": [], "right": [5, 6], "left": [0, 1], "holes": [1, 4], "all": list(range(7))}


def nested_decoder(keras: Any) -> Any:
    """A mask through a TimeDistributed, a Dropout and a GRU into layers with states, in a model in a model."""
    layers = keras.layers
    x, tokens, h = layers.Input((7, 5)), layers.Input((7,), dtype="int32"), layers.Input((3,))
    seen = layers.TimeDistributed(layers.Dense(2, name="dense"), name="every")(layers.Masking(0.5, name="masking")(x))
    gru = layers.GRU(3, return_sequences=True, name="gru")(layers.Dropout(0.5)(seen), initial_state=[h])
    lstm = layers.Bidirectional(layers.LSTM(3, return_sequences=True), name="both")(
        layers.Embedding(11, 2, mask_zero=True, name="words")(tokens), initial_state=[h, h, h, h]
    )
    later = layers.LSTM(2, name="later")(lstm)  # a mask comes out of a layer with states
    inner = keras.Model([x, tokens, h], [gru, lstm, later], name="inner")
    given = [layers.Input((7, 5)), layers.Input((7,), dtype="int32"), layers.Input((3,))]
    return keras.Model(given, inner(given), name="outer")


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_every_pattern_gives_the_old_outputs_and_needs_its_mask(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    old = nested_decoder(imported("tf_keras"))
    old.set_weights([rng.uniform(-1, 1, one.shape) for one in old.get_weights()])
    report = rb.convert(saved(old, tmp_path / f"old{suffix}"), tmp_path / f"new{suffix}", verify=False)
    (said,) = [str(one) for one in report.model if one.name == "inner/gru"]
    assert "the mask of 'masking' is given in the call" in said
    new = opened("keras", tmp_path / f"new{suffix}")
    for batch in (1, 3):
        for steps in PATTERNS.values():
            x, tokens = rng.standard_normal((batch, 7, 5)).astype("f"), rng.integers(1, 11, (batch, 7)).astype("int32")
            x[-1, steps], tokens[-1, steps] = 0.5, 0
            given = [x, tokens, rng.standard_normal((batch, 3)).astype("f")]
            (limits,), (got,), (wanted,) = allowed(new, given), answers(new, given), answers(old, given)
            for limit, ours, theirs in zip(limits, got, wanted, strict=True):
                assert np.abs(ours - theirs).max() <= limit, (batch, steps)


MASKED = (layer("InputLayer", "in"), layer("InputLayer", "h"), layer("Masking", "masked", "in", mask_value=0.5))


def model(*layers: dict[str, Any], inputs: tuple[str, ...] = ("in", "h")) -> dict[str, Any]:
    ends = {"input_layers": [[one, 0, 0] for one in inputs], "output_layers": [[layers[-1]["name"], 0, 0]]}
    return {"class_name": "Model", "config": {"name": "model", "layers": list(layers), **ends}}


def refused(built: dict[str, Any]) -> list[str]:
    return mask_differences(built, False, archive=True)[0]


def test_the_mask_of_a_layer_in_the_same_model_is_given() -> None:
    built = model(*MASKED, layer("Dropout", "drop", "masked"), layer("GRU", "last", "drop", "h"))
    assert masks_to_give(built) == {"": {("last", 0): ("masked", 0)}}
    assert not refused(built)
    assert not masks_to_give(model(*MASKED, layer("GRU", "last", "masked")))  # Keras 3 does it
    assert not masks_to_give(model(*MASKED, layer("GRU", "last", "in", "h")))  # no mask


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("float32", "float64"), ({"class_name": "Policy"}, None)])
def test_a_mask_that_an_operation_would_compute_in_another_dtype_is_refused(dtypes: tuple[Any, Any]) -> None:
    """A Masking casts its input to its own dtype before it compares."""
    first, states, masking = layer("InputLayer", "in", dtype=dtypes[1]), MASKED[1], dict(MASKED[2])
    masking["config"] = {**masking["config"], "dtype": dtypes[0]}
    assert refused(model(first, states, masking, layer("GRU", "last", "masked", "h"))) == [
        f"layer 'last': {WITH_STATES}"
    ]


def test_a_mask_from_outside_the_model_is_refused() -> None:
    inside = model(
        layer("InputLayer", "x"), layer("InputLayer", "s"), layer("GRU", "inner", "x", "s"), inputs=("x", "s")
    )
    tower = {**layer("Model", "tower", "masked", "h"), "config": {**inside["config"], "name": "tower"}}
    assert refused(model(*MASKED, tower)) == [f"layer 'tower/inner': {WITH_STATES}"]


def test_a_joined_mask_is_refused() -> None:
    other = layer("Masking", "other", "in", mask_value=1.0)
    joined = layer("Concatenate", "joined", "masked", "other", axis=1)
    assert refused(model(*MASKED, other, joined, layer("GRU", "last", "joined", "h"))) == [
        f"layer 'last': {WITH_STATES}"
    ]


def test_a_model_in_a_time_distributed_is_found() -> None:
    inside = model(MASKED[0], MASKED[2], layer("Dense", "h", "in"), layer("GRU", "last", "masked", "h"), inputs=("in",))
    wrapped = layer("TimeDistributed", "every", "x", layer=inside)
    built = model(layer("InputLayer", "x"), wrapped, inputs=("x",))
    givers = masks_to_give(built)
    assert givers == {"every/": {("last", 0): ("masked", 0)}}
    last = inside["config"]["layers"][-1]
    last["inbound_nodes"] = [{"args": ["x"], "kwargs": {"initial_state": "h"}}]  # as upgraded_graph makes it
    out = with_masks(built, givers)["config"]["layers"][1]["config"]["layer"]["config"]["layers"]
    assert "mask" in out[-1]["inbound_nodes"][0]["kwargs"]


def upgraded_entries(*names: str) -> list[dict[str, Any]]:
    first, states, masking = MASKED
    last = layer("GRU", "last")
    last["inbound_nodes"] = [{"args": ["x"], "kwargs": {"initial_state": "h"}}]
    return [first, states, masking, *(layer("Dense", name, "in") for name in names), last]


def test_operations_take_names_that_are_free() -> None:
    built = model(*upgraded_entries("masked_mask", "masked_unequal"))
    out = with_masks(built, {"": {("last", 0): ("masked", 0)}})["config"]["layers"]
    unequal, whole = out[3:5]
    assert (unequal["name"], whole["name"]) == ("masked_unequal_", "masked_mask_")
    assert unequal["inbound_nodes"][0]["args"][1] == 0.5
    assert out[-1]["inbound_nodes"][0]["kwargs"]["mask"]["config"]["keras_history"] == ["masked_mask_", 0, 0]


def test_a_model_that_is_not_found_by_its_name_is_said() -> None:
    with pytest.raises(rb.FormatError, match="the models nowhere/ in the model's config have no names"):
        with_masks(model(*MASKED), {"nowhere/": {("last", 0): ("masked", 0)}})


def test_an_h5_file_says_where_the_operations_are_from(tmp_path: Path) -> None:
    """Without a module Keras 3 looks for a layer of that name; so it does not open its own files with operations."""
    golden = Path(__file__).parent / "golden" / "models" / "keras-2.3.1" / "translator.h5"
    rb.convert(golden, tmp_path / "new.h5", verify=False)
    with h5py.File(tmp_path / "new.h5") as file:
        entries = json.loads(file.attrs["model_config"])["config"]["layers"]
    found = {one["name"]: one["module"] for one in entries if "module" in one}
    assert found == dict.fromkeys(("words_mask", "masking_unequal", "masking_mask"), "keras.src.ops.numpy")
