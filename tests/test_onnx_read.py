"""ONNX models of others: every attribute honoured or refused by name, weights wherever exporters put them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.weights import RNNWeights
from tests.onnx_models import is_judged_right, model_of, node_of, stored
from tests.samples import CELLS, H, spec_of, weights_of

onnx = pytest.importorskip("onnx", reason="onnx is not installed: its converter goes untested")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: ONNX models go unjudged")
from onnx import helper, numpy_helper  # noqa: E402

LSTM = weights_of(spec_of("lstm"))
BOTH = weights_of(spec_of("lstm", direction="bidirectional"))


def read(model: Any, tmp_path: Path, **settings: str) -> rb.Bundle:
    onnx.save(model, tmp_path / "foreign.onnx")
    return rb.load(tmp_path / "foreign.onnx", settings=settings)


def one(model: Any) -> RNNWeights:
    return rb.from_framework(model)


def with_attributes(weights: RNNWeights = LSTM, opset: int = 14, **changes: Any) -> RNNWeights:
    return one(model_of([node_of(weights, **changes)], stored(weights), opset=opset))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("bias", ["none", "double"])
def test_a_node_with_stored_arrays(cell: str, direction: str, bias: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of(cell, direction=direction, bias=bias))
    bundle = read(model_of([node_of(weights, name="encoder")], stored(weights)), tmp_path)
    assert bundle["encoder"] == weights
    assert bundle["encoder"].origin.version == "someone 1.2"
    is_judged_right(bundle, "encoder")


def constants(weights: RNNWeights) -> list[Any]:
    return [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in stored(weights)]


def test_weights_in_constant_nodes(tmp_path: Path) -> None:
    bundle = read(model_of([*constants(LSTM), node_of(LSTM)], []), tmp_path)
    assert bundle["rnn"] == LSTM
    is_judged_right(bundle, "rnn")


def test_weights_that_pass_through_slice_concat_unsqueeze_and_cast(tmp_path: Path) -> None:
    """The gates in PyTorch's order, reordered in the graph, as exporters leave them that do not fold constants."""
    (w, r, b) = (LSTM.arrays[f"{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih"))
    both = np.concatenate([b, LSTM.arrays["bias_hh_l0"]])
    tensors = [numpy_helper.from_array(array, name) for name, array in
               (("w", w.astype(np.float64)), ("r", r.T.copy()), ("b", both))]  # fmt: skip
    numbers = {"first": [0], "at": [0], **{f"cut{n}": [n * H] for n in range(9)}}
    tensors += [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items()]
    nodes = [helper.make_node("Cast", ["w"], ["w32"], to=1), helper.make_node("Transpose", ["r"], ["rt"])]
    for name, source, starts in (
        ("W", "w32", (0, 3, 1, 2)),
        ("R", "rt", (0, 3, 1, 2)),
        ("B", "b", (0, 3, 1, 2, 4, 7, 5, 6)),
    ):
        nodes += [helper.make_node("Slice", [source, f"cut{n}", f"cut{n + 1}", "at"], [f"{name}{n}"]) for n in starts]
        nodes.append(helper.make_node("Concat", [f"{name}{n}" for n in starts], [f"{name}/cat"], axis=0))
        nodes.append(helper.make_node("Unsqueeze", [f"{name}/cat", "first"], [f"rnn/{name}"]))
    bundle = read(model_of([*nodes, node_of(LSTM)], tensors), tmp_path)
    assert bundle["rnn"] == LSTM
    assert not bundle.tensors
    is_judged_right(bundle, "rnn")


def test_a_node_in_the_branches_of_an_if(tmp_path: Path) -> None:
    """One branch takes the weights from the graph around it, the other holds its own."""
    other = weights_of(spec_of("lstm"), seed=7)
    y = helper.make_tensor_value_info("y", 1, None)
    outer = helper.make_graph([node_of(LSTM, name="lstm")], "a", [], [y])
    inner = helper.make_graph([*constants(other), node_of(other, name="lstm")], "b", [], [y])
    branch = helper.make_node("If", ["choice"], ["z"], name="pick", then_branch=outer, else_branch=inner)
    model = model_of([branch], [*stored(LSTM), numpy_helper.from_array(np.array(True), "choice")], "z")
    bundle = read(model, tmp_path)
    assert {name: bundle[name] == weights for name, weights in
            (("pick/then_branch/lstm", LSTM), ("pick/else_branch/lstm", other))} == {
        "pick/then_branch/lstm": True, "pick/else_branch/lstm": True}  # fmt: skip
    for name in bundle:
        is_judged_right(bundle, name)


