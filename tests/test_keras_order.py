"""The order that Keras 3 gives the layers of a graph, by which it finds their arrays, and how it counts their calls."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import rnnbridge as rb
from rnnbridge.converters.keras_graph import upgraded_graph
from rnnbridge.converters.keras_masks import mask_differences
from tests.test_keras_masks import layer
from tests.test_keras_write import imported


def two_towers(*, masked_first: bool, late: bool) -> dict[str, Any]:
    """Two layers of one class side by side, one before a mask is computed from it (late) or after."""
    through = ["q", "masking"] if late else ["masking", "q"]
    masked = [layer("InputLayer", "b"), *(layer("Masking" if one == "masking" else "LSTM", one) for one in through)]
    for one, other in pairwise(masked):
        other["inbound_nodes"] = [[[one["name"], 0, 0, {}]]]
    for one in masked:
        one["config"]["return_sequences"] = True
    plain = [layer("InputLayer", "a"), layer("LSTM", "p", "a", return_sequences=True)]
    layers = [*masked, *plain] if masked_first else [*plain, *masked]
    layers.append(layer("Average", "mean", "p", through[1]))
    ends = {"input_layers": [["a", 0, 0], ["b", 0, 0]], "output_layers": [["mean", 0, 0]]}
    return {"class_name": "Model", "config": {"layers": layers, **ends}}


@pytest.mark.parametrize(("masked_first", "late", "said"), [(False, True, 1), (True, True, 0), (False, False, 0)])
def test_layers_that_keras_3_might_order_otherwise_are_refused(masked_first: bool, late: bool, said: int) -> None:
    found, _ = mask_differences(two_towers(masked_first=masked_first, late=late), False, archive=True)
    assert len(found) == said
    assert all("layer 'q': in Keras 3 it might come before layer 'p'" in one for one in found)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_masked_and_unmasked_layers_side_by_side_keep_their_arrays_or_are_refused(suffix: str, tmp_path: Path) -> None:
    """Dense p and q are alike, and Keras 3 puts q first where p was, since a mask is computed from what q gives."""
    keras_2 = imported("tf_keras")
    layers = keras_2.layers
    one, two = layers.Input((7, 5)), layers.Input((7, 5))
    through = layers.Activation("tanh")(layers.Dense(5, name="p")(one))
    masked = layers.Masking()(layers.Dense(5, name="q")(two))
    joined = layers.Concatenate()([layers.LSTM(3)(through), layers.LSTM(3)(masked)])
    keras_2.Model([one, two], joined).save(tmp_path / "old.keras")
    with pytest.raises(rb.Incompatible, match="layer 'q': in Keras 3 it might come before layer 'p'"):
        rb.convert(tmp_path / "old.keras", tmp_path / f"new{suffix}", verify=False)
    assert [path.name for path in tmp_path.iterdir()] == ["old.keras"]


@pytest.mark.parametrize(("version", "number"), [(1, 0), (2, 0), (3, 1)])
def test_the_first_call_of_a_tower_that_feeds_a_layer_is_number_0_in_keras_3(version: int, number: int) -> None:
    """Containers start with a node that links their input to their output: see Container.get_config of Keras 1."""
    last = layer("Dense", "last")
    last["inbound_nodes"] = [[["tower", 1, 0, {}]]]
    layers = [layer("InputLayer", "in"), layer("Functional", "tower", "in", layers=[]), last]
    ends = {"input_layers": [["in", 0, 0]], "output_layers": [["last", 0, 0]]}
    new = upgraded_graph({"layers": layers, **ends}, layers, version)
    assert new["layers"][-1]["inbound_nodes"] == [[["tower", number, 0, {}]]]
