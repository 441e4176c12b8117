"""Masks as arguments of calls in an upgraded config, and the operations that compute them.

Keras 3 hands a mask on by itself, but not to a call with initial states: its `RNN.call` takes two tensors there, and
Layer.__call__ looks for a `sequences_mask` (keras/src/layers/layer.py). Knows configs of Keras 3; no arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rnnbridge.catalogue import CarriedLayer
from rnnbridge.converters.keras_calls import name_of_entry
from rnnbridge.converters.keras_entry import Entry
from rnnbridge.converters.keras_graph import keras_tensor
from rnnbridge.errors import FormatError

Calls = Mapping[tuple[str, int], tuple[str, int]]
"""A layer and the number of its call -> the Masking or Embedding that makes its mask, and the number of that call."""
Givers = Mapping[str, Calls]
"""The same for every model in a model, by its path: "" or "outer/inner/"."""

_MODULE = "keras.src.ops.numpy"  # as Keras 3 writes it; without it a `.h5` file is searched for a layer of that name


def with_masks(model: Entry, givers: Givers) -> Entry:
    """An upgraded model in which these calls are given their masks.

    Raises:
        FormatError: a model in it whose name is not where it should be.
    """
    left = dict(givers)
    out = _model(model, left, "")
    if left:
        raise FormatError(f"the models {', '.join(left)} in the model's config have no names by which they are found")
    return out


def told_of_masks(layers: Sequence[CarriedLayer], givers: Givers) -> list[CarriedLayer]:
    """The layers of the report; those that are given masks say so."""
    makers = {path + name: maker for path, calls in givers.items() for (name, _), (maker, _) in calls.items()}
    told = "the mask of {!r} is given in the call: Keras 3 hands none to a call with initial states"
    return [
        replace(one, changes=(*one.changes, told.format(makers[one.name]))) if one.name in makers else one
        for one in layers
    ]


def _model(entry: Entry, left: dict[str, Calls], path: str) -> Entry:
    config = entry.get("config")
    if not isinstance(config, Mapping):
        return entry
    if isinstance(inner := config.get("layer"), dict):  # in a TimeDistributed, whose name is the last of the path
        return {**entry, "config": {**config, "layer": _model(inner, left, path)}}
    if not isinstance(config.get("layers"), list):
        return entry
    layers = [_model(one, left, f"{path}{name_of_entry(one)}/") for one in config["layers"]]
    return {**entry, "config": {**config, "layers": _masked(layers, left.pop(path, {}))}}


def _masked(layers: list[Entry], calls: Calls) -> list[Entry]:
    names = {name_of_entry(entry) for entry in layers}
    makers = {maker for maker, _ in calls.values()}
    masks: dict[str, str] = {}
    out: list[Entry] = []
    for entry in layers:
        operations = _operations(entry, names) if name_of_entry(entry) in makers else []
        out += [entry, *operations]
        masks |= {name_of_entry(entry): one["name"] for one in operations}  # the last one's
    given = {key: keras_tensor([masks[maker], number, 0]) for key, (maker, number) in calls.items()}
    return [_called(entry, given) for entry in out]


def _called(entry: Entry, masks: Mapping[tuple[str, int], Any]) -> Entry:
    name, calls = name_of_entry(entry), entry.get("inbound_nodes")
    if not any(name == layer for layer, _ in masks):
        return entry
    new = [
        {**call, "kwargs": {**call["kwargs"], "mask": masks[name, number]}} if (name, number) in masks else call
        for number, call in enumerate(calls or [])
    ]
    return {**entry, "inbound_nodes": new}


def _operations(entry: Entry, names: set[str]) -> list[Entry]:
    """What `compute_mask` of an Embedding or a Masking does, for each of its calls."""
    given = [call["args"][0] if isinstance(call, dict) else keras_tensor(call[0]) for call in entry["inbound_nodes"]]
    name = name_of_entry(entry)
    if entry["class_name"] == "Embedding":
        return [_operation("NotEqual", f"{name}_mask", names, {}, [[one, 0] for one in given])]
    value = entry["config"].get("mask_value", 0.0)
    unequal = _operation("NotEqual", f"{name}_unequal", names, {}, [[one, value] for one in given])
    steps = [[keras_tensor([unequal["name"], number, 0])] for number in range(len(given))]
    return [unequal, _operation("Any", f"{name}_mask", names, {"axis": -1, "keepdims": False}, steps)]


def _operation(kind: str, name: str, names: set[str], config: Entry, calls: list[list[Any]]) -> Entry:
    while name in names:
        name += "_"
    names.add(name)
    return {
        "module": _MODULE,
        "class_name": kind,
        "config": {"name": name, **config},
        "registered_name": kind,
        "name": name,
        "inbound_nodes": [{"args": args, "kwargs": {}} for args in calls],
    }
