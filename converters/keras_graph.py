"""The graph of a functional model's config, in the form that Keras 3 reads: which tensors each layer is called with.

Older versions write a call as a list of [layer, node, tensor, keywords]; Keras 3 still reads that where every tensor
is an input of its own. Knows no arrays, and of the layers only which are recurrent and which are Sequential.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rnnbridge.errors import FormatError

_RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "ConvLSTM2D", "CuDNNLSTM", "CuDNNGRU")
_ENDS = ("input_layers", "output_layers")


def upgraded_graph(config: Mapping[str, Any], layers: list[dict[str, Any]], version: int) -> dict[str, Any]:
    """A functional model's config with upgraded layers and its calls as Keras 3 reads them.

    Args:
        config: of the model, as its file has it.
        layers: its entries, already upgraded but for their calls.
        version: the major version of Keras that wrote it.
    """
    shifted = set(_counted_from_one(config, layers))
    ends = {key: _one_alone(_moved(config[key], shifted)) for key in _ENDS if key in config}
    if version < 3:
        shifted |= set(_functional_from_one(layers))
    return {**config, "layers": [_called(entry, shifted) for entry in layers], **ends}


def _called(entry: dict[str, Any], shifted: Collection[str]) -> dict[str, Any]:
    calls = entry.get("inbound_nodes", [])
    if not isinstance(calls, list):
        raise FormatError(f"layer {entry.get('name')!r}: its inbound_nodes are {type(calls).__name__}, not a list")
    return {**entry, "inbound_nodes": [_call(entry, call, shifted) for call in calls]}


def _call(entry: dict[str, Any], call: Any, shifted: Collection[str]) -> Any:
    if isinstance(call, dict):
        return call  # Keras 3's own form
    tensors = [_moved(one, shifted) for one in _tensors(entry, call)]
    keywords = dict(tensors[-1][3]) if tensors and len(tensors[-1]) > 3 else {}
    states = {}
    if entry["class_name"] in _RECURRENT and len(tensors) > 1:
        states = {"initial_state": [one[:3] for one in tensors[1:]]}
        tensors = tensors[:1]
    if not states and not any(_is_tensor(one) or isinstance(one, list) for one in keywords.values()):
        return [[*one[:3], keywords] for one in tensors]
    given = {key: _revived(value, shifted) for key, value in {**keywords, **states}.items() if value is not None}
    inputs = [keras_tensor(one) for one in tensors]
    return {"args": inputs if len(inputs) == 1 else [inputs], "kwargs": given}


def _tensors(entry: dict[str, Any], call: Any) -> Iterator[list[Any]]:
    if call and _is_tensor(call):  # newer tf.keras, where a call has one tensor alone
        call = [call]
    for one in call if isinstance(call, list) else [call]:
        if not _is_tensor(one) or min(one[1:3]) < 0:
            raise FormatError(
                f"layer {entry.get('name')!r}: a call with {str(one)[:80]}; [layer, node, tensor, keywords] is accepted"
            )
        yield one


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) and len(value) in (3, 4) and [type(one) for one in value[:3]] == [str, int, int]


def _revived(value: Any, shifted: Collection[str]) -> Any:
    if _is_tensor(value):
        return keras_tensor(_moved(value, shifted))
    return [_revived(one, shifted) for one in value] if isinstance(value, list) else value


def keras_tensor(tensor: list[Any]) -> dict[str, Any]:
    """Keras 3's form. It reads the history alone, so the shape may be any."""
    return {
        "class_name": "__keras_tensor__",
        "config": {"shape": [], "dtype": "float32", "keras_history": tensor[:3]},
    }


def _counted_from_one(config: Mapping[str, Any], layers: list[dict[str, Any]]) -> Iterator[str]:
    """The Sequential models in it whose first call is number 1, since older versions count the one that made them."""
    last: dict[str, int] = {}
    for name, node in _used(config):
        last[name] = max(node, last.get(name, 0))
    for entry in layers:
        if entry["class_name"] == "Sequential" and last.get(entry["name"], 0) >= len(entry.get("inbound_nodes", [])):
            yield entry["name"]


def _functional_from_one(layers: list[dict[str, Any]]) -> Iterator[str]:
    """The functional models among the layers. Keras 1 and 2 count their first call as number 1; Keras 3 as 0 where a
    layer takes what they give, and as 1 where it is an output of the model (get_tensor in its models/functional.py)."""
    numbers: dict[str, list[int]] = {}
    for name, node in _used([entry.get("inbound_nodes", []) for entry in layers]):
        numbers.setdefault(name, []).append(node)
    for entry in layers:
        if entry["class_name"] in ("Functional", "Model") and min(numbers.get(entry["name"], [0])) > 0:
            yield entry["name"]


def _used(value: Any) -> Iterator[tuple[str, int]]:
    """Every (layer, node) that the graph names; nested models have graphs of their own."""
    if _is_tensor(value):
        yield value[0], value[1]
        value = list(value[3].values()) if len(value) > 3 and isinstance(value[3], dict) else []
    if isinstance(value, Mapping) and "layers" in value:
        calls = [entry.get("inbound_nodes", []) for entry in value["layers"]]
        value = [calls, *(value.get(key, []) for key in _ENDS)]
    elif isinstance(value, Mapping):
        value = [value["config"]["keras_history"]] if value.get("class_name") == "__keras_tensor__" else value.values()
    if isinstance(value, (list, tuple, type({}.values()))):
        for one in value:
            yield from _used(one)


def _moved(value: Any, shifted: Collection[str]) -> Any:
    if _is_tensor(value):
        return [value[0], value[1] - (value[0] in shifted), *value[2:]]
    return [_moved(one, shifted) for one in value] if isinstance(value, list) else value


def _one_alone(ends: Any) -> Any:
    """A single input or output by itself: Keras 3 gives a list where the config has a list."""
    return ends[0] if isinstance(ends, list) and len(ends) == 1 and _is_tensor(ends[0]) else ends
