"""From what a file of PyTorch holds to a state_dict: dicts, checkpoints, whole modules, TorchScript. Opens no file.

A module's tensors have the names that its state_dict would give them. What a module says of itself beyond its arrays,
its activation and its order of sequences, is kept too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rnnbridge.converters.pytorch_archive import Contents
from rnnbridge.converters.pytorch_names import NAME, UNNAMED, Said, State
from rnnbridge.converters.pytorch_storages import Tensor
from rnnbridge.errors import FormatError
from rnnbridge.files.unpickle import Inert

_USUAL_KEYS = ("state_dict", "model_state_dict", "model")
_DEPTH = 2  # {"model": {"rnn.weight_ih_l0": ...}} is one
_MODULES_DEPTH = 100
_MOST_VISITS = 1 << 18  # modules that share modules could name exponentially many
_RECURRENT = ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")
_OF_A_QUANTISED = "._all_weight_values."
_MODES = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}


def state_of(contents: Contents) -> tuple[State, dict[str, Said]]:
    """The arrays in a file by name, and what its modules say of themselves, by the name of the layer.

    Raises:
        FormatError: neither a dict nor a module, a tensor that its storage does not hold, or a quantised RNN.
    """
    storages = contents.storages
    value = _Modules(storages.where).unfolded(contents.value)
    if not isinstance(value, dict):
        kind = value.what if isinstance(value, Inert) else type(value).__name__
        raise FormatError(f"{storages.where} holds a {kind}; a state_dict, a dict with one in it or a module is read")
    found = dict(flattened(value, (Tensor, Said, Inert), _Modules(storages.where).unfolded))
    tensors = {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}
    said = {name.removesuffix(".") or UNNAMED: one for name, one in found.items() if isinstance(one, Said)}
    if quantised := next((name for name in found if _OF_A_QUANTISED in f".{name}"), None):
        raise _refused(storages.where, quantised, "a quantised torch.nn layer")
    arrays = {name: storages.array(name, tensor) for name, tensor in tensors.items() if not tensor.unreadable}
    narrow = {name: tensors[name].dtype for name in arrays if tensors[name].dtype in ("float16", "bfloat16")}
    unreadable = {name: tensor.unreadable for name, tensor in tensors.items() if tensor.unreadable}
    return State(arrays, narrow, unreadable), said


def flattened(
    loaded: Mapping[Any, Any],
    leaves: type | tuple[type, ...],
    unfold: Callable[[Any], Any] = lambda value: value,
    prefix: str = "",
    depth: int = _DEPTH,
) -> Iterator[tuple[str, Any]]:
    """Name -> leaf of a dict; nested dicts become prefixes, one under a usual key has none."""
    items = {key: unfold(value) for key, value in loaded.items()}
    usual = [key for key in _USUAL_KEYS if isinstance(items.get(key), Mapping)]
    for key, value in items.items():
        if isinstance(value, leaves):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping) and depth:
            inner = prefix if usual == [key] else f"{prefix}{key}."
            yield from flattened(value, leaves, unfold, inner, depth - 1)


class _Modules:
    """Makes of a placeholder for a module what its state_dict would be, and of one for a dict its items."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._visits = 0

    def unfolded(self, value: Any) -> Any:
        """A dict: name -> tensor, and layer's prefix -> what its module says. What is no module stays as it is."""
        if not isinstance(value, Inert):
            return value
        if _parts(value) is not None:
            return dict(self._walk(value, "", 0))
        return value.items or value

    def _walk(self, module: Inert, prefix: str, depth: int) -> Iterator[tuple[str, Tensor | Said]]:
        self._visits += 1
        if self._visits > _MOST_VISITS or depth > _MODULES_DEPTH:
            raise FormatError(f"{self._where}: modules within modules without end")
        if "quantized" in module.what.module and module.what.name in _RECURRENT:
            raise _refused(self._where, prefix, f"a {module.what}")
        tensors, modules = _parts(module) or ({}, {})
        yield from ((f"{prefix}{name}", tensor) for name, tensor in tensors.items())
        if any(NAME.fullmatch(str(name)) for name in tensors):
            yield prefix, _said(module.state)
        for name, inner in modules.items():
            if isinstance(inner, Inert):
                yield from self._walk(inner, f"{prefix}{name}.", depth + 1)


def _parts(value: Inert) -> tuple[dict[Any, Tensor], dict[Any, Any]] | None:
    """A module's own tensors and the modules in it; None if it is no module."""
    state = value.state
    if not isinstance(state, dict):
        return None
    if value.what.module.startswith("__torch__"):
        return _tensors(state), state
    parameters, buffers, modules = (state.get(key) for key in ("_parameters", "_buffers", "_modules"))
    if not (isinstance(parameters, dict) and isinstance(buffers, dict) and isinstance(modules, dict)):
        return None
    unsaved = _members(state.get("_non_persistent_buffers_set"))
    kept = {name: tensor for name, tensor in buffers.items() if name not in unsaved}
    return {**_tensors(parameters), **_tensors(kept)}, modules


def _tensors(values: Mapping[Any, Any]) -> dict[Any, Tensor]:
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _members(value: Any) -> list[Any]:
    """The members of a set: a list from newer pickles, a call of `set` in older ones."""
    if isinstance(value, Inert) and value.arguments:
        value = value.arguments[0]
    return value if isinstance(value, list) else []


def _said(state: Mapping[str, Any]) -> Said:
    batch_first = state.get("batch_first")
    nonlinearity = _MODES.get(str(state.get("mode")), state.get("nonlinearity"))
    return Said(
        batch_first=batch_first if isinstance(batch_first, bool) else None,
        nonlinearity=nonlinearity if isinstance(nonlinearity, str) else None,
    )


def _refused(where: str, name: str, kind: str) -> FormatError:
    return FormatError(
        f"{where}: {name.removesuffix('.') or UNNAMED} is of {kind}, whose weights are eight-bit numbers and scales; "
        "convert the model from before it was quantised"
    )
