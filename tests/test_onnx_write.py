"""ONNX models written from weights: ONNX Runtime gives the reference's numbers, for other T and N than ever seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights
from tests.onnx_models import is_judged_right
from tests.samples import CELLS, H, I, all_specs, inputs_of, spec_of, weights_of

onnx = pytest.importorskip("onnx", reason="onnx is not installed: its converter goes untested")
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: ONNX models go unjudged")

ACTIVATIONS = (
    "relu", "affine(0.5, 0.1)", "leaky_relu(0.03)", "thresholded_relu(0.2)", "scaled_tanh(0.7, 1.3)", "sigmoid", "tanh",
    "hard_sigmoid(0.2, 0.5)", "hard_sigmoid(0.16666666666666666, 0.5)", "elu(0.8)", "softsign", "softplus", "linear",
)  # fmt: skip
MERGED = [
    (f"{cell}-{merge}-{layers}", spec_of(cell, direction="bidirectional", merge=merge, num_layers=layers))
    for cell in CELLS
    for merge in ("sum", "mul", "ave", "none")
    for layers in (1, 2)
    if merge != "none" or layers == 1
]
TURNED = [(f"{cell}-turned", spec_of(cell, direction="reverse", output_order="processing")) for cell in CELLS]
SPECIAL = [
    ("peephole", spec_of("lstm", peephole=True, direction="bidirectional", num_layers=2)),
    ("coupled", spec_of("lstm", coupled="f=1-i", direction="bidirectional", num_layers=2)),
    ("coupled-peephole", spec_of("lstm", coupled="f=1-i", peephole=True, direction="reverse")),
    *((f"{cell}-clip", spec_of(cell, clip=0.3, direction="bidirectional")) for cell in CELLS),
]


def cases(spec: RNNSpec) -> list[Any]:
    """Batches of 1 and 3, with and without lengths (0 and T among them), and one more T."""
    return [inputs_of(spec, batch, steps, lengths=lengths) for batch, steps, lengths in
            ((1, 7, False), (3, 7, True), (3, 11, False), (1, 7, True))]  # fmt: skip


def session_of(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(session: Any, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def feeds_of(given: Any) -> dict[str, np.ndarray]:
    feeds = {"x": given.x, "initial_h": given.h0, "initial_c": given.c0}
    if given.lengths is not None:
        feeds["lengths"] = given.lengths.astype(np.int32)
    return {name: array for name, array in feeds.items() if array is not None}


def is_valid(path: Path) -> Any:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return model


def agrees(weights: RNNWeights, got: Mapping[str, np.ndarray], given: Any) -> None:
    """y, h and c are the reference's; ONNX Runtime's zero for an empty sequence's state is not compared."""
    where = (weights.spec, weights.arrays, given.x, given.h0, given.c0, given.lengths)
    exact, tolerance = expectation(*where)
    filled = np.full(given.x.shape[1], True) if given.lengths is None else given.lengths > 0
    for name, wanted in exact.items():
        valid = np.s_[:] if name == "y" else np.s_[:, filled]
        assert got[name].shape == wanted.shape
        assert np.abs(got[name] - wanted)[valid].max(initial=0) <= tolerance[name], name


