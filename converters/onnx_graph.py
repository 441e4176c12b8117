"""An ONNX model parsed into scopes: the main graph and every subgraph, who makes and reads each tensor, and which are
constant. Knows nothing of recurrent layers.

Nothing in a model is executed but the few operators of `FOLDED`, on constants, by onnx's own reference evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.converters.onnx_bytes import onnx_package
from rnnbridge.errors import FormatError

Array = NDArray[Any]

# What exporters leave between a stored weight and the node that uses it. They move numbers, Cast aside.
FOLDED = (
    "Cast", "Concat", "Constant", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze",
)  # fmt: skip


def main_scope(model: Any, where: str) -> Scope:
    """The main graph's scope, with the model's own functions inlined."""
    onnx = onnx_package()
    if model.functions:
        try:
            model = onnx.inliner.inline_local_functions(model)
        except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
            raise FormatError(f"{where}: its functions cannot be inlined: {error}") from error
    # A model whose shapes do not fit is refused where the misfit matters, with the array's name.
    with suppress(onnx.shape_inference.InferenceError, RuntimeError, ValueError, TypeError):
        model = onnx.shape_inference.infer_shapes(model)
    return Scope(model.graph, {one.domain or "ai.onnx": one.version for one in model.opset_import}, where)


class Scope:
    """One graph and the scopes around it.

    Args:
        graph: the GraphProto.
        opsets: domain -> version, as the model imports them.
        where: begins the message of an error: the file.
        parent: the scope around it; path: the names of the nodes and attributes that lead to it, each ending in "/".
    """

    def __init__(
        self, graph: Any, opsets: dict[str, int], where: str, parent: Scope | None = None, path: str = ""
    ) -> None:
        self.graph, self.opsets, self.where, self.parent, self.path = graph, opsets, where, parent, path
        if any(isinstance(name, bytes) for name in _all_names(graph)):
            raise FormatError(f"{where} is damaged: a name in it is not UTF-8")
        self.used: set[str] = set() if parent is None else parent.used
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.outputs = {value.name for value in graph.output}
        self._values: dict[str, Array] = {}
        self._open: set[str] = set()

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        if "ai.onnx" not in self.opsets:
            raise FormatError(f"{self.where}: the model does not say its opset, so its operators mean nothing")
        return self.opsets["ai.onnx"]

    @cached_property
    def consumers(self) -> dict[str, list[Any]]:
        """Tensor -> the nodes that read it, also those that read it in a subgraph of theirs."""
        found: dict[str, list[Any]] = {}
        for node in self.graph.node:
            for name in dict.fromkeys(_names_read(node)):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def _declared(self) -> dict[str, Any]:
        return {one.name: one for one in (*self.graph.input, *self.graph.value_info, *self.graph.output)}

    def extents(self, name: str) -> list[int | None]:
        """The extents of a tensor's axes as the model declares or implies them, None for one that may vary."""
        if name not in self._declared or not self._declared[name].type.tensor_type.HasField("shape"):
            return []
        axes = self._declared[name].type.tensor_type.shape.dim
        return [axis.dim_value if axis.HasField("dim_value") else None for axis in axes]

    def walk(self) -> Iterator[tuple[Scope, Any]]:
        """Every node here and in the subgraphs, in file order, with its scope."""
        for index, node in enumerate(self.graph.node):
            yield self, node
            for attribute in node.attribute:
                for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                    step = f"{node.name or f'{node.op_type}_{index}'}/{attribute.name}/"
                    yield from Scope(graph, self.opsets, self.where, self, self.path + step).walk()

    def constant(self, name: str) -> Array:
        """The value of a tensor that no input of the model changes.

        Raises:
            FormatError: it is a run-time input, or computed by a node that is not one of `FOLDED`, or damaged.
        """
        if name not in self._values:
            self._values[name] = self._find(name)
        return self._values[name]

    def constant_or_none(self, name: str) -> Array | None:
        """The same, None where it is not constant."""
        try:
            return self.constant(name)
        except FormatError:
            return None

    def array(self, tensor: Any) -> Array:
        """A TensorProto's numbers."""
        onnx = onnx_package()
        if onnx.external_data_helper.uses_external_data(tensor):
            raise FormatError(
                f"{self.where}: the data of {tensor.name!r} lies in another file; load the model from its file"
            )
        try:
            return np.asarray(onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise FormatError(
                f"{self.where}: the tensor {tensor.name!r} {list(tensor.dims)} is damaged: {error}"
            ) from error

    def _find(self, name: str) -> Array:
        if name in self.initializers:
            self.used.add(self.path + name)
            return self.array(self.initializers[name])
        if name in self.producers:
            return self._evaluated(self.producers[name])[name]
        if self.parent is not None and name not in {value.name for value in self.graph.input}:
            return self.parent.constant(name)
        raise FormatError(f"{self.where}: {name!r} is a run-time input, not a stored array")

    def _evaluated(self, node: Any) -> dict[str, Array]:
        made = f"{self.where}: {node.output[0]!r} is made by the node {node.name!r} ({node.op_type})"
        if node.op_type not in FOLDED or node.domain not in ("", "ai.onnx"):
            raise FormatError(f"{made} at run time; a stored array may pass through {', '.join(FOLDED)}")
        if self._open & set(node.output):
            raise FormatError(f"{made} out of itself")
        self._open |= set(node.output)
        try:
            given = {name: self.constant(name) for name in node.input if name}
        finally:
            self._open -= set(node.output)
        onnx = onnx_package()
        try:
            values = onnx.reference.ReferenceEvaluator(_model_of(node, self.opset)).run(None, given)
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise FormatError(f"{made}, which cannot be evaluated: {error}") from error
        return dict(zip(node.output, map(np.asarray, values), strict=True))


def attribute_of(node: Any, name: str, default: Any) -> Any:
    """The value of a node's attribute, of the same type as `default`, which is the value where it is absent.

    Raises:
        FormatError: it is of another type.
    """
    for attribute in node.attribute:
        if attribute.name == name:
            value = onnx_package().helper.get_attribute_value(attribute)
            if type(value) is not type(default):
                raise FormatError(f"attribute {name} of the node {node.name!r} ({node.op_type}) is {value!r:.60}")
            return value
    return default


def input_of(node: Any, place: int) -> str:
    """The name of a node's input, "" where it is left out."""
    return str(node.input[place]) if place < len(node.input) else ""


def _all_names(graph: Any) -> Iterator[Any]:
    """Every name in a graph; protobuf gives one that is not UTF-8 as bytes."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    yield from (one.name for one in (*graph.initializer, *graph.input, *graph.output))


def _model_of(node: Any, opset: int) -> Any:
    helper = onnx_package().helper
    untyped = [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(node.input) if name]
    made = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], "constant", untyped, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _names_read(node: Any) -> Iterator[str]:
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for inner in graph.node:
                yield from _names_read(inner)
            yield from (value.name for value in graph.output)