def test_a_node_in_a_function_of_the_model(tmp_path: Path) -> None:
    names = [tensor.name for tensor in stored(LSTM)]
    opset = helper.make_opsetid("", 14)
    function = helper.make_function("own", "Layer", ["x", *names], ["y"], [node_of(LSTM, name="inside")], [opset])
    model = model_of([helper.make_node("Layer", ["x", *names], ["y"], domain="own")], stored(LSTM))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(function)
    bundle = read(model, tmp_path)
    assert list(bundle.layers.values()) == [LSTM]
    is_judged_right(bundle, next(iter(bundle)))


@pytest.mark.parametrize("slot", ["W", "R", "B"])
def test_a_weight_that_is_a_run_time_input_is_named(slot: str) -> None:
    tensors = [tensor for tensor in stored(LSTM) if tensor.name != f"rnn/{slot}"]
    with pytest.raises(rb.FormatError, match=f"input {slot} is not stored.*'rnn/{slot}' is a run-time input"):
        one(model_of([node_of(LSTM)], tensors, inputs=("x", f"rnn/{slot}")))
    made = helper.make_node("MatMul", ["x", "x"], [f"rnn/{slot}"], name="maker")
    with pytest.raises(rb.FormatError, match=r"made by the node 'maker' \(MatMul\) at run time"):
        one(model_of([made, node_of(LSTM)], tensors))


def test_old_files_whose_initializers_are_inputs() -> None:
    tensors = stored(LSTM)
    assert one(model_of([node_of(LSTM)], tensors, inputs=("x", *(tensor.name for tensor in tensors)))) == LSTM


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"clip": 0.3}, {"clip": 0.3}),
        ({"clip": float(np.finfo(np.float32).max)}, {"clip": None}),
        ({"input_forget": 1}, {"coupled": "f=1-i"}),
        ({"hidden_size": None, "direction": None}, {}),
        ({"direction": "foward"}, {"direction": "forward"}),
        ({"direction": "reverse"}, {"direction": "reverse"}),
        ({"activations": ["sigmoid", "TANH", "Relu"]}, {"activations": ("sigmoid", "tanh", "relu")}),
        (
            {"activations": ["HardSigmoid", "LeakyRelu", "Elu"]},
            {"activations": ("hard_sigmoid(0.2, 0.5)", "leaky_relu(0.01)", "elu(1.0)")},
        ),
        (
            {
                "activations": ["HardSigmoid", "Tanh", "Affine"],
                "activation_alpha": [1 / 6, 0.7],
                "activation_beta": [0.5, 0.1],
            },
            {"activations": ("hard_sigmoid(0.16666666666666666, 0.5)", "tanh", "affine(0.7, 0.1)")},
        ),
        (  # one value for each activation, as some write: the same reading either way
            {"activations": ["HardSigmoid", "Tanh", "Tanh"], "activation_alpha": [0.2, 1.0, 1.0]},
            {"activations": ("hard_sigmoid(0.2, 0.5)", "tanh", "tanh")},
        ),
        ({"activations": ["Sigmoid", "Affine", "ThresholdedRelu"], "activation_alpha": [1.0], "activation_beta": [0.0]},
         {"activations": ("sigmoid", "linear", "thresholded_relu(1.0)")}),
    ],
)  # fmt: skip
def test_attributes_are_honoured(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert with_attributes(**changes).spec == LSTM.spec.replace(**expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 5}, "hidden_size is 5.*are for 3"),
        ({"direction": "backward"}, "direction is 'backward'"),
        ({"activations": ["Sigmoid", "Tanh"]}, "2 names; LSTM forward takes 3"),
        ({"activations": ["Sigmoid", "Gelu", "Tanh"]}, "Gelu"),
        ({"activations": ["Sigmoid", "Affine", "Tanh"]}, "no value for Affine"),
        ({"activations": ["ScaledTanh", "Tanh", "Tanh"], "activation_alpha": [0.5]}, "activation_beta has no value"),
        ({"activation_alpha": [0.5]}, "activation_alpha has 1 values"),
        ({"activations": ["Sigmoid", "LeakyRelu", "Tanh"], "activation_alpha": [1.0, 0.3, 1.0]}, "has 3 values"),
        ({"clip": -1.0}, "clip is -1.0"),
        ({"clip": 0.0}, "clip is 0.0"),
        ({"linear_before_reset": 1}, "unknown attribute linear_before_reset; LSTM of opset 14 has"),
        ({"peephole_scale": 2}, "unknown attribute peephole_scale"),
        ({"clip": 3}, "attribute clip is of another type"),
    ],
)
def test_attributes_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(rb.FormatError, match=message) as caught:
        with_attributes(**changes, name="here")
    assert "LSTM node 'here'" in str(caught.value)


