"""Masks that Keras 2 makes, joins or fills otherwise than Keras 3: what heeds or ignores them would come out different.

A mask is known by what computes it, so two inputs with one mask are no obstacle. Knows configs of Keras 2, no arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rnnbridge.converters.keras_classes import CONTAINERS

Key = tuple[str, int]  # a layer and the number of its call
Mask = tuple[Any, ...] | None
_MERGES = ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract")
_RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional")
_DROP = ("Flatten", "Reshape", "Permute", "RepeatVector", "Dot", "InputLayer", "Embedding")
_PASS = (
    "Activation", "ActivityRegularization", "AlphaDropout", "BatchNormalization", "Dense", "Dropout", "ELU",
    "GaussianDropout", "GaussianNoise", "LayerNormalization", "LeakyReLU", "PReLU", "ReLU", "SpatialDropout1D",
)  # fmt: skip
_HEEDS = (*_RECURRENT, "GlobalAveragePooling1D")  # they read no step that is masked
_UNEQUAL = "unequal"


def mask_differences(config: Mapping[str, Any], repeats: bool) -> Iterator[str]:
    """What in a model of Keras 2 would see another mask, or other numbers past one, in Keras 3, one sentence each.

    Args:
        config: of a functional model or a Sequential.
        repeats: whether its Bidirectional gives its last output again past a mask, where that of Keras 3 gives zeros.
    """
    masks: dict[Key, Mask] = {}
    repeated: dict[Key, str | None] = {}
    for entry, key, keys in _calls(config):
        kind, (name, _) = entry["class_name"], key
        inputs = [_of(one, masks) for one in keys]
        past = next(filter(None, (_of(one, repeated) for one in keys)), None)
        if kind == "TimeDistributed" and _masks(entry["config"].get("layer", {})):
            yield f"layer {name!r}: TimeDistributed hands on its own layer's mask in Keras 2, and does not in Keras 3"
        if kind == "Softmax" and any(inputs):
            yield f"layer {name!r}: Softmax leaves masked steps out in Keras 3, and does not look at masks in Keras 2"
        if not _ignores(entry) and (found := next((one for one in inputs if one and one[0] == _UNEQUAL), None)):
            yield (
                f"layer {name!r}: its mask is joined of unequal ones in {found[1]!r}, by all in Keras 2 and by any in "
                "Keras 3"
            )
        if past and kind not in _HEEDS and not _carries(kind):
            yield (
                f"layer {name!r}: it reads what {past!r} gives past a mask, its last output again in this Keras and "
                "zeros in Keras 3"
            )
        masks[key] = _after(entry, keys, inputs)
        repeated[key] = past if _carries(kind) else None
        if repeats and kind == "Bidirectional" and inputs and inputs[0] and masks[key]:
            repeated[key] = name


def _calls(config: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Key, list[Key]]]:
    """Every call of a layer after those whose results it takes: the layer, what names the call, and what it takes."""
    entries = config["layers"]
    if not any("inbound_nodes" in entry for entry in entries):  # a Sequential
        before: list[Key] = []
        for number, entry in enumerate(entries):
            inner = entry["config"]
            key = (str(inner.get("name", number)) if isinstance(inner, Mapping) else str(number), 0)
            yield entry, key, before
            before = [key]
        return
    done: dict[Key, None] = {}
    waiting = [(entry, k, call) for entry in entries for k, call in enumerate(entry.get("inbound_nodes", []))]
    while waiting:
        later = []
        for entry, number, call in waiting:
            keys = [(one[0], one[1]) for one in _listed(call) if isinstance(one, list) and len(one) > 2]
            if any(_missing(key, done, config) for key in keys):
                later.append((entry, number, call))
                continue
            yield entry, (entry["name"], number), keys
            done[entry["name"], number] = None
        if len(later) == len(waiting):
            return  # a damaged graph, of which others say more
        waiting = later


def _listed(call: Any) -> list[Any]:
    if not isinstance(call, list):
        return []
    return [call] if call and isinstance(call[0], str) else call


def _missing(key: Key, done: Mapping[Key, Any], config: Mapping[str, Any]) -> bool:
    known = any(name == key[0] for name, _ in done)
    made = any(entry.get("name") == key[0] and entry.get("inbound_nodes") for entry in config["layers"])
    return made and not (key in done or (known and (key[0], key[1] - 1) in done))


def _of(key: Key, found: Mapping[Key, Any]) -> Any:
    """A nested model's first call is number 1 in older files."""
    return found.get(key, found.get((key[0], key[1] - 1)))


def _carries(kind: str) -> bool:
    """Whether a layer turns each step into a step, and its input's mask is its output's."""
    return kind in (*_PASS, *_MERGES, "TimeDistributed")


def _ignores(entry: Mapping[str, Any]) -> bool:
    """Whether a layer's numbers are the same whatever the mask is."""
    return entry["class_name"] in (*_PASS, *_MERGES, *_DROP)


def _after(entry: Mapping[str, Any], keys: list[Key], inputs: list[Mask]) -> Mask:
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
    if kind in CONTAINERS and (any(inputs) or any(map(_masks, config.get("layers", ())))):
        return (kind, entry["name"], *keys, *inputs)
    return None


def _masks(entry: Mapping[str, Any]) -> bool:
    """Whether a layer makes a mask, or has one that does."""
    config = entry.get("config", {})
    inner = config.get("layers", ()) if isinstance(config, Mapping) else config
    makes = entry.get("class_name") == "Masking" or (isinstance(config, Mapping) and bool(config.get("mask_zero")))
    return makes or any(map(_masks, inner))


def _joined(entry: Mapping[str, Any], inputs: list[Mask]) -> Mask:
    if all(one == inputs[0] for one in inputs):
        return inputs[0]
    over_time = entry["class_name"] == "Concatenate" and entry["config"].get("axis") == 1
    return (entry["class_name"], entry["name"], *inputs) if over_time else (_UNEQUAL, entry["name"])
