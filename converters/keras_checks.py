"""Whether a model's config and its arrays hang together: what no Keras would open is refused before it is written.

Knows what a container, a call and a layer's arrays look like in every version; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rnnbridge.converters.keras_classes import OWN_ARRAYS
from rnnbridge.converters.keras_hdf5 import LayeredFile
from rnnbridge.converters.keras_model import Layer
from rnnbridge.errors import FormatError

_ENDS = ("input_layers", "output_layers")
_SWITCHES = {"bias": "use_bias", "gamma": "scale", "beta": "center"}


def check_graph(model: Mapping[str, Any], path: str = "") -> None:
    """Check names and calls of a model and of the models in it.

    Raises:
        FormatError: two layers of one name, a name that no file can hold, or a call or an output that names no layer.
    """
    config = model["config"]
    entries = config["layers"] if isinstance(config, dict) else config
    names = [_name(entry) for entry in entries]
    for name in names:
        if name in (".", ".."):
            raise FormatError(f"the model has a layer {path + str(name)!r}, a name that no HDF5 file can hold")
        if names.count(name) > 1:
            raise FormatError(f"there are {names.count(name)} layers {path + str(name)!r} in the model's config")
    if isinstance(config, dict) and model["class_name"] != "Sequential":
        _check_ends(config, set(names), path)
        for entry in entries:
            calls, what = entry.get("inbound_nodes", []), f"layer {path + str(_name(entry))!r}"
            if not isinstance(calls, list):
                raise FormatError(f"{what}: its inbound_nodes are {str(calls)[:80]}; a list is accepted")
            _check_named(calls, set(names), f"{what}: a call")
    for entry in entries:
        if isinstance(inner := entry.get("config"), dict) and isinstance(inner.get("layers"), list):
            check_graph(entry, f"{path}{_name(entry)}/")


def check_arrays(file: LayeredFile) -> None:
    """Check that arrays and layers belong to each other.

    Raises:
        FormatError: arrays of no layer, or a layer without the arrays that its class has.
    """
    model = {layer.name: layer for layer in file.model or []}
    for group in file.layers:
        layer = model.get(group.name)
        if layer is None and group.weights:
            raise FormatError(f"layer {group.name!r} has arrays in the file, and the model's config has no such layer")
        if layer is not None and (wanted := _arrays_of(layer)) is not None and wanted != len(group.weights):
            have = len(group.weights)
            raise FormatError(
                f"layer {group.name!r} ({layer.kind}) has {have} arrays in the file, and {wanted} by its config"
            )
    stored = {group.name for group in file.layers}
    for name, layer in model.items():
        if name not in stored and _arrays_of(layer):
            raise FormatError(f"layer {name!r} is in the model's config, and the file has no weights of it")


def _arrays_of(layer: Layer) -> int | None:
    """How many arrays a layer's class has; None where that is not known here."""
    leaf = layer.children[0] if layer.kind == "TimeDistributed" and layer.children else layer
    if leaf.kind not in OWN_ARRAYS:
        return None
    return sum(leaf.config.get(_SWITCHES.get(name, ""), True) is not False for name in OWN_ARRAYS[leaf.kind])


def _name(entry: Mapping[str, Any]) -> Any:
    config = entry.get("config")
    own = config.get("name") if isinstance(config, dict) else None
    return entry.get("name") or own or id(entry)  # an old Sequential's layers may have none


def _check_ends(config: Mapping[str, Any], names: set[Any], path: str) -> None:
    for key in _ENDS:
        what = f"the model{f' {path[:-1]!r}' if path else ''}: its {key.replace('_layers', 's')}"
        if not list(_tensors(config.get(key))):
            raise FormatError(f"{what} are {str(config.get(key))[:80]}; tensors as [layer, node, tensor] are accepted")
        _check_named(config[key], names, what)


def _check_named(value: Any, names: set[Any], what: str) -> None:
    for layer in _tensors(value):
        if layer not in names:
            raise FormatError(f"{what} names {layer!r}, and there is no such layer")


def _tensors(value: Any) -> Iterator[str]:
    """The layers that tensors in a call are of."""
    if isinstance(value, dict):
        config = value.get("config")
        history = config.get("keras_history") if isinstance(config, dict) else None
        yield from _tensors(history if history else list(value.values()))
    elif _is_tensor(value):
        yield value[0]
        yield from _tensors(list(value[3:]))
    elif isinstance(value, list):
        for one in value:
            yield from _tensors(one)


def _is_tensor(value: Any) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str) or not 3 <= len(value) <= 4:
        return False
    return [type(one) for one in value[:3]] == [str, int, int]