def test_directions_with_different_activations_are_refused() -> None:
    with pytest.raises(rb.FormatError, match=r"different activations \(sigmoid, tanh, tanh; sigmoid, relu, tanh\)"):
        with_attributes(BOTH, activations=["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Relu", "Tanh"])


def test_linear_before_reset_is_the_difference_between_two_grus() -> None:
    after = weights_of(spec_of("gru_after"))
    assert with_attributes(after).spec.reset == "after"
    assert with_attributes(after, linear_before_reset=0).spec.reset == "before"
    assert with_attributes(after, linear_before_reset=None).spec.reset == "before"
    with pytest.raises(rb.FormatError, match="unknown attribute layout"):
        with_attributes(after, opset=7, layout=0)


def test_layout_1_is_batch_first_and_no_judge_runs_it(tmp_path: Path) -> None:
    bundle = read(model_of([node_of(LSTM, name="rnn", layout=1)], stored(LSTM)), tmp_path)
    assert bundle["rnn"] == LSTM
    assert bundle["rnn"].origin.batch_first is True
    with pytest.raises(rb.Incompatible, match="layout=1"):
        is_judged_right(bundle, "rnn")


@pytest.mark.parametrize(
    ("slot", "array", "message"),
    [
        ("W", np.ones((1, 4 * H + 1, 5), np.float32), "shape"),
        ("R", np.ones((1, 4 * H, H + 2), np.float32), "R"),
        ("B", np.ones((1, 4 * H), np.float32), "B"),
        ("W", np.ones((4 * H, 5), np.float32), "axes"),
        ("W", np.ones((1, 4 * H, 5), np.float64), "float32 and float64"),
        ("W", np.ones((1, 4 * H, 5), np.int32), "int32"),
    ],
)
def test_arrays_that_do_not_fit_are_named(slot: str, array: np.ndarray, message: str) -> None:
    tensors = [numpy_helper.from_array(array, t.name) if t.name == f"rnn/{slot}" else t for t in stored(LSTM)]
    with pytest.raises(rb.FormatError, match=message) as caught:
        one(model_of([node_of(LSTM, name="here")], tensors))
    assert "LSTM node 'here'" in str(caught.value)


def test_states_and_lengths_stored_in_the_model_are_told(tmp_path: Path) -> None:
    node = node_of(LSTM, name="rnn")
    node.input.extend(["lens", "h0", "c0"])
    values = {
        "lens": np.array([7], np.int32),
        "h0": np.zeros((1, 1, H), np.float32),
        "c0": np.ones((1, 1, H), np.float32),
    }
    bundle = read(
        model_of([node], [*stored(LSTM), *(numpy_helper.from_array(v, k) for k, v in values.items())]), tmp_path
    )
    assert len(bundle.notices) == 2
    assert any("initial_c" in notice for notice in bundle.notices)
    assert any("sequence_lens" in notice for notice in bundle.notices)
    is_judged_right(bundle, "rnn")


def test_other_arrays_are_carried_and_other_operators_told(tmp_path: Path) -> None:
    table = np.arange(14, dtype=np.float32).reshape(2, 7)
    strange = helper.make_node("DynamicQuantizeLSTM", ["x"], ["q"], name="small", domain="com.microsoft")
    bundle = read(
        model_of([node_of(LSTM), strange], [*stored(LSTM), numpy_helper.from_array(table, "table")]), tmp_path
    )
    assert list(bundle.tensors) == ["table"]
    assert np.array_equal(bundle.tensors["table"], table)
    assert any("'small' is a DynamicQuantizeLSTM of com.microsoft" in notice for notice in bundle.notices)


