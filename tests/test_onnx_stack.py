"""Which ONNX nodes form one stack, how directions are joined, and what PyTorch's exporter makes of its modules."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation
from rnnbridge.weights import RNNWeights
from tests.onnx_models import is_judged_right, model_of, node_of, stored
from tests.samples import CELLS, H, I, inputs_of, spec_of, weights_of
from tests.test_onnx_read import read

onnx = pytest.importorskip("onnx", reason="onnx is not installed: its converter goes untested")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: ONNX models go unjudged")
from onnx import helper, numpy_helper  # noqa: E402

Nodes = list[Any]


def number(name: str, value: Any) -> Any:
    return numpy_helper.from_array(np.array(value, np.int64), name)


def squeezed(y: str, x: str) -> Nodes:
    return [helper.make_node("Squeeze", [y, "one"], [x])]


def turned_and_reshaped(y: str, x: str) -> Nodes:
    return [
        helper.make_node("Transpose", [y], [f"{y}/t"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", [f"{y}/t", "00-"], [x]),
    ]


def shape_computed(y: str, x: str) -> Nodes:
    """As torch.onnx.export(dynamo=True) writes it: the shape from slices of the shape, the last two multiplied."""
    slices = [helper.make_node("Slice", [f"{y}/s", f"at{n}", f"at{n + 1}"], [f"{y}/s{n}"]) for n in range(4)]
    return [
        helper.make_node("Transpose", [y], [f"{y}/t"], perm=[0, 2, 1, 3]),
        helper.make_node("Shape", [f"{y}/t"], [f"{y}/s"]),
        *slices,
        helper.make_node("Mul", [f"{y}/s2", f"{y}/s3"], [f"{y}/m"]),
        helper.make_node("Concat", [f"{y}/s0", f"{y}/s1", f"{y}/m"], [f"{y}/c"], axis=0),
        helper.make_node("Reshape", [f"{y}/t", f"{y}/c"], [x]),
    ]


def by_batch_and_back(y: str, x: str) -> Nodes:
    """As a tool with batch-first layers writes it: out of the one layer's order and into the next one's."""
    return [
        *turned_and_reshaped(y, f"{y}/r"),
        helper.make_node("Transpose", [f"{y}/r"], [f"{y}/n"], perm=[1, 0, 2]),
        helper.make_node("Transpose", [f"{y}/n"], [x], perm=[1, 0, 2]),
    ]


NUMBERS = [number("one", [1]), number("00-", [0, 0, -1]), *(number(f"at{n}", [n]) for n in range(5))]


def stacked(layers: list[RNNWeights], between: Any, **changes: Any) -> Any:
    """A model of layers with nodes between; `changes` are attributes of the upper one."""
    nodes = [node_of(layers[0], "a/", y="y0", name="a"), *between("y0", "x1")]
    nodes.append(node_of(layers[1], "b/", x="x1", name="b", **changes))
    return model_of(nodes, [*stored(layers[0], "a/"), *stored(layers[1], "b/"), *NUMBERS])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("direction", "between"),
    [
        ("forward", squeezed),
        *product(["forward", "bidirectional"], [turned_and_reshaped, shape_computed, by_batch_and_back]),
    ],
)
def test_nodes_joined_by_moves_only_are_one_stack(cell: str, direction: str, between: Any, tmp_path: Path) -> None:
    weights = weights_of(spec_of(cell, direction=direction, num_layers=2))
    bundle = read(stacked(weights.split(), between), tmp_path)
    assert list(bundle) == ["a"]
    assert bundle["a"] == weights
    is_judged_right(bundle, "a")


def with_a_relu(y: str, x: str) -> Nodes:
    return [*turned_and_reshaped(y, f"{y}/r"), helper.make_node("Relu", [f"{y}/r"], [x])]


def with_axes_exchanged(y: str, x: str) -> Nodes:
    """T and N exchanged: the numbers fit and the meaning does not."""
    return [*turned_and_reshaped(y, f"{y}/r"), helper.make_node("Transpose", [f"{y}/r"], [x], perm=[1, 0, 2])]


def without_turning(y: str, x: str) -> Nodes:
    """[T, D, N, H] reshaped as if N stood before D, as one exporter did."""
    return [helper.make_node("Reshape", [y, "00-"], [x])]


@pytest.mark.parametrize("between", [with_a_relu, with_axes_exchanged, without_turning])
def test_nodes_joined_otherwise_are_not(between: Any, tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm", direction="bidirectional", num_layers=2))
    bundle = read(stacked(weights.split(), between), tmp_path)
    assert [bundle[name].spec.num_layers for name in ("a", "b")] == [1, 1]


@pytest.mark.parametrize(
    ("fixed", "shape", "layers"),
    [
        (True, [5, 2, 3], ["a"]),  # T and N as numbers, as an export with fixed sizes has them
        (True, [2, 5, 3], ["a", "b"]),  # T and N exchanged by a Reshape: the numbers fit and the meaning does not
        (False, [5, 2, 3], ["a", "b"]),  # who knows
    ],
)
def test_a_reshape_to_numbers_is_a_move_only_if_they_are_the_extents(
    fixed: bool, shape: list[int], layers: list[str], tmp_path: Path
) -> None:
    def between(y: str, x: str) -> Nodes:
        return [helper.make_node("Reshape", [y, "numbers"], [x])]

    model = stacked(weights_of(spec_of("gru_after", num_layers=2)).split(), between)
    model.graph.initializer.append(number("numbers", shape))
    del model.graph.input[:]
    model.graph.input.append(helper.make_tensor_value_info("x", 1, [5, 2, 5] if fixed else ["T", "N", 5]))
    assert list(read(model, tmp_path)) == layers


def test_an_output_that_something_else_reads_ends_a_stack(tmp_path: Path) -> None:
    lower, upper = weights_of(spec_of("lstm", num_layers=2)).split()
    model = stacked([lower, upper], squeezed)
    model.graph.node.append(helper.make_node("Relu", ["x1"], ["skip"]))
    assert list(read(model, tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    "changes", [{"clip": 0.5}, {"activations": ["Sigmoid", "Relu", "Tanh"]}, {"direction": "reverse"}]
)
def test_layers_that_differ_are_two(changes: dict[str, Any], tmp_path: Path) -> None:
    assert list(read(stacked(weights_of(spec_of("lstm", num_layers=2)).split(), squeezed, **changes), tmp_path)) == [
        "a",
        "b",
    ]


def test_layers_of_different_lengths_are_two(tmp_path: Path) -> None:
    model = stacked(weights_of(spec_of("lstm", num_layers=2)).split(), squeezed)
    model.graph.input.append(helper.make_tensor_value_info("lens", 6, ["N"]))
    model.graph.node[0].input.append("lens")
    assert list(read(model, tmp_path)) == ["a", "b"]
    model.graph.node[-1].input.append("lens")
    assert list(read(model, tmp_path)) == ["a"]


def reduced(operator: str, opset: int) -> tuple[Nodes, list[Any]]:
    if opset >= (13 if operator == "ReduceSum" else 18):
        return [helper.make_node(operator, ["y0", "one"], ["y"], keepdims=0)], []
    return [helper.make_node(operator, ["y0"], ["y"], axes=[-3], keepdims=0)], []


@pytest.mark.parametrize("opset", [7, 18])
@pytest.mark.parametrize(("merge", "operator"), [("sum", "ReduceSum"), ("mul", "ReduceProd"), ("ave", "ReduceMean")])
def test_merges_by_reduction(merge: str, operator: str, opset: int, tmp_path: Path) -> None:
    weights = weights_of(spec_of("gru_after", direction="bidirectional", merge=merge))
    nodes, extra = reduced(operator, opset)
    model = model_of([node_of(weights, y="y0", name="rnn"), *nodes], [*stored(weights), *NUMBERS, *extra], opset=opset)
    bundle = read(model, tmp_path)
    assert bundle["rnn"] == weights
    is_judged_right(bundle, "rnn")


def test_directions_split_apart(tmp_path: Path) -> None:
    weights = weights_of(spec_of("rnn_relu", direction="bidirectional", merge="none"))
    split = helper.make_node("Split", ["y0"], ["y", "back"], axis=1)
    bundle = read(model_of([node_of(weights, y="y0", name="rnn"), split], stored(weights), opset=13), tmp_path)
    assert bundle["rnn"] == weights
    is_judged_right(bundle, "rnn")


def test_a_merge_that_is_not_seen_is_an_assumption_to_override(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm", direction="bidirectional"))
    model = model_of([node_of(weights, y="y0", name="rnn"), helper.make_node("Relu", ["y0"], ["y"])], stored(weights))
    (assumption,) = read(model, tmp_path)["rnn"].origin.assumptions
    assert (assumption.key, assumption.value) == ("merge", "concat")
    bundle = read(model, tmp_path, merge="sum")
    assert bundle["rnn"].spec.merge == "sum"
    with pytest.raises(rb.ArgumentError, match="merge='add'"):
        read(model, tmp_path, merge="add")
    seen = model_of([node_of(weights, y="y0"), *turned_and_reshaped("y0", "y")], [*stored(weights), *NUMBERS])
    with pytest.raises(rb.ArgumentError, match="nothing here takes the setting"):
        read(seen, tmp_path, merge="sum")


def test_pairs_that_differ_in_one_attribute_differ_in_numbers(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm"))
    given, outputs = inputs_of(weights.spec, 3), []
    for changes in ({}, {"clip": 0.3}, {"input_forget": 1}, {"activations": ["HardSigmoid", "Tanh", "Relu"]}):
        bundle = read(model_of([node_of(weights, name="rnn", **changes)], stored(weights)), tmp_path)
        is_judged_right(bundle, "rnn")
        where = (bundle["rnn"].spec, weights.arrays, given.x, given.h0, given.c0)
        exact, allowed = expectation(*where)
        outputs.append((exact["y"], allowed["y"]))
    for index, (y, tolerance) in enumerate(outputs):
        assert all(np.abs(y - other).max() > 16 * tolerance for other, _ in outputs[:index])


torch = pytest.importorskip("torch", reason="PyTorch is not installed: what it exports goes unread")


class Padded(torch.nn.Module):
    """A module that runs on packed sequences inside."""

    def __init__(self, rnn: Any) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Any, lengths: Any) -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=self.rnn.batch_first)
        return torch.nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=self.rnn.batch_first)[0]


def exported(module: Any, path: Path, *given: Any) -> rb.Bundle:
    with warnings.catch_warnings():  # PyTorch's own, about this exporter's age and about batch sizes
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), given, str(path), dynamo=False, input_names=["x"], dynamic_axes={"x": [0, 1]})
    return rb.load(path)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_what_pytorch_exports(kind: str, layers: int, bidirectional: bool, batch_first: bool, tmp_path: Path) -> None:
    torch.manual_seed(layers)
    module = getattr(torch.nn, kind)(I, H, layers, bidirectional=bidirectional, batch_first=batch_first)
    bundle = exported(module, tmp_path / "t.onnx", torch.zeros(7, 2, I))
    ((name, weights),) = bundle.layers.items()
    assert weights.spec.num_layers == layers
    assert weights.spec.reset == ("after" if kind == "GRU" else None)
    assert weights.origin.batch_first is batch_first
    assert not weights.origin.assumptions
    assert {key: array.tobytes() for key, array in weights.arrays.items()} == {
        key: tensor.numpy().tobytes() for key, tensor in module.state_dict().items()
    }
    is_judged_right(bundle, name)


def test_what_pytorch_exports_of_packed_sequences(tmp_path: Path) -> None:
    module = torch.nn.LSTM(I, H, 2, bidirectional=True)
    bundle = exported(Padded(module), tmp_path / "p.onnx", torch.zeros(7, 3, I), torch.tensor([7, 3, 2]))
    ((name, weights),) = bundle.layers.items()
    assert weights.spec.num_layers == 2
    assert {key: array.tobytes() for key, array in weights.arrays.items()} == {
        key: tensor.numpy().tobytes() for key, tensor in module.state_dict().items()
    }
    is_judged_right(bundle, name)


def test_a_projection_is_refused_where_pytorch_writes_a_file_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(rb.Incompatible, match="projection to 2"):
        rb.save(rb.from_framework(torch.nn.LSTM(I, 5, proj_size=2)), tmp_path / "a.onnx")
