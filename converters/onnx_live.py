"""ONNX objects in memory as live layers: a model, its bytes, its graph, or a node with its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Live, Settings
from rnnbridge.converters.onnx_bytes import is_model, onnx_package, parse
from rnnbridge.converters.onnx_graph import input_of
from rnnbridge.converters.onnx_node import is_recurrent, weights_of_node
from rnnbridge.converters.onnx_read import read_bundle
from rnnbridge.converters.onnx_rows import INPUTS, ROWS
from rnnbridge.converters.onnx_write import build_model
from rnnbridge.errors import ArgumentError, FormatError
from rnnbridge.rewrite import plan
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]
_HEAD = 512


def recognises(thing: Any) -> bool:
    """Whether a thing is a ModelProto, its bytes, a GraphProto, a NodeProto, or (NodeProto, {input name: array})."""
    if isinstance(thing, bytes):
        return is_model(thing[:_HEAD])
    if isinstance(thing, tuple):
        return len(thing) == 2 and _is_proto(thing[0], "NodeProto") and isinstance(thing[1], Mapping)
    return _is_proto(thing, "ModelProto", "GraphProto", "NodeProto")


def read(thing: Any) -> RNNWeights:
    """The one layer or stack of a live object.

    Raises:
        ArgumentError: a node without its arrays, or a model with no recurrent layer or several.
        FormatError: as for a file.
    """
    if isinstance(thing, tuple):
        return _read_node(*thing)
    if _is_proto(thing, "NodeProto"):
        raise ArgumentError(
            f"the node {thing.name!r} names its weights and does not hold them; give its model, "
            "or (node, {name: array}) with the arrays by the names of the node's inputs"
        )
    model = parse(thing, "these bytes") if isinstance(thing, bytes) else thing
    if _is_proto(thing, "GraphProto"):  # which does not say its opset: taken for one of today
        model = onnx_package().helper.make_model(thing)
    bundle = read_bundle(model, "this model", Settings())
    if len(bundle) != 1:
        found = f"{len(bundle)} recurrent layers ({', '.join(bundle)})" if bundle.layers else "no recurrent layer"
        raise ArgumentError(f"this model holds {found}, and one is wanted; save it and use rb.load")
    return next(iter(bundle.layers.values()))


def write(weights: RNNWeights, into: Any, batch_first: bool | None) -> Any:
    """A ModelProto of the layer or stack."""
    if into is not None:
        raise ArgumentError("an ONNX model is made anew: leave into= out")
    found = plan(weights, ROWS.values())
    order = bool(weights.origin.order(batch_first))
    return build_model(found.apply(weights), found.row, weights.origin.name or "rnn", batch_first=order)


def _read_node(node: Any, given: Mapping[str, Any]) -> RNNWeights:
    what = f"{node.op_type} node {node.name!r}"
    if not is_recurrent(node):
        raise ArgumentError(f"{what} is none of {', '.join(ROWS)}")
    names = {slot.name: input_of(node, INPUTS.index(slot.name)) for slot in ROWS[node.op_type].slots}
    if missing := [f"{slot} ({name!r})" for slot, name in names.items() if name and name not in given]:
        raise FormatError(f"{what}: no array for its input {', '.join(missing)}; given are {sorted(given)}")
    arrays: dict[str, Array] = {slot: np.asarray(given[name]) for slot, name in names.items() if name}
    weights = weights_of_node(node, onnx_package().defs.onnx_opset_version(), arrays, what)
    return weights.with_origin(name=node.name)


def _is_proto(thing: Any, *names: str) -> bool:
    return type(thing).__module__.split(".")[0] == "onnx" and type(thing).__name__ in names


LIVE = Live("onnx", recognises, read, write)
