"""Keras weights that rnnbridge writes: the real Keras loads them into the user's model and gives the same numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import WriteOptions, catalogue
from rnnbridge.proof.tolerance import expectation, run_reference, tolerance_between
from rnnbridge.spec import RNNSpec
from tests.samples import inputs_of, spec_of, weights_of

GOLDEN = Path(__file__).parent / "golden"
DEMO = Path(__file__).parent.parent / "examples" / "gpu_model.h5"
SUFFIXES = (".h5", ".weights.h5")
HARD_2, HARD_3 = "hard_sigmoid(0.2, 0.5)", f"hard_sigmoid({1 / 6}, 0.5)"
# A Keras of every kind of file; tf_keras knows no .weights.h5 of Keras 3 and says so itself.
LOADERS = [("keras", ".h5"), ("keras", ".weights.h5"), ("tf_keras", ".h5")]


def imported(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed, so it cannot load what was written")


def specs() -> Iterator[tuple[str, RNNSpec]]:
    """Every cell with every bias form and in every direction that Keras has, every merge, and some activations."""
    for number, cell in enumerate(("lstm", "gru_after", "gru_before", "rnn_relu")):
        for bias in ("none", "single", "double"):
            yield f"{cell}-forward-{bias}", spec_of(cell, bias=bias)
        yield f"{cell}-backwards", spec_of(cell, bias="single", direction="reverse", output_order="processing")
        for merge in ("concat", ("sum", "mul", "ave", "none")[number]):
            yield f"{cell}-{merge}", spec_of(cell, bias="single", direction="bidirectional", merge=merge)
    yield "lstm-relu", spec_of("lstm", bias="single", activations=("sigmoid", "relu", "relu"))
    yield "gru-softsign", spec_of("gru_before", bias="single", activations=("softsign", "elu(1.0)"))


SPECS = dict(specs())


def loaded(package: str, path: Path, line: str, spec: RNNSpec) -> Any:
    """A model of the layer that the constructor line makes, with the file's weights loaded by Keras."""
    keras = imported(package)
    layer = eval(line, {"keras": keras, "tf_keras": keras})
    x = keras.layers.Input((None, spec.input_size))
    model = keras.Model(x, layer(x))
    model.load_weights(str(path))
    return model


def check_outputs(model: Any, weights: rb.RNNWeights) -> None:
    spec, given = weights.spec, inputs_of(weights.spec, 3)
    answer = model(given.x.transpose(1, 0, 2))
    y = np.concatenate([np.asarray(one) for one in answer] if spec.merge == "none" else [np.asarray(answer)], axis=-1)
    exact = run_reference(spec, weights.arrays, given.x)["y"]
    assert np.abs(y.transpose(1, 0, 2) - exact).max() <= expectation(spec, weights.arrays, given.x).tolerance["y"]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize(("package", "suffix"), LOADERS)
def test_keras_loads_a_layer_from_elsewhere(package: str, suffix: str, spec: RNNSpec, tmp_path: Path) -> None:
    weights, path = weights_of(spec), tmp_path / f"layer{suffix}"
    (written,) = rb.save(weights, path).layers
    check_outputs(loaded(package, path, written.constructor, spec), weights)
    back = rb.load(path)[written.target]
    assert back.spec == written.plan.spec
    assert all(np.array_equal(back.arrays[name], array) for name, array in written.plan.apply(weights).arrays.items())


