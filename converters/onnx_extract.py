"""A few nodes of an ONNX model, with the stored arrays that they need, as a model of their own. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnnbridge.converters.onnx_bytes import onnx_package
from rnnbridge.converters.onnx_graph import Scope, attribute_of, input_of
from rnnbridge.converters.onnx_rows import INPUTS, read_activations, spelt
from rnnbridge.errors import Incompatible

FLOAT, INT32 = 1, 6  # TensorProto.DataType
STATES = ("initial_h", "initial_c")
_STORED = [INPUTS.index(name) for name in ("W", "R", "B", "P")]
_SET = [INPUTS.index(name) for name in ("X", "sequence_lens", *STATES)]
_IR = 10  # what opset 22 came with, and newer than any model part needs


class Extract:
    """Nodes of one graph, taken in the order in which they run.

    Args:
        scope: the graph.
    """

    def __init__(self, scope: Scope) -> None:
        self._helper = onnx_package().helper
        self._scope = scope
        self._there: set[str] = set()
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self._inputs: list[Any] = []

    @staticmethod
    def named(name: str) -> str:
        """The name that a tensor of ours has beside the file's own."""
        return f"extract/{name}"

    def output_of(self, node: Any) -> str:
        """The name of a recurrent node's Y; one of ours where the file leaves Y out."""
        return str(node.output[0] if node.output else "") or self.named("Y")

    def input(self, name: str, data_type: int) -> str:
        """Declare an input; gives its full name."""
        name = self.named(name)
        self._inputs.append(self._helper.make_tensor_value_info(name, data_type, None))
        self._there.add(name)
        return name

    def recurrent(self, node: Any, x: str, lengths: str, states: Sequence[str]) -> dict[str, str]:
        """Take a recurrent node, with our inputs and its own stored arrays cast to float32; its Y keeps its name.

        Returns:
            "h" and, for two states, "c" -> the names of the final states.
        """
        wired = {place: self._as_float(input_of(node, place)) for place in _STORED if input_of(node, place)}
        wired |= dict(zip(_SET, (x, lengths, *states), strict=False))
        y = self.output_of(node)
        finals = {state: self.named(f"{y}/{state}") for state, _ in zip("hc", states, strict=False)}
        copy = type(node)()
        copy.CopyFrom(node)
        del copy.input[:], copy.output[:]
        self._spell_defaults(copy)
        copy.input.extend(wired.get(place, "") for place in range(max(wired) + 1))
        copy.output.extend([y, *finals.values()])
        self._append(copy)
        return finals

    def _spell_defaults(self, node: Any) -> None:
        """Write out the constants of its activations: ONNX Runtime's defaults are 0 where ONNX's are an operator's."""
        if names := attribute_of(node, "activations", []):
            given = (attribute_of(node, key, []) for key in ("activation_alpha", "activation_beta"))
            kept = [one for one in node.attribute if not one.name.startswith("activation")]
            del node.attribute[:]
            held = spelt(read_activations([name.decode() for name in names], *given))
            node.attribute.extend([*kept, *(self._helper.make_attribute(key, value) for key, value in held.items())])

    def take(self, node: Any) -> None:
        """Take a node as it is, after what makes its inputs.

        Raises:
            Incompatible: a run-time input of the file is needed.
        """
        for name in node.input:
            self._bring(name, self._scope)
        self._append(node)

    def model(self, outputs: Sequence[str]) -> bytes:
        """The model, serialised, with these outputs."""
        declared = [self._helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
        graph = self._helper.make_graph(self._nodes, "extract", self._inputs, declared, self._initializers)
        opset = self._helper.make_opsetid("", self._scope.opset)
        return bytes(self._helper.make_model(graph, opset_imports=[opset], ir_version=_IR).SerializeToString())

    def _as_float(self, name: str) -> str:
        self._bring(name, self._scope)
        cast = self.named(name)
        if cast not in self._there:
            self._append(self._helper.make_node("Cast", [name], [cast], to=FLOAT))
        return cast

    def _append(self, node: Any) -> None:
        self._nodes.append(node)
        self._there |= set(node.output)

    def _bring(self, name: str, scope: Scope | None) -> None:
        if not name or name in self._there:
            return
        if scope is None:
            raise Incompatible("ONNX Runtime cannot judge this layer", [f"it needs the run-time input {name!r}"])
        if name in scope.initializers:
            self._initializers.append(scope.initializers[name])
            self._there.add(name)
        elif name in scope.producers:
            self.take(scope.producers[name])
        else:
            self._bring(name, scope.parent)
