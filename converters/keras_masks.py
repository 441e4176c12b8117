"""Masks that a merging layer joins: by all in Keras 2 and by any in Keras 3, so that unequal ones come out different.

A mask is known by what computes it, so two inputs with one mask are no obstacle. Knows configs of Keras 2, no arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rnnbridge.converters.keras_classes import CONTAINERS

Mask = tuple[Any, ...] | None
_MERGES = ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract")
_RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional")
_DROP = ("Flatten", "Reshape", "Permute", "RepeatVector", "Dot", "InputLayer", "Embedding")
_PASS = (
    "Activation", "ActivityRegularization", "AlphaDropout", "BatchNormalization", "Dense", "Dropout", "ELU",
    "GaussianDropout", "GaussianNoise", "LayerNormalization", "LeakyReLU", "PReLU", "ReLU", "SpatialDropout1D",
)  # fmt: skip
_UNEQUAL = "unequal"


def unequal_masks(config: Mapping[str, Any]) -> Iterator[str]:
    """What in a functional model of Keras 2 would see another mask in Keras 3, one sentence each."""
    masks: dict[tuple[str, int], Mask] = {}
    waiting = [(entry, k, call) for entry in config["layers"] for k, call in enumerate(entry.get("inbound_nodes", []))]
    while waiting:
        later = []
        for entry, number, call in waiting:
            tensors = [one for one in _listed(call) if isinstance(one, list) and len(one) > 2]
            keys = [(one[0], one[1]) for one in tensors]
            if any(_missing(key, masks, config) for key in keys):
                later.append((entry, number, call))
                continue
            inputs = [_of(key, masks) for key in keys]
            if not _ignores(entry) and (found := next((one for one in inputs if one and one[0] == _UNEQUAL), None)):
                yield (
                    f"layer {entry['name']!r}: its mask is joined of unequal ones in {found[1]!r}, by all in "
                    "Keras 2 and by any in Keras 3"
                )
            masks[entry["name"], number] = _after(entry, keys, inputs)
        if len(later) == len(waiting):
            return  # a damaged graph, of which others say more
        waiting = later


def _listed(call: Any) -> list[Any]:
    if not isinstance(call, list):
        return []
    return [call] if call and isinstance(call[0], str) else call


def _missing(key: tuple[str, int], masks: Mapping[tuple[str, int], Mask], config: Mapping[str, Any]) -> bool:
    known = any(name == key[0] for name, _ in masks)
    made = any(entry.get("name") == key[0] and entry.get("inbound_nodes") for entry in config["layers"])
    return made and not (key in masks or (known and (key[0], key[1] - 1) in masks))


def _of(key: tuple[str, int], masks: Mapping[tuple[str, int], Mask]) -> Mask:
    """A nested model's first call is number 1 in older files."""
    return masks.get(key, masks.get((key[0], key[1] - 1)))


def _ignores(entry: Mapping[str, Any]) -> bool:
    """Whether a layer's numbers are the same whatever the mask is."""
    return entry["class_name"] in (*_PASS, *_MERGES, *_DROP)


def _after(entry: Mapping[str, Any], keys: list[tuple[str, int]], inputs: list[Mask]) -> Mask:
    """The mask that comes out of a layer."""
    kind, config = entry["class_name"], entry["config"]
    if kind == "Masking":
        return (kind, *keys, config.get("mask_value"))
    if kind == "Embedding":
        return (kind, *keys) if config.get("mask_zero") else None
    if kind in _MERGES:
        return _joined(entry, inputs)
    if kind in _RECURRENT:
        inner = config.get("layer", {}).get("config", config) if kind == "Bidirectional" else config
        return inputs[0] if inner.get("return_sequences") and inputs else None
    if kind == "TimeDistributed" or kind in _PASS:
        return inputs[0] if inputs else None
    return (kind, entry["name"], *inputs) if kind in CONTAINERS and any(inputs) else None


def _joined(entry: Mapping[str, Any], inputs: list[Mask]) -> Mask:
    if all(one == inputs[0] for one in inputs):
        return inputs[0]
    over_time = entry["class_name"] == "Concatenate" and entry["config"].get("axis") == 1
    return (entry["class_name"], entry["name"], *inputs) if over_time else (_UNEQUAL, entry["name"])
