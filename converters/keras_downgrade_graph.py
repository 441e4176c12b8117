"""The graph of a functional model's config as Keras 2 reads it: a call is a list of [layer, node, tensor, keywords].

The other way is keras_graph's. Knows no arrays, and of the layers only which are recurrent and which are models.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rnnbridge.converters.keras_classes import CONTAINERS
from rnnbridge.errors import FormatError

_ENDS = ("input_layers", "output_layers")
_UNSAID = {"training": (None, False), "mask": (None,), "initial_state": (None,), "constants": (None,)}


def old_graph(config: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The layers, inputs and outputs of a functional model's config with its calls as Keras 2 has them.

    Args:
        config: its layers as Keras 2 has them but for their calls, its inputs and outputs.
        problems: where what Keras 2 cannot say is added.
    """
    layers = config["layers"]
    # Keras 2 counts the call that makes a nested model, so that the first one by somebody else is number 1. Keras 3
    # does so too where a functional one is an output, and nowhere else.
    nested = {entry["name"]: entry["class_name"] for entry in layers if _is_nested(entry) and _is_new(entry)}
    sequential = {name for name, kind in nested.items() if kind == "Sequential"}
    ends = {key: [_moved(one, sequential) for one in _listed(config, key, problems)] for key in _ENDS if key in config}
    called = [_with_calls(entry, nested, problems) for entry in layers]
    return {"layers": called, **ends}


def _is_nested(entry: Mapping[str, Any]) -> bool:
    return entry["class_name"] in CONTAINERS


def _is_new(entry: Mapping[str, Any]) -> bool:
    return any(isinstance(call, dict) for call in entry.get("inbound_nodes", []))


def _listed(config: Mapping[str, Any], key: str, problems: list[str]) -> list[list[Any]]:
    """The tensors that a model begins or ends with."""
    ends, what = config[key], f"the {key.replace('_layers', 's')} of the model {config.get('name')!r}"
    if _is_tensor(ends):
        return [ends]
    if not _is_structure(ends):
        raise FormatError(
            f"{what} are {str(ends)[:80]}; [layer, node, tensor], or lists or dicts of these are accepted"
        )
    if isinstance(ends, list) and all(map(_is_tensor, ends)):
        return ends
    form = f"a dict with the keys {', '.join(ends)}" if isinstance(ends, dict) else "a list with lists or dicts in it"
    problems.append(
        f"{what} are {form}, and Keras 2 has a flat list of them; build the model with a flat list in Keras 3 first"
    )
    return []


def _is_structure(value: Any) -> bool:
    """Whether this is tensors in lists and dicts, as Keras 3 has them for what a model takes and gives."""
    if _is_tensor(value) or not isinstance(value, (list, dict)):
        return _is_tensor(value)
    return all(map(_is_structure, value.values() if isinstance(value, dict) else value))


def _with_calls(entry: dict[str, Any], shifted: Collection[str], problems: list[str]) -> dict[str, Any]:
    calls = entry.get("inbound_nodes", [])
    if not isinstance(calls, list):
        raise FormatError(f"layer {entry.get('name')!r}: its inbound_nodes are {type(calls).__name__}, not a list")
    return {
        **entry,
        "inbound_nodes": [
            _old_call(entry, call, shifted, problems) if isinstance(call, dict) else call for call in calls
        ],
    }


def _old_call(entry: dict[str, Any], call: dict[str, Any], shifted: Collection[str], problems: list[str]) -> list[Any]:
    """One call: the tensors it takes, an initial state's after the input's, as Keras 2's recurrent layers have it."""
    args, kwargs = call.get("args", []), dict(call.get("kwargs", {}))
    first = args[0] if len(args) == 1 else args
    given = [*_tensors(first), *_tensors(kwargs.pop("initial_state", None))]
    plain = {key: value for key, value in kwargs.items() if value not in _UNSAID.get(key, ())}
    if any(one is None for one in given) or any(map(_holds_tensors, plain.values())):
        problems.append(f"layer {entry.get('name')!r}: a call with {str(call)[:120]}, which Keras 2 has no words for")
        return []
    return [[*_moved(one, shifted), plain] for one in given if one is not None]


def _tensors(value: Any) -> Iterator[list[Any] | None]:
    """The tensors in one argument; None for what is no tensor."""
    if value is None:
        return
    for one in value if isinstance(value, list) else [value]:
        is_one = isinstance(one, dict) and one.get("class_name") == "__keras_tensor__"
        history = one["config"].get("keras_history") if is_one else None
        yield history if _is_tensor(history) else None


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_holds_tensors, value))
    return isinstance(value, dict) and "class_name" in value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) and len(value) in (3, 4) and [type(one) for one in value[:3]] == [str, int, int]


def _moved(tensor: list[Any], shifted: Collection[str]) -> list[Any]:
    return [tensor[0], tensor[1] + (tensor[0] in shifted), tensor[2]]
