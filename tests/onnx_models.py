"""ONNX models as others write them, put together with onnx.helper from canonical weights, and their judge."""

from __future__ import annotations

from typing import Any

import numpy as np

import rnnbridge as rb
from rnnbridge.catalogue import JudgeTask, Settings, catalogue
from rnnbridge.proof.tolerance import expectation
from rnnbridge.weights import RNNWeights
from tests.samples import inputs_of

INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def parts_of(weights: RNNWeights) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """(operator, its arrays by input name, its attributes) of a one-layer spec that ONNX holds as it is."""
    spec = weights.spec
    operator = spec.cell.upper()
    attributes: dict[str, Any] = {"hidden_size": spec.hidden_size, "direction": spec.direction}
    if spec.reset == "after":
        attributes["linear_before_reset"] = 1
    if spec.cell == "rnn":
        attributes["activations"] = [spec.activations[0].name.capitalize()] * spec.num_directions
    return operator, catalogue().rows[f"onnx.{operator}"].write(weights.arrays, spec), attributes


def node_of(weights: RNNWeights, prefix: str = "rnn/", x: str = "x", y: str = "y", **changes: Any) -> Any:
    """A NodeProto; None as a change takes an attribute away, and name= sets the node's name."""
    from onnx import helper

    operator, arrays, attributes = parts_of(weights)
    given = {"X": x} | {slot: prefix + slot for slot in arrays}
    names = [given.get(place, "") for place in INPUTS]
    attributes = {key: value for key, value in (attributes | changes).items() if value is not None}
    return helper.make_node(operator, names[: 1 + max(map(INPUTS.index, given))], [y], **attributes)


def stored(weights: RNNWeights, prefix: str = "rnn/") -> list[Any]:
    """The TensorProtos that `node_of` names."""
    from onnx import numpy_helper

    return [numpy_helper.from_array(array, prefix + slot) for slot, array in parts_of(weights)[1].items()]


def model_of(
    nodes: list[Any], initializers: list[Any], output: str = "y", opset: int = 14, inputs: tuple[str, ...] = ("x",)
) -> Any:
    """A ModelProto around nodes, as another tool's."""
    from onnx import TensorProto, helper

    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inputs]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "foreign", declared, outputs, initializers)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="someone", producer_version="1.2")


def is_judged_right(bundle: rb.Bundle, name: str) -> None:
    """ONNX Runtime runs the file's own nodes to the numbers that the weights read give."""
    weights = bundle[name]
    (judge,) = catalogue().formats["onnx"].judges
    for batch, lengths in ((1, False), (3, True)):
        given = inputs_of(weights.spec, batch, lengths=lengths)
        where = (weights.spec, weights.arrays, given.x, given.h0, given.c0, given.lengths)
        task = JudgeTask(bundle.path, name, Settings(), weights, given.x, given.h0, given.c0, given.lengths)
        got, (exact, tolerance) = judge.run(task), expectation(*where)
        for key, wanted in exact.items():
            assert np.abs(got[key] - wanted).max() <= tolerance[key], key