@pytest.mark.parametrize(("name", "spec"), [*all_specs(), *MERGED, *TURNED, *SPECIAL], ids=lambda one: str(one)[:40])
def test_onnx_runtime_gives_the_reference_numbers(name: str, spec: RNNSpec, tmp_path: Path) -> None:
    weights = weights_of(spec)
    rb.save(weights, tmp_path / "a.onnx")
    is_valid(tmp_path / "a.onnx")
    session = session_of(tmp_path / "a.onnx")
    for given in cases(spec):
        got = run(session, feeds_of(given))
        if spec.merge == "none":
            got["y"] = np.concatenate([got.pop("y_forward"), got.pop("y_backward")], axis=2)
        agrees(weights, got, given)
    back = rb.load(tmp_path / "a.onnx")
    assert list(back) == ["rnn"]
    assert not back.tensors
    same_form = {"single": "double"}.get(spec.bias, spec.bias)
    assert back["rnn"].spec == spec.replace(bias=same_form)
    assert not back["rnn"].origin.assumptions
    for key, array in weights.arrays.items():
        assert back["rnn"].arrays[key].tobytes() == array.tobytes()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_with_their_constants(activation: str, tmp_path: Path) -> None:
    specs = [
        spec_of("rnn_tanh", activations=(activation,), direction="bidirectional"),
        spec_of("gru_after", activations=("hard_sigmoid(0.3, 0.4)", activation), direction="bidirectional"),
        spec_of("gru_before", activations=(activation, "scaled_tanh(0.7, 1.3)")),
        spec_of("lstm", activations=("hard_sigmoid(0.3, 0.4)", activation, "elu(0.8)"), direction="bidirectional"),
        spec_of("lstm", activations=(activation, "tanh", activation), direction="reverse"),
    ]
    for index, spec in enumerate(specs):
        small = {name: array / 4 for name, array in weights_of(spec).arrays.items()}  # so that no gate explodes
        weights = RNNWeights(spec, small)
        rb.save(weights, tmp_path / f"{index}.onnx")
        session = session_of(tmp_path / f"{index}.onnx")
        for given in cases(spec):
            agrees(weights, run(session, feeds_of(given)), given)
        assert rb.load(tmp_path / f"{index}.onnx")["rnn"] == weights


def test_activations_that_onnx_lacks_are_refused(tmp_path: Path) -> None:
    for activation in ("gelu", "selu", "silu", "exponential"):
        with pytest.raises(rb.Incompatible, match=activation):
            rb.save(weights_of(spec_of("rnn_tanh", activations=(activation,))), tmp_path / "a.onnx")


def test_what_onnx_lacks_is_refused_with_every_reason(tmp_path: Path) -> None:
    spec = spec_of("lstm", proj_size=2, proj_clip=0.4, cell_clip=0.6)
    with pytest.raises(rb.Incompatible) as caught:
        rb.save(weights_of(spec), tmp_path / "a.onnx")
    assert len(caught.value.reasons) == 3
    assert not list(tmp_path.iterdir())


