"""Masks in a Keras 3 graph that Keras 2 hands on by itself.

Keras 3 writes the mask of a Masking or an Embedding into a functional model's config: the operations that compute it,
and a keyword `mask` in every call that takes it. Keras 2 passes it along with the tensor. Where both come to the same
mask, keyword and operations can go. Knows configs; knows no arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Entry = Mapping[str, Any]
OPERATIONS = ("NotEqual", "Any", "LogicalOr")
_MERGES = ("Add", "Average", "Subtract")
_RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional")
# Layers that give their output the mask of their input, in Keras 2.3.1, tf_keras and Keras 3 alike.
_PASS = (
    "Activation ActivityRegularization AlphaDropout BatchNormalization Dense Dropout ELU GaussianDropout GaussianNoise "
    "LayerNormalization LeakyReLU PReLU ReLU SpatialDropout1D TimeDistributed"
).split()


class _Mask(NamedTuple):
    """Where a tensor differs from a value; `whole`: in any of its features."""

    tensor: tuple[Any, ...]
    value: Any
    whole: bool


def without_masks(layers: list[dict[str, Any]], ends: Any) -> list[dict[str, Any]]:
    """The entries of a functional model without what Keras 2 does by itself.

    Args:
        layers: the entries, with the calls of Keras 3.
        ends: the model's inputs and outputs, whose tensors are needed too.
    """
    entries = {entry.get("name"): entry for entry in layers}
    kept = [{**entry, "inbound_nodes": [_plain(call, entries) for call in _calls(entry)]} for entry in layers]
    while len(left := _needed(kept, ends)) < len(kept):
        kept = left
    return kept


def _needed(layers: list[dict[str, Any]], ends: Any) -> list[dict[str, Any]]:
    used = {name for entry in layers for call in _calls(entry) for name in _names(call)} | set(_names(ends))
    return [entry for entry in layers if entry["class_name"] not in OPERATIONS or entry.get("name") in used]


def _calls(entry: Entry) -> list[Any]:
    calls = entry.get("inbound_nodes", [])
    return calls if isinstance(calls, list) else []


def _names(value: Any) -> Iterator[Any]:
    """The layers whose tensors are named."""
    if isinstance(value, dict):
        value = [*value.get("config", {}).get("keras_history", [])[:1], *value.values()]
    if isinstance(value, list):
        for one in value:
            yield from _names(one)
    elif isinstance(value, str):
        yield value


def _plain(call: Any, entries: Mapping[Any, Entry]) -> Any:
    """A call without the mask that its first tensor brings along."""
    if not isinstance(call, dict) or (mask := _history(call.get("kwargs", {}).get("mask"))) is None:
        return call
    asked, brought = _computed(mask, entries), _brought(_first(call), entries)
    if asked is None or asked != brought:
        return call
    return {**call, "kwargs": {key: value for key, value in call["kwargs"].items() if key != "mask"}}


def _history(tensor: Any) -> tuple[Any, ...] | None:
    if not isinstance(tensor, dict) or tensor.get("class_name") != "__keras_tensor__":
        return None
    found = tensor["config"].get("keras_history")
    return tuple(found) if isinstance(found, list) and len(found) == 3 else None


def _first(call: Mapping[str, Any]) -> tuple[Any, ...] | None:
    return _history(call["args"][0]) if call.get("args") else None


def _merged(call: Mapping[str, Any]) -> list[tuple[Any, ...] | None]:
    """The tensors that a merging layer takes as one list."""
    first = call["args"][0] if call.get("args") else None
    return [_history(one) for one in first] if isinstance(first, list) else []


def _call_of(tensor: tuple[Any, ...], entries: Mapping[Any, Entry]) -> tuple[Entry, Mapping[str, Any]] | None:
    """The layer that made a tensor, and its call."""
    entry = entries.get(tensor[0])
    calls = _calls(entry) if entry else []
    call = calls[tensor[1]] if isinstance(tensor[1], int) and 0 <= tensor[1] < len(calls) else None
    return (entry, call) if entry and isinstance(call, dict) else None


def _computed(tensor: tuple[Any, ...], entries: Mapping[Any, Entry]) -> _Mask | None:
    """The mask that operations compute: x != value, any(x != value, axis=-1), or one of these joined with itself."""
    made, whole = _call_of(tensor, entries), False
    if made and made[0]["class_name"] == "LogicalOr":
        both = [_computed(one, entries) if one else None for one in map(_history, made[1].get("args", []))]
        return both[0] if len(both) == 2 and both[0] and both[0] == both[1] else None
    if made and made[0]["class_name"] == "Any" and made[0]["config"].get("axis") in (-1, [-1]):
        before, whole = _first(made[1]), True
        made = _call_of(before, entries) if before else None
    if not made or made[0]["class_name"] != "NotEqual" or len(made[1].get("args", [])) != 2:
        return None
    source = _first(made[1])
    return _Mask(source, made[1]["args"][1], whole) if source else None


def _brought(tensor: tuple[Any, ...] | None, entries: Mapping[Any, Entry]) -> _Mask | None:
    """The mask that comes along with a tensor."""
    while tensor and (made := _call_of(tensor, entries)):
        entry, call = made
        tensor, kind, config = _first(call), entry["class_name"], entry["config"]
        if kind == "Masking" and tensor:
            return _Mask(tensor, config.get("mask_value"), True)
        if kind == "Embedding" and config.get("mask_zero") and tensor:
            return _Mask(tensor, 0, False)
        if kind in _MERGES:
            masks = [_brought(one, entries) for one in _merged(call)]
            return masks[0] if masks and all(one == masks[0] for one in masks) else None
        inner = config["layer"]["config"] if kind == "Bidirectional" else config
        if kind not in _PASS and not (kind in _RECURRENT and inner.get("return_sequences")):
            return None
    return None