@pytest.mark.parametrize(("package", "hard", "suffix", "rescaled"), [
    ("tf_keras", HARD_2, ".h5", False), ("keras", HARD_3, ".h5", False),
    ("keras", HARD_3, ".weights.h5", False), ("keras", HARD_2, ".weights.h5", True),
])  # fmt: skip
def test_the_two_hard_sigmoids(package: str, hard: str, suffix: str, rescaled: bool, tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm", bias="single", activations=(hard, "tanh", "tanh")))
    path = tmp_path / f"hard{suffix}"
    (written,) = rb.save(weights, path).layers
    assert [step.name for step in written.plan.steps] == ["rescale hard sigmoid"] * rescaled
    assert written.constructor.startswith(f"{package}.layers.LSTM(3, ")
    check_outputs(loaded(package, path, written.constructor, weights.spec), weights)


def test_a_version_can_be_asked_for(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm", bias="single", activations=(HARD_2, "tanh", "tanh")))
    (written,) = rb.save(weights, tmp_path / "three.h5", settings={"keras_version": "3"}).layers
    assert written.plan.row.name == "keras.LSTM@3"
    check_outputs(loaded("keras", tmp_path / "three.h5", written.constructor, weights.spec), weights)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_stack_becomes_layers_that_follow_each_other(suffix: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of("gru_after", num_layers=3, direction="bidirectional"))
    written = rb.save(weights, tmp_path / f"stack{suffix}")
    assert [one.target for one in written.layers] == ["rnn_l0", "rnn_l1", "rnn_l2"]
    assert rb.stack(list(rb.load(tmp_path / f"stack{suffix}").layers.values())) == weights


@pytest.mark.parametrize(("package", "name", "suffix"), [
    ("tf_keras", "tf_keras-2.21.0/nested.keras", ".h5"), ("keras", "keras-3.15.1/nested.keras", ".h5"),
    ("keras", "keras-3.15.1/nested.keras", ".weights.h5"), ("keras", "keras-3.15.1/free_names.keras", ".weights.h5"),
    ("keras", "keras-3.15.1/mixed.h5", ".weights.h5"), ("keras", "keras-3.15.1/mixed.h5", ".h5"),
    ("keras", "keras-3.15.1/narrow.keras", ".weights.h5"), ("tf_keras", "tf_keras-2.21.0/mixed.h5", ".h5"),
])  # fmt: skip
def test_a_whole_model_is_carried(package: str, name: str, suffix: str, tmp_path: Path) -> None:
    keras = imported(package)
    model = keras.models.load_model(str(GOLDEN / name), compile=False)
    before = [np.array(array) for array in model.get_weights()]
    model.set_weights([np.zeros_like(array) for array in before])
    settings = {"keras_version": "2"} if package == "tf_keras" else None
    written = rb.save(rb.load(GOLDEN / name), tmp_path / f"again{suffix}", settings=settings)
    assert not written.not_converted
    model.load_weights(str(tmp_path / f"again{suffix}"))
    for array, again in zip(before, model.get_weights(), strict=True):
        assert np.array_equal(array.view(np.uint8), np.array(again).view(np.uint8))


def demo_model(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential([
        layers.Input((None,)), layers.Embedding(42, 13), layers.Bidirectional(layers.LSTM(24, return_sequences=True)),
        layers.GRU(31, return_sequences=True, reset_after=True), layers.LSTM(19), layers.Dense(6, activation="softmax"),
    ])  # fmt: skip


def demo_outputs(bundle: rb.Bundle, x: np.ndarray, dtype: type) -> np.ndarray:
    """The demo model by the reference, the whole of it in one dtype."""
    arrays = {name.rpartition("/")[2]: array.astype(dtype) for name, array in bundle.tensors.items()}
    y = arrays["embeddings:0"][x.astype(int)].transpose(1, 0, 2)
    for weights in bundle.layers.values():
        y = run_reference(weights.spec, weights.arrays, y, dtype=dtype)["y"]
    scores = np.exp(y[-1] @ arrays["kernel:0"] + arrays["bias:0"])
    return scores / scores.sum(-1, keepdims=True)


@pytest.mark.parametrize(("package", "suffix"), LOADERS)
def test_the_gpu_model_runs_on_the_cpu(package: str, suffix: str, tmp_path: Path) -> None:
    """What keras-team/keras 8860 and 11785 asked for: whole files, and a Bidirectional in one (PR 8908)."""
    keras, bundle, path = imported(package), rb.load(DEMO), tmp_path / f"cpu{suffix}"
    assert not rb.save(bundle, path).not_converted
    model = demo_model(keras)
    model.load_weights(str(path))
    with np.load(DEMO.with_suffix("").with_suffix(".expected.npz")) as expected:
        y = np.asarray(model(expected["model|x"]))
        exact, rough = (demo_outputs(bundle, expected["model|x"], dtype) for dtype in (np.float64, np.float32))
        assert np.abs(y - expected["model|y"]).max() <= tolerance_between(exact, rough)


def test_cudnn_layouts_come_back_with_the_same_bits(tmp_path: Path) -> None:
    bundle = rb.load(DEMO)
    rb.save(bundle, tmp_path / "gpu.h5", format="keras-cudnn")
    with h5py.File(DEMO) as before, h5py.File(tmp_path / "gpu.h5") as after:
        for layer in before["model_weights"].attrs["layer_names"]:
            for name in before["model_weights"][layer].attrs["weight_names"]:
                old = before["model_weights"][layer][name]
                assert np.array_equal(old, after["model_weights"][layer][name])


def test_an_lstm_goes_to_the_gpu_and_is_loaded_by_tf_keras(tmp_path: Path) -> None:
    weights, path = weights_of(spec_of("lstm", bias="single")), tmp_path / "gpu.h5"
    (written,) = rb.save(weights, path, format="keras-cudnn").layers
    assert written.constructor == "tf.compat.v1.keras.layers.CuDNNLSTM(3, return_sequences=True)"
    assert rb.load(path)["rnn"].origin.convention == "keras.CuDNNLSTM"
    assert not rb.load(path)["rnn"].arrays["bias_hh_l0"].any()
    check_outputs(loaded("tf_keras", path, "tf_keras.layers.LSTM(3, return_sequences=True)", weights.spec), weights)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("source", ["mixed.h5", "two_ways.keras", "nested.keras", "narrow.keras", "cells.weights.h5"])
def test_what_was_written_is_read_with_the_same_bits(source: str, suffix: str, tmp_path: Path) -> None:
    bundle = rb.load(GOLDEN / "keras-3.15.1" / source)
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    written = rb.save(bundle, first)
    again = rb.load(first)
    for one in written.layers:
        assert again[one.target] == bundle[one.source]
        stored = bundle[one.source].origin.storage_dtype
        widened = stored == "bfloat16" and suffix == ".h5"  # which Keras does not open there
        assert again[one.target].origin.storage_dtype == ("" if widened else stored)
    rb.save(bundle, second)
    assert first.read_bytes() == second.read_bytes()


def test_only_the_layers_asked_for(tmp_path: Path) -> None:
    bundle = rb.load(DEMO)
    bundle.layers = {"context": bundle["context"]}
    written = rb.save(bundle, tmp_path / "one.h5")
    assert "characters/characters/embeddings:0" in written.not_converted
    assert list(rb.load(tmp_path / "one.h5")) == ["context"]


TOO_MUCH = ({"proj_size": 2}, {"peephole": True}, {"clip": 3.0}, {"activations": ("sigmoid", "tanh", "relu")})


@pytest.mark.parametrize("change", TOO_MUCH, ids=str)
def test_what_keras_has_not_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(rb.Incompatible) as caught:
        rb.save(weights_of(spec_of("lstm", **change)), tmp_path / "no.h5")
    assert caught.value.reasons
    assert not list(tmp_path.iterdir())


def test_cudnn_layers_hold_one_formula_only(tmp_path: Path) -> None:
    """BrikerMan/Kashgari 182: a GRU reset before never becomes a CuDNNGRU, and the reason is given."""
    relu = spec_of("lstm", activations=("sigmoid", "relu", "relu"))
    layers = {"before": weights_of(spec_of("gru_before")), "relu": weights_of(relu)}
    with pytest.raises(rb.Incompatible) as caught:
        rb.save(rb.Bundle(layers), tmp_path / "gpu.h5", format="keras-cudnn")
    assert any("'before'" in one and "reset gate before" in one for one in caught.value.reasons)
    assert any("'relu'" in one and "relu" in one for one in caught.value.reasons)


def test_whole_archives_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(rb.Incompatible, match=r"write \.weights\.h5 \(Keras 3\)"):
        rb.save(weights_of(spec_of("lstm")), tmp_path / "model.keras")


def test_the_targets_ending_decides_and_not_the_drafts(tmp_path: Path) -> None:
    """What is written first is a draft, which may have any name."""
    bundle, write = rb.Bundle({"rnn": weights_of(spec_of("lstm"))}), catalogue().formats["keras"].write
    assert write is not None
    for suffix, group in ((".weights.h5", "layers"), (".h5", "rnn")):
        write(bundle, tmp_path / "draft", WriteOptions(suffix=suffix))
        with h5py.File(tmp_path / "draft") as file:
            assert list(file) == [group]


def test_long_lists_of_names_are_split_as_keras_splits_them(tmp_path: Path) -> None:
    layers = {f"{'long' * 30}_{k}": weights_of(spec_of("rnn_tanh"), seed=k) for k in range(600)}
    rb.save(rb.Bundle(layers), tmp_path / "many.h5")
    with h5py.File(tmp_path / "many.h5") as file:
        assert "layer_names0" in file.attrs
        assert "layer_names" not in file.attrs
    assert list(rb.load(tmp_path / "many.h5")) == list(layers)


def test_a_note_that_fits_other_arrays_is_passed_over(tmp_path: Path) -> None:
    spec = spec_of("lstm", bias="single", activations=("sigmoid", "relu", "relu"))
    rb.save(weights_of(spec), tmp_path / "noted.h5")
    with h5py.File(tmp_path / "noted.h5", "r+") as file:
        file.attrs["rnnbridge"] = file.attrs["rnnbridge"].replace('"hidden_size": 3', '"hidden_size": 4')
    bundle = rb.load(tmp_path / "noted.h5")
    assert str(bundle["rnn"].spec.activations[2]) == "tanh"
    assert any("noted another layer" in notice for notice in bundle.notices)
