"""What Keras 3 sees or fills otherwise than Keras 2 where steps are masked; how it counts calls of nested models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.keras_masks import mask_differences
from tests.test_keras_write import imported


def layer(kind: str, name: str, *sources: str, **config: Any) -> dict[str, Any]:
    calls = [[[source, 0, 0, {}] for source in sources]] if sources else []
    return {"class_name": kind, "name": name, "config": {"name": name, **config}, "inbound_nodes": calls}


def refused(layers: list[dict[str, Any]], *, repeats: bool) -> list[str]:
    ends = {"input_layers": [[layers[0].get("name"), 0, 0]], "output_layers": [[layers[-1].get("name"), 0, 0]]}
    chain = "inbound_nodes" not in layers[0]
    model = {"class_name": "Sequential" if chain else "Model", "config": {"layers": layers, **({} if chain else ends)}}
    return mask_differences(model, repeats)[0]


def both_ways(*sources: str, **config: Any) -> dict[str, Any]:
    inner = {"class_name": "LSTM", "config": {"name": "lstm", "return_sequences": True, **config}}
    return layer("Bidirectional", "both", *sources, layer=inner)


MASKED = (layer("InputLayer", "in"), layer("Masking", "masked", "in", mask_value=0.0))
READERS = {
    "Dot": layer("Dot", "reader", "both", "both"),
    "Flatten": layer("Flatten", "reader", "both"),
    "GlobalMaxPooling1D": layer("GlobalMaxPooling1D", "reader", "both"),
    "a nested model": layer(
        "Functional",
        "reader",
        "both",
        layers=[layer("InputLayer", "x"), layer("Flatten", "inner", "x")],
        input_layers=[["x", 0, 0]],
        output_layers=[["inner", 0, 0]],
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("between", [False, True])
def test_what_reads_past_a_mask_is_refused_where_that_is_filled_otherwise(reader: str, between: bool) -> None:
    """Its last output again in multi-backend Keras 2, zeros in Keras 3."""
    last = dict(READERS[reader])
    if between:
        last["inbound_nodes"] = [[["dense", 0, 0, {}] for _ in last["inbound_nodes"][0]]]
    layers = [
        *MASKED,
        both_ways("masked"),
        layer("TimeDistributed", "dense", "both", layer={"class_name": "Dense"}),
        last,
    ]
    said = refused(layers, repeats=True)
    name = "reader/inner" if reader == "a nested model" else "reader"
    text = f"layer '{name}': it reads what 'both' gives past a mask, its last output again in this Keras"
    assert said == [f"{text} and zeros in Keras 3"]
    assert not refused(layers, repeats=False)
    assert not refused([MASKED[0], both_ways("in"), *layers[3:]], repeats=True)  # no mask


def test_what_heeds_the_mask_reads_nothing_past_it() -> None:
    readers = (layer("LSTM", "again", "both"), layer("GlobalAveragePooling1D", "mean", "both"))
    assert not refused([*MASKED, both_ways("masked"), *readers], repeats=True)
    last_only = [
        *MASKED,
        both_ways("masked", return_sequences=False),
        layer("Dense", "out", "both"),
        READERS["Flatten"],
    ]
    assert not refused(last_only, repeats=True)


def test_a_sequential_is_a_chain() -> None:
    chain = [
        {k: v for k, v in one.items() if k in ("class_name", "config")}
        for one in (MASKED[1], both_ways(), READERS["Flatten"])
    ]
    assert ["'reader'" in one for one in refused(chain, repeats=True)] == [True]


@pytest.mark.parametrize(
    "inner",
    [
        {"class_name": "Masking", "config": {"name": "m", "mask_value": 0.0}},
        {"class_name": "Embedding", "config": {"name": "e", "mask_zero": True}},
    ],
)
def test_a_mask_made_inside_a_time_distributed_is_refused(inner: dict[str, Any]) -> None:
    layers = [
        layer("InputLayer", "in"),
        layer("TimeDistributed", "wrapped", "in", layer=inner),
        layer("LSTM", "l", "wrapped"),
    ]
    (said,) = refused(layers, repeats=False)
    assert "'wrapped': TimeDistributed hands on its own layer's mask in Keras 2" in said


def test_a_softmax_of_masked_steps_is_refused() -> None:
    (said,) = refused([*MASKED, layer("Softmax", "s", "masked")], repeats=False)
    assert "'s': Softmax leaves masked steps out in Keras 3" in said
    assert not refused([MASKED[0], layer("Softmax", "s", "in")], repeats=False)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_class_that_keras_3_no_longer_has_is_refused(suffix: str, tmp_path: Path) -> None:
    keras_2 = imported("tf_keras")
    layers = [keras_2.layers.LSTM(4, input_shape=(7, 5)), keras_2.layers.ThresholdedReLU(0.5, name="cut")]
    keras_2.Sequential(layers).save(tmp_path / "old.keras")
    with pytest.raises(rb.Incompatible, match="layer 'cut': Keras 3 has no ThresholdedReLU"):
        rb.convert(tmp_path / "old.keras", tmp_path / f"new{suffix}", verify=False)


def test_masks_made_in_nested_models_are_unequal_when_their_inputs_are() -> None:
    tower = {
        "layers": [layer("InputLayer", "x"), layer("Embedding", "e", "x", mask_zero=True)],
        "input_layers": [["x", 0, 0]], "output_layers": [["e", 0, 0]],
    }  # fmt: skip
    calls = {"a": layer("Functional", "one", "a", **tower), "b": layer("Functional", "two", "b", **tower)}
    ends = [layer("Add", "sum", "one", "two"), layer("LSTM", "last", "sum")]
    layers = [layer("InputLayer", "a"), layer("InputLayer", "b"), *calls.values(), *ends]
    (said,) = refused(layers, repeats=False)
    assert "layer 'last': its mask is joined of unequal ones in 'sum'" in said


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_tower_used_twice_feeds_other_layers(suffix: str, tmp_path: Path) -> None:
    keras_2, keras_3 = imported("tf_keras"), imported("keras")
    layers, rng = keras_2.layers, np.random.default_rng(3)
    inside = layers.Input((7, 5))
    tower = keras_2.Model(inside, layers.Dense(3, activation="tanh")(layers.LSTM(4)(inside)), name="tower")
    one, two = layers.Input((7, 5)), layers.Input((7, 5))
    joined = layers.Concatenate()([tower(one), tower(two)])
    model = keras_2.Model([one, two], [layers.Dense(2)(joined), tower(two)])
    given = [rng.standard_normal((3, 7, 5)).astype("f") for _ in range(2)]
    wanted = model.predict_on_batch(given)
    model.save(tmp_path / "old.h5")
    rb.convert(tmp_path / "old.h5", tmp_path / f"new{suffix}", verify=False)
    got = keras_3.models.load_model(tmp_path / f"new{suffix}").predict_on_batch(given)
    for ours, theirs in zip(got, wanted, strict=True):
        # 7 steps through an LSTM of 4 and two Dense layers of sums of at most 6: every output is near 1.
        assert np.abs(ours - theirs).max() <= 7 * 16 * np.finfo("f").eps
