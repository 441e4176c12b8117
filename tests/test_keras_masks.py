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


@pytest.mark.parametrize("kind", ["Multiply", "Maximum", "Minimum"])
def test_merges_that_leave_a_masked_input_out_are_refused_where_that_is_read(kind: str) -> None:
    merged = [*MASKED, layer(kind, "merged", "masked", "masked")]
    (said,) = refused([*merged, layer("Flatten", "reader", "merged")], repeats=False)
    assert said.startswith("layer 'reader': it reads what 'merged' gives past a mask")
    assert not refused([*merged, layer("LSTM", "reader", "merged")], repeats=False)
    ends = {"input_layers": [["in", 0, 0]], "output_layers": [["merged", 0, 0]]}
    _, told = mask_differences({"class_name": "Model", "config": {"layers": merged, **ends}}, repeats=False)
    assert [f"merged: where an input of it is masked, {kind} of Keras 3" in one for one in told] == [True]


def test_a_mask_comes_into_a_nested_model_with_its_input() -> None:
    inside = {"layers": [layer("InputLayer", "x"), both_ways("x"), READERS["Flatten"]]}
    tower = layer("Model", "tower", "masked", **inside, input_layers=[["x", 0, 0]], output_layers=[["reader", 0, 0]])
    (said,) = refused([*MASKED, tower], repeats=True)
    assert said.startswith("layer 'tower/reader': it reads what 'tower/both' gives past a mask")


def test_each_call_of_a_tower_has_its_own_mask() -> None:
    """Counted from 1 in the file, since the tower's making is its call number 0."""
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["e", 0, 0]]}
    tower = layer("Model", "tower", "a", layers=[layer("InputLayer", "x"), layer("Dense", "e", "x")], **ends)
    tower["inbound_nodes"] = [[["masked", 0, 0, {}]], [["in", 0, 0, {}]]]
    last = layer("LSTM", "last")
    for call, masked in ((1, True), (2, False)):
        last["inbound_nodes"] = [[["tower", call, 0, {}], ["in", 0, 0, {}]]]  # an initial state
        other = layer("Dense", "other")
        other["inbound_nodes"] = [[["tower", 3 - call, 0, {}]]]
        assert bool(refused([*MASKED, tower, other, last], repeats=False)) is masked


def test_an_initial_state_takes_the_mask_away_in_keras_3() -> None:
    last = layer("LSTM", "last", "masked")
    assert not refused([*MASKED, last], repeats=False)
    last["inbound_nodes"] = [[["masked", 0, 0, {"initial_state": [["h", 0, 0], ["c", 0, 0]]}]]]
    (said,) = refused([*MASKED, layer("InputLayer", "h"), layer("InputLayer", "c"), last], repeats=False)
    assert said == "layer 'last': it takes initial states, and to such a call Keras 3 gives no mask"


@pytest.mark.parametrize(("sequences", "reader", "said"), [(False, "GRU", 1), (False, "Dense", 0), (True, "GRU", 0)])
def test_a_time_distributed_that_reduces_its_mask_is_refused_where_it_matters(
    sequences: bool, reader: str, said: int
) -> None:
    inner = {"class_name": "LSTM", "config": {"name": "inner", "return_sequences": sequences}}
    wrapped = layer("TimeDistributed", "each", "masked", layer=inner)
    assert len(refused([*MASKED, wrapped, layer(reader, "last", "each")], repeats=False)) == said


def test_steps_put_end_to_end_may_have_masks_of_their_own() -> None:
    two = [*MASKED, layer("Masking", "other", "in", mask_value=1.0)]
    for axis, said in ((1, 0), (-2, 0), (-1, 1)):
        joined = layer("Concatenate", "joined", "masked", "other", axis=axis)
        assert len(refused([*two, joined, layer("LSTM", "last", "joined")], repeats=False)) == said
        assert not refused([*two, joined, layer("Conv1D", "last", "joined")], repeats=False)  # heeds none


def test_models_in_models_are_walked_in_no_time() -> None:
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["sum", 0, 0]]}
    inside = layer("Dense", "inner")
    for _ in range(30):
        inside = {**inside, "inbound_nodes": [[["x", 0, 0, {}]], [["x", 0, 0, {}]]]}
        layers = [layer("InputLayer", "x"), inside, layer("Add", "sum", "inner", "inner")]
        inside = layer("Model", "inner", layers=layers, **ends)
    inside["inbound_nodes"] = [[["masked", 0, 0, {}]]]
    assert not refused([*MASKED, inside, layer("LSTM", "last", "inner")], repeats=False)


def test_a_sequential_that_begins_with_its_input_hands_the_mask_on() -> None:
    inside = [layer("InputLayer", "x"), both_ways(), READERS["Flatten"]]
    tower = layer(
        "Sequential", "tower", "masked", layers=[{k: one[k] for k in ("class_name", "config")} for one in inside]
    )
    assert ["'tower/reader'" in one for one in refused([*MASKED, tower], repeats=True)] == [True]
