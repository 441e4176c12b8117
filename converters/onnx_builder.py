"""Putting an ONNX model together: nodes, declarations, and the lowest opset and IR that hold them. Knows no layer's
layout.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.converters.onnx_bytes import onnx_package
from rnnbridge.spec import RNNSpec
from rnnbridge.version import version_of

Array = NDArray[Any]
Shape = list[int | str]
# The oldest opset that has an operator in the form used here, where that is not 7, whose LSTM, GRU and RNN are today's.
_SINCE = {"Expand": 8, "Where": 9, "Slice": 10}
_LOWEST, _BFLOAT16_SINCE = 7, 22
# Initialisers that are no inputs, and inputs whose initialiser is a default, both came with this IR version.
_IR = 4
_TYPES = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}


class Builder:
    """A graph as it grows.

    Args:
        storage: the type of x, y, the states and the weights: "float32", "float64", "float16" or "bfloat16".
    """

    def __init__(self, storage: str) -> None:
        self._onnx = onnx_package()
        self._bits = np.dtype(np.uint16 if storage == "bfloat16" else storage)  # bfloat16 comes as its bits
        self._float = int(self._onnx.TensorProto.DataType.Value(_TYPES[storage]))
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self.opset = _BFLOAT16_SINCE if storage == "bfloat16" else _LOWEST

    def add(
        self, operator: str, inputs: list[str], outputs: list[str] | None = None, name: str = "", **attributes: Any
    ) -> str:
        """A node; gives the name of its first output."""
        name = name or f"{operator}_{len(self._nodes)}"
        made = [f"{name}/out"] if outputs is None else outputs
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, made, name=name, **attributes))
        self.opset = max(self.opset, _SINCE.get(operator, _LOWEST))
        return made[0]

    def constant(self, values: Any, dtype: type = np.int64) -> str:
        """A whole number, or several. Not a Constant node, which holds them from opset 9 on only."""
        return self.store(f"constant_{len(self._initializers)}", np.asarray(values, dtype))

    def store(self, name: str, array: Array) -> str:
        """An initialiser of the graph's type, or of whole numbers."""
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        made = self._onnx.helper.make_tensor(name, self._type_of(array), array.shape, little.tobytes(), raw=True)
        self._initializers.append(made)
        return name

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Zeros of the graph's type, to be stored."""
        return np.zeros(shape, self._bits)

    def input(self, name: str, shape: Shape, default: Array | None = None) -> str:
        """Declare an input, optional where it has a default."""
        data_type = self._float if default is None else self._type_of(default)
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, data_type, shape))
        return name if default is None else self.store(name, default)

    def output(self, name: str, shape: Shape) -> None:
        """Declare an output."""
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, self._float, shape))

    def model(self, spec: RNNSpec, doc_string: str) -> Any:
        """The finished ModelProto; the spec in it is for people and other tools, our reader goes by the graph."""
        helper, version = self._onnx.helper, version_of()
        model = helper.make_model(
            helper.make_graph(self._nodes, "rnnbridge", self._inputs, self._outputs, self._initializers),
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=_IR,
            producer_name="rnnbridge",
            producer_version=version,
            doc_string=doc_string,
        )
        helper.set_model_props(model, {"rnnbridge_version": version, "rnnbridge_spec": json.dumps(spec.to_dict())})
        return model

    def _type_of(self, array: Array) -> int:
        if array.dtype == self._bits:
            return self._float
        return int(self._onnx.TensorProto.DataType.Value(str(array.dtype).upper()))