def test_names_come_from_the_node_else_the_weights_else_a_number(tmp_path: Path) -> None:
    nodes = [
        node_of(LSTM, "a/b/", y="y"),
        node_of(LSTM, "c.", y="y1"),
        node_of(LSTM, "", y="y2"),
        node_of(LSTM, "", y="y3", name=""),
    ]
    nodes += [node_of(LSTM, "", y="y4", name="twin"), node_of(LSTM, "", y="y5", name="twin")]
    tensors = [*stored(LSTM, "a/b/"), *stored(LSTM, "c."), *stored(LSTM, "")]
    assert list(read(model_of(nodes, tensors), tmp_path)) == ["a/b", "c", "lstm_2", "lstm_3", "twin", "twin_1"]


def test_external_data_beside_the_file_is_read_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    big = weights_of(spec_of("lstm", hidden_size=17))
    onnx.save(
        model_of([node_of(big)], stored(big)), tmp_path / "in" / "a.onnx", save_as_external_data=True, location="a.bin"
    )
    assert rb.load(tmp_path / "in" / "a.onnx")["rnn"] == big
    with pytest.raises(rb.FormatError, match="lies in another file"):
        rb.from_framework((tmp_path / "in" / "a.onnx").read_bytes())
    (tmp_path / "in" / "a.bin").rename(tmp_path / "a.bin")
    with pytest.raises(rb.FormatError, match="external data"):
        rb.load(tmp_path / "in" / "a.onnx")
    model = onnx.load(tmp_path / "in" / "a.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            entry.value = "../a.bin" if entry.key == "location" else entry.value
    onnx.save(model, tmp_path / "in" / "a.onnx")
    with pytest.raises(rb.FormatError, match="external data"):
        rb.load(tmp_path / "in" / "a.onnx")


def test_a_model_without_an_opset_or_a_recurrent_layer(tmp_path: Path) -> None:
    model = model_of([node_of(LSTM)], stored(LSTM))
    del model.opset_import[:]
    with pytest.raises(rb.FormatError, match="opset"):
        one(model)
    with pytest.raises(rb.FormatError, match="no recurrent layer"):
        read(model_of([helper.make_node("Identity", ["x"], ["y"])], []), tmp_path)


class TestLive:
    """What from_framework and to_framework take and give."""

    def test_models_graphs_bytes_and_nodes(self) -> None:
        model = model_of([node_of(BOTH, name="rnn")], stored(BOTH))
        arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        for thing in (model, model.SerializeToString(), model.graph, (model.graph.node[0], arrays)):
            weights = rb.from_framework(thing)
            assert weights == BOTH
            assert weights.origin.name == "rnn"

    def test_a_node_without_its_arrays(self) -> None:
        with pytest.raises(rb.ArgumentError, match="does not hold them"):
            rb.from_framework(node_of(LSTM))
        with pytest.raises(rb.FormatError, match=r"no array for its input R \('rnn/R'\)"):
            rb.from_framework((node_of(LSTM, bias=None), {"rnn/W": LSTM.arrays["weight_ih_l0"][None], "rnn/B": 0}))

    def test_several_layers_are_named(self) -> None:
        nodes = [node_of(LSTM, name="one"), node_of(LSTM, y="y2", name="two")]
        with pytest.raises(rb.ArgumentError, match=r"2 recurrent layers \(one, two\)"):
            rb.from_framework(model_of(nodes, stored(LSTM)))

    def test_to_framework_gives_a_model(self) -> None:
        weights = weights_of(spec_of("gru_before", num_layers=2, direction="bidirectional"))
        model = rb.to_framework(weights, "onnx", batch_first=True)
        onnx.checker.check_model(model, full_check=True)
        assert rb.from_framework(model) == weights
        assert rb.from_framework(model).origin.batch_first is True
        with pytest.raises(rb.ArgumentError, match="into"):
            rb.to_framework(weights, "onnx", into=model)


@pytest.mark.parametrize(("name", "alpha"), [("ThresholdedRelu", 1.0), ("LeakyRelu", 0.01), ("Elu", 1.0)])
def test_a_constant_that_is_left_out_is_the_operators_default_for_the_judge_too(
    name: str, alpha: float, tmp_path: Path
) -> None:
    """ONNX Runtime takes 0 for some of them, so its judge is told the number."""
    weights = weights_of(spec_of("gru_after"))
    bundle = read(model_of([node_of(weights, activations=["Sigmoid", name])], stored(weights)), tmp_path)
    (layer,) = bundle
    assert bundle[layer].spec.activations[1].alpha == alpha
    is_judged_right(bundle, layer)
