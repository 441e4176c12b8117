"""One LSTM, GRU or RNN node read: every attribute honoured or refused by name. Knows nothing of the nodes around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.activation import Activation
from rnnbridge.convention import Convention
from rnnbridge.converters.onnx_bytes import onnx_package
from rnnbridge.converters.onnx_graph import Scope, input_of
from rnnbridge.converters.onnx_rows import INPUTS, ROWS, STANDARD, decimal, read_activations
from rnnbridge.errors import FormatError, LayoutError, SpecError
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Origin, RNNWeights

Array = NDArray[Any]

# GRU-1 and its likes misspell their default; a file may have it written out.
_DIRECTIONS = {name: name for name in ("forward", "reverse", "bidirectional")} | {"foward": "forward"}
_FLOATS = ("float32", "float64", "float16", "bfloat16")
_LARGEST = float(np.finfo(np.float32).max)


def is_recurrent(node: Any) -> bool:
    """Whether a node is one of ONNX's own recurrent operators."""
    return node.op_type in ROWS and node.domain in ("", "ai.onnx")


def read_node(node: Any, scope: Scope, what: str) -> RNNWeights:
    """The layer of one node.

    Args:
        what: how an error names it, e.g. "model.onnx: LSTM node '/rnn/LSTM'".

    Returns:
        The weights; how its two directions are joined is the graph's affair, here they come side by side.

    Raises:
        FormatError: an attribute that is unknown or cannot be held, a weight that is no constant, shapes that do not
            fit.
    """
    arrays = _stored_arrays(node, scope, what)
    return weights_of_node(node, scope.opset, arrays, what)


def weights_of_node(node: Any, opset: int, arrays: Mapping[str, Array], what: str) -> RNNWeights:
    """The same from arrays at hand, under the names W, R, B and P."""
    row = ROWS[node.op_type]
    try:
        attributes = _attributes(node, opset)
        direction = _direction(attributes)
        sizes = row.sizes(arrays, 2 if direction == "bidirectional" else 1)
        spec = RNNSpec(
            cell=row.cell,
            input_size=sizes["input_size"],
            hidden_size=_hidden_size(attributes, sizes["hidden_size"]),
            bias=row.bias_of(arrays),
            direction=direction,  # type: ignore[arg-type]
            activations=_activations(node.op_type, attributes, direction),
            clip=_clip(attributes),
            **_of_the_cell(row, attributes, arrays),
        )
        batch_first = bool(attributes.get("layout", 0))
        return RNNWeights(spec, row.read(_one_dtype(arrays), spec), _origin(row, opset, spec, batch_first))
    except (FormatError, LayoutError, SpecError) as error:
        raise FormatError(f"{what}: {error}") from error


def _stored_arrays(node: Any, scope: Scope, what: str) -> dict[str, Array]:
    wanted = {slot.name: input_of(node, INPUTS.index(slot.name)) for slot in ROWS[node.op_type].slots}
    arrays = {}
    for slot, name in wanted.items():
        if name:
            try:
                arrays[slot] = scope.constant(name)
            except FormatError as error:
                raise FormatError(f"{what}: its input {slot} is not stored in the model: {error}") from error
    return arrays


def _attributes(node: Any, opset: int) -> dict[str, Any]:
    onnx = onnx_package()
    try:
        known = onnx.defs.get_schema(node.op_type, opset, "").attributes
    except onnx.defs.SchemaError as error:
        raise FormatError(f"there is no {node.op_type} in opset {opset}") from error
    given = {attribute.name: attribute for attribute in node.attribute}
    if unknown := sorted(set(given) - set(known)):
        raise FormatError(
            f"unknown attribute {', '.join(unknown)}; {node.op_type} of opset {opset} has {', '.join(sorted(known))}"
        )
    if wrong := [name for name, one in given.items() if one.type != int(known[name].type.value)]:
        raise FormatError(f"attribute {', '.join(wrong)} is of another type than {node.op_type} of opset {opset} has")
    return {name: _plain(onnx.helper.get_attribute_value(one)) for name, one in given.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _direction(attributes: Mapping[str, Any]) -> str:
    given = attributes.get("direction", "forward")
    if given not in _DIRECTIONS:
        raise FormatError(f"direction is {given!r}; it is forward, reverse or bidirectional")
    return _DIRECTIONS[given]


def _hidden_size(attributes: Mapping[str, Any], found: int) -> int:
    stated = attributes.get("hidden_size", found)
    if stated != found:
        raise FormatError(f"hidden_size is {stated}, but its arrays W and R are for {found}")
    return found


def _activations(operator: str, attributes: Mapping[str, Any], direction: str) -> tuple[Activation, ...]:
    count = 2 if direction == "bidirectional" else 1
    names = attributes.get("activations") or list(STANDARD[operator]) * count
    slots = len(STANDARD[operator])
    if len(names) != slots * count:
        raise FormatError(f"activations has {len(names)} names; {operator} {direction} takes {slots * count}")
    found = read_activations(names, attributes.get("activation_alpha", ()), attributes.get("activation_beta", ()))
    first, second = tuple(found[:slots]), tuple(found[-slots:])
    if first != second:
        each = [", ".join(map(str, half)) for half in (first, second)]
        raise FormatError(f"its directions have different activations ({each[0]}; {each[1]}); one layer has one set")
    return first


def _clip(attributes: Mapping[str, Any]) -> float | None:
    clip = float(attributes.get("clip", _LARGEST))
    if clip >= _LARGEST:
        return None
    if not clip > 0:
        raise FormatError(f"clip is {clip}; it is a number above 0")
    return decimal(clip)


def _of_the_cell(row: Convention, attributes: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    if row.cell == "gru":
        return {"reset": "after" if attributes.get("linear_before_reset", 0) else "before"}
    if row.cell == "lstm":
        return {"peephole": "P" in arrays, "coupled": "f=1-i" if attributes.get("input_forget", 0) else None}
    return {}


def _one_dtype(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    found = sorted({str(array.dtype) for array in arrays.values()})
    if len(found) > 1 or found[0] not in _FLOATS:
        raise FormatError(f"its arrays are {' and '.join(found)}; all are one of {', '.join(_FLOATS)}")
    return arrays


def _origin(row: Convention, opset: int, spec: RNNSpec, batch_first: bool) -> Origin:
    evidence = [f"operator {row.layer} of opset {opset}"]
    if spec.reset:
        evidence.append(f"linear_before_reset={int(spec.reset == 'after')}: reset {spec.reset} the recurrent product")
    if batch_first:
        evidence.append("layout=1: sequences are [N, T, I]")
    return Origin(framework="onnx", convention=row.name, batch_first=batch_first, evidence=tuple(evidence))