def test_coupling_the_other_way_round_is_uncoupled_and_gives_the_same_numbers(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm", coupled="i=1-f"))
    rb.save(weights, tmp_path / "a.onnx")
    assert rb.load(tmp_path / "a.onnx")["rnn"].spec.coupled is None
    for given in cases(weights.spec):
        agrees(weights, run(session_of(tmp_path / "a.onnx"), feeds_of(given)), given)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch", [1, 3])
def test_optional_inputs_are_optional(cell: str, batch: int, tmp_path: Path) -> None:
    weights = weights_of(spec_of(cell, num_layers=2, direction="bidirectional"))
    rb.save(weights, tmp_path / "a.onnx")
    session, given = session_of(tmp_path / "a.onnx"), inputs_of(weights.spec, batch, lengths=True)
    plain, tolerance = expectation(weights.spec, weights.arrays, given.x)
    got = run(session, {"x": given.x})
    assert all(np.abs(got[name] - plain[name]).max() <= tolerance[name] for name in plain)
    some = run(session, {"x": given.x, "lengths": given.lengths.astype(np.int32)})
    zeros = run(session, {name: array * 0 for name, array in feeds_of(given).items() if "initial" in name}
                | {"x": given.x, "lengths": given.lengths.astype(np.int32)})  # fmt: skip
    assert all(some[name].tobytes() == zeros[name].tobytes() for name in some)


def test_a_length_above_T_or_below_zero_is_an_error(tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.onnx")
    session, x = session_of(tmp_path / "a.onnx"), inputs_of(spec_of("lstm"), 3).x
    for wrong in (len(x) + 1, -2):
        with pytest.raises(Exception, match="sequence_lens"):
            session.run(None, {"x": x, "lengths": np.array([1, wrong, 2], np.int32)})


@pytest.mark.parametrize(
    ("settings", "inputs", "opset"),
    [
        ({}, ["x", "lengths", "initial_h", "initial_c"], 9),
        ({"lengths": "false"}, ["x", "initial_h", "initial_c"], 8),
        ({"initial_state": "false"}, ["x", "lengths"], 9),
        ({"initial_state": "false", "lengths": "false"}, ["x"], 7),
    ],
)
def test_inputs_left_out_and_the_lowest_opset(
    settings: dict[str, str], inputs: list[str], opset: int, tmp_path: Path
) -> None:
    weights = weights_of(spec_of("lstm", num_layers=2))
    rb.save(weights, tmp_path / "a.onnx", settings=settings)
    model = is_valid(tmp_path / "a.onnx")
    assert [one.name for one in model.graph.input] == inputs
    assert [(one.domain, one.version) for one in model.opset_import] == [("", opset)]
    assert model.ir_version == 4
    x = inputs_of(weights.spec, 3).x
    got = run(session_of(tmp_path / "a.onnx"), {"x": x})
    wanted, tolerance = expectation(weights.spec, weights.arrays, x)
    assert all(np.abs(got[name] - wanted[name]).max() <= tolerance[name] for name in wanted)


def test_one_opset_lower_is_not_valid(tmp_path: Path) -> None:
    """Each option's operator is not there, or not so, in the opset below the one chosen."""
    turned = spec_of("gru_after", direction="reverse", output_order="processing")
    for spec, settings in ((spec_of("lstm"), {}), (spec_of("lstm"), {"lengths": "false"}), (turned, {})):
        rb.save(weights_of(spec), tmp_path / "a.onnx", settings=settings, overwrite=True)
        model = is_valid(tmp_path / "a.onnx")
        model.opset_import[0].version -= 1
        with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
            onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize("merge", ["concat", "none"])
def test_batch_first_turns_both_ends(merge: str, tmp_path: Path) -> None:
    spec = spec_of("gru_before", direction="bidirectional", merge=merge)
    weights, given = weights_of(spec).with_origin(batch_first=True), inputs_of(spec, 3, lengths=True)
    rb.save(weights, tmp_path / "b.onnx")
    rb.save(weights, tmp_path / "t.onnx", batch_first=False)
    time_first = run(session_of(tmp_path / "t.onnx"), feeds_of(given))
    batch_first = run(session_of(tmp_path / "b.onnx"), feeds_of(given) | {"x": given.x.swapaxes(0, 1)})
    for name, array in time_first.items():
        turned = batch_first[name].swapaxes(0, 1) if name.startswith("y") else batch_first[name]
        assert turned.tobytes() == array.tobytes()
    assert [rb.load(tmp_path / name)["rnn"].origin.batch_first for name in ("b.onnx", "t.onnx")] == [True, False]
    assert all(
        attribute.name != "layout" for node in onnx.load(tmp_path / "b.onnx").graph.node for attribute in node.attribute
    )


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("storage", ["float16", "bfloat16", "float64"])
def test_other_number_types_keep_their_bits(cell: str, storage: str, tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes", reason="ml_dtypes, which onnx reads bfloat16 with, is not installed")
    spec = spec_of(cell, num_layers=2, direction="bidirectional", merge="ave")
    stored = {name: array.astype(np.dtype(storage)) for name, array in weights_of(spec, dtype="float64").arrays.items()}
    weights = RNNWeights(spec, stored)
    written = rb.save(weights, tmp_path / "a.onnx")
    model = is_valid(tmp_path / "a.onnx")
    assert model.opset_import[0].version == (22 if storage == "bfloat16" else 9)
    assert any("ONNX Runtime has no" in notice for notice in written.notices) == (storage != "float16")
    back = rb.load(tmp_path / "a.onnx")["rnn"]
    assert back == weights
    assert back.origin.storage_dtype == ("" if storage == "float64" else storage)
    is_judged_right(rb.load(tmp_path / "a.onnx"), "rnn")
    node = next(node for node in model.graph.node if node.op_type in ("LSTM", "GRU", "RNN"))
    w = next(one for one in model.graph.initializer if one.name == node.input[1])
    assert str(onnx.numpy_helper.to_array(w).dtype) == storage


def test_one_number_that_float16_cannot_hold_widens_the_whole_stack(tmp_path: Path) -> None:
    spec = spec_of("lstm", num_layers=2)
    half = {name: array.astype(np.float16) for name, array in weights_of(spec).arrays.items()}
    arrays = {name: array.astype(np.float32) for name, array in half.items()}
    arrays["weight_hh_l1"][1, 2] += np.finfo(np.float32).eps
    weights = RNNWeights(spec, arrays).with_origin(storage_dtype="float16")
    rb.save(weights, tmp_path / "a.onnx")
    back = rb.load(tmp_path / "a.onnx")["rnn"]
    assert back == weights
    assert back.origin.storage_dtype == ""


def test_the_same_weights_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        rb.save(weights_of(spec_of("lstm", num_layers=3, direction="bidirectional")), tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_names_travel_and_the_constructor_line_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of("lstm", num_layers=2)
    written = rb.save(rb.Bundle({"decoder/rnn_1": weights_of(spec)}), tmp_path / "a.onnx")
    assert [(one.source, one.target) for one in written.layers] == [("decoder/rnn_1", "decoder/rnn_1")]
    assert list(rb.load(tmp_path / "a.onnx")) == ["decoder/rnn_1"]
    given = inputs_of(spec, 3)
    names = {"x": given.x, "h0": given.h0, "c0": given.c0, "lengths": np.array([2, 7, 1], np.int32)}
    monkeypatch.chdir(tmp_path)
    y, h, c = eval(written.layers[0].constructor, {"onnxruntime": onnxruntime, **names})
    assert (y.shape, h.shape, c.shape) == ((7, 3, H), (2, 3, H), (2, 3, H))


def test_several_layers_are_refused_by_name(tmp_path: Path) -> None:
    two = rb.Bundle({"lower": weights_of(spec_of("lstm")), "upper": weights_of(spec_of("lstm", input_size=H))})
    with pytest.raises(rb.ArgumentError, match=r"lower, upper.*--layer"):
        rb.save(two, tmp_path / "a.onnx")
    rb.save(rb.stack([two["lower"], two["upper"]]), tmp_path / "a.onnx")
    assert rb.load(tmp_path / "a.onnx")["rnn"].spec.num_layers == 2


def test_a_constant_that_float32_cannot_hold_is_told(tmp_path: Path) -> None:
    long = spec_of("rnn_tanh", activations=("elu(0.123456789123)",))
    assert any("0.123456789123" in notice for notice in rb.save(weights_of(long), tmp_path / "a.onnx").notices)
    kept = rb.save(weights_of(spec_of("rnn_tanh", activations=("elu(0.1234)",))), tmp_path / "b.onnx").notices
    assert not any("rounded" in notice for notice in kept)


def test_the_model_says_who_wrote_it_and_what(tmp_path: Path) -> None:
    spec = spec_of("gru_after", num_layers=2)
    rb.save(weights_of(spec), tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    said = {one.key: one.value for one in model.metadata_props}
    assert said["rnnbridge_version"] == model.producer_version
    assert model.producer_name == "rnnbridge"
    assert f'"input_size": {I}' in said["rnnbridge_spec"]
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "b.onnx")
    assert rb.load(tmp_path / "b.onnx")["rnn"] == rb.load(tmp_path / "a.onnx")["rnn"]
