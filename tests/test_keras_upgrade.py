"""Old models carried whole: what is changed in a config, what is refused, and what Keras 3 makes of it."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.keras_masks import mask_differences
from rnnbridge.converters.keras_settings import other_numbers
from rnnbridge.converters.keras_version import Version
from rnnbridge.errors import ArgumentError, Incompatible
from rnnbridge.proof.tolerance import expectation
from tests.test_keras_write import DEMO, GOLDEN, imported

STACK = GOLDEN / "keras-2.3.1" / "stack.h5"
Change = Callable[[dict[str, Any]], None]


def changed(source: Path, folder: Path, change: Change) -> Path:
    """A copy of a model file with another config."""
    path = folder / f"changed_{source.name}"
    path.write_bytes(source.read_bytes())
    with h5py.File(path, "r+") as file:
        text = file.attrs["model_config"]
        config = json.loads(text.decode() if isinstance(text, bytes) else text)
        change(config)
        file.attrs["model_config"] = json.dumps(config)
    return path


def config_of(path: Path) -> dict[str, Any]:
    """The config of a written model, of either container."""
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            return dict(json.loads(archive.read("config.json")))
    with h5py.File(path) as file:
        return dict(json.loads(file.attrs["model_config"]))


def layer_of(model: dict[str, Any], name: str) -> dict[str, Any]:
    return next(dict(one["config"]) for one in model["config"]["layers"] if one["config"]["name"] == name)


def entry(model: dict[str, Any], name: str) -> dict[str, Any]:
    """The config of a layer of a model that is to be changed."""
    return next(one["config"] for one in model["config"]["layers"] if one["config"]["name"] == name)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_the_report_names_every_layer(suffix: str, tmp_path: Path) -> None:
    report = rb.convert(DEMO, tmp_path / f"new{suffix}")
    assert report
    lines = {one.name: one for one in report.model}
    assert list(lines) == ["characters", "both_ways", "context", "summary", "kind"]
    assert (lines["summary"].kind, lines["summary"].became) == ("CuDNNLSTM", "LSTM")
    assert any("bias is [152]" in change for change in lines["summary"].changes)
    assert lines["kind"].changes == ()
    assert [one["name"] for one in report.to_dict()["model"]] == list(lines)
    assert "summary (CuDNNLSTM -> LSTM)" in repr(report)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_the_same_bytes_again_and_from_what_was_written(suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in ("once", "again", "from_once")]
    for source, target in zip((DEMO, DEMO, paths[0]), paths, strict=True):
        rb.save(rb.load(source), target)
    assert paths[0].read_bytes() == paths[1].read_bytes() == paths[2].read_bytes()


@pytest.mark.parametrize("name", ["mixed", "stack"])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_keras_3_opens_a_model_of_keras_1(suffix: str, name: str, tmp_path: Path) -> None:
    source, target = GOLDEN / "keras-1.2.2" / f"{name}.h5", tmp_path / f"new{suffix}"
    bundle = rb.load(source)
    rb.save(bundle, target)
    keras = imported("keras")
    model = keras.models.load_model(target)
    with np.load(source.with_suffix(".expected.npz")) as expected:
        layers = [one for one in model.layers if f"{one.name}|x" in expected]
        assert {one.name for one in layers} == set(bundle.layers)
        for layer in layers:
            x, y = expected[f"{layer.name}|x"], expected[f"{layer.name}|y"]
            weights = bundle[layer.name]
            got = np.asarray(layer(x))
            wanted = y if got.ndim == 3 else y[:, -1]
            allowed = expectation(weights.spec, weights.arrays, x.transpose(1, 0, 2)).tolerance["y"]
            assert np.abs(got - wanted).max() <= allowed


@pytest.mark.parametrize(("keyword", "value", "kept"), [
    ("time_major", False, False), ("implementation", 1, False), ("unroll", True, True), ("input_length", 5, False),
])  # fmt: skip
def test_only_what_keras_3_does_not_take_goes(keyword: str, value: Any, kept: bool, tmp_path: Path) -> None:
    source = changed(STACK, tmp_path, lambda model: entry(model, "first").update({keyword: value}))
    written = rb.save(rb.load(source), tmp_path / "new.keras")
    assert (keyword in layer_of(config_of(tmp_path / "new.keras"), "first")) is kept
    said = next(one for one in written.model if one.name == "first").changes
    assert any(change.startswith(f"{keyword}={value!r} dropped") for change in said) is not kept


@pytest.mark.parametrize(("layer", "keyword", "value"), [("first", "time_major", True), ("out", "wobble", 3)])
def test_a_keyword_whose_meaning_would_be_lost_is_refused(layer: str, keyword: str, value: Any, tmp_path: Path) -> None:
    source = changed(STACK, tmp_path, lambda model: entry(model, layer).update({keyword: value}))
    for target in (tmp_path / "new.keras", tmp_path / "new.h5"):
        with pytest.raises(Incompatible, match=f"layer '{layer}': .*{keyword}={value!r}"):
            rb.convert(source, target)
        assert not target.exists()


@pytest.mark.parametrize(
    ("version", "differs"), [("2.3.1", True), ("2.2.4-tf", False), ("2.15.0", False), ("3", False)]
)
def test_smooth_upsampling_of_multi_backend_keras_is_refused(version: str, differs: bool) -> None:
    """3 x 4 numbers 0 to 11, doubled bilinear: the first row of Keras 2.3.1 is 0, 0.5, 1 ...; of tf.keras 1.15, of
    tf_keras 2.21 and of Keras 3.15.1 it is 0, 0.25, 0.75 ..."""
    for interpolation in ("bilinear", "nearest", None):
        given = {} if interpolation is None else {"interpolation": interpolation}
        found = other_numbers({"size": [2, 2], **given}, "UpSampling2D", Version(version))
        assert bool(found) == (differs and interpolation == "bilinear")


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_no_file_can_hold_are_refused(name: str, tmp_path: Path) -> None:
    def rename(model: dict[str, Any]) -> None:
        entry(model, "out")["name"] = name

    source = changed(STACK, tmp_path, rename)
    with pytest.raises(rb.FormatError, match="a name that no HDF5 file can hold"):
        rb.convert(source, tmp_path / "new.keras")


def test_initializers_that_keras_3_has_not_are_said_otherwise(tmp_path: Path) -> None:
    def own(model: dict[str, Any]) -> None:
        entry(model, "first")["recurrent_initializer"] = "recurrent_identity"

    written = rb.save(rb.load(changed(STACK, tmp_path, own)), tmp_path / "new.keras")
    assert layer_of(config_of(tmp_path / "new.keras"), "first")["recurrent_initializer"] == "identity"
    assert any("recurrent_initializer=identity set" in change for one in written.model for change in one.changes)
    imported("keras").models.load_model(tmp_path / "new.keras")


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_bfloat16_is_opened_from_both_containers(tmp_path: Path) -> None:
    keras = imported("keras")
    recurrent = keras.layers.GRU(4, dtype="bfloat16", recurrent_initializer="glorot_uniform")
    model = keras.Sequential([keras.Input((5, 3)), recurrent, keras.layers.Dense(2, dtype="bfloat16")])
    x = np.random.default_rng(0).standard_normal((3, 5, 3)).astype("f")
    wanted = model.predict(x, verbose=0)
    model.save(tmp_path / "old.keras")
    for target in (tmp_path / "new.keras", tmp_path / "new.h5"):
        rb.convert(tmp_path / "old.keras", target)
        assert np.array_equal(keras.models.load_model(target).predict(x, verbose=0), wanted)


def test_an_archive_needs_a_whole_model(tmp_path: Path) -> None:
    target = tmp_path / "new.keras"
    with pytest.raises(Incompatible, match="the source has none"):
        rb.convert(GOLDEN / "keras-2.3.1" / "gru.weights.h5", target)
    with pytest.raises(Incompatible, match="only some layers are asked for"):
        rb.convert(STACK, target, layers="first")
    assert not target.exists()


def test_a_class_that_is_not_known_is_refused_by_name_or_kept(tmp_path: Path) -> None:
    def own(model: dict[str, Any]) -> None:
        dense = model["config"]["layers"][-1]
        dense["class_name"], dense["config"] = "Mine", {"name": "out", "secret": [1, 2]}

    source = changed(STACK, tmp_path, own)
    with pytest.raises(Incompatible, match="'out' is a Mine"):
        rb.save(rb.load(source), tmp_path / "new.keras")
    written = rb.save(rb.load(source), tmp_path / "new.h5")
    assert config_of(tmp_path / "new.h5")["config"]["layers"][-1]["config"] == {"name": "out", "secret": [1, 2]}
    assert "kept as it is" in str(written.model[-1])


def test_names_that_keras_3_does_not_take(tmp_path: Path) -> None:
    written = rb.save(rb.load(GOLDEN / "keras-2.3.1" / "names.h5"), tmp_path / "new.h5")
    assert "encoder_lstm_1" in [one.target for one in written.layers]
    assert any("'encoder/lstm/1' becomes 'encoder_lstm_1'" in str(one) for one in written.model)
    imported("keras").models.load_model(tmp_path / "new.h5", compile=False).get_layer("encoder_lstm_1")


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    report = rb.convert(DEMO, tmp_path / "new.keras", dry_run=True)
    assert sorted(tmp_path.iterdir()) == before
    assert [one.name for one in report.model] == ["characters", "both_ways", "context", "summary", "kind"]
    assert not report.measurements
    assert any("a dry run" in notice for notice in report.notices)


def test_a_dry_run_refuses_what_a_run_refuses(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="nothing here takes the setting 'wobble'"):
        rb.convert(DEMO, tmp_path / "new.keras", dry_run=True, settings={"wobble": "1"})


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_keras_is_asked_where_a_class_keeps_its_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keras = imported("keras")
    source, target = tmp_path / "old.h5", tmp_path / "new.keras"
    model = keras.Sequential([
        keras.layers.Input((7, 5)), keras.layers.LSTM(3, return_sequences=True, name="lstm"),
        keras.layers.GroupNormalization(groups=3, name="grouped"), keras.layers.Dense(2, name="out"),
    ])  # fmt: skip
    x = np.linspace(-1, 1, 105, dtype=np.float32).reshape(3, 7, 5)
    model.get_layer("grouped").set_weights([np.arange(1, 4) / 3, np.arange(3) / 5])
    model.save(source)
    rb.save(rb.load(source), target)
    assert np.array_equal(keras.models.load_model(target).predict(x), model.predict(x))

    monkeypatch.setitem(sys.modules, "keras", None)  # as where Keras is not installed
    with pytest.raises(Incompatible, match=r"'grouped' is a GroupNormalization(.|\n)*with Keras 3 installed"):
        rb.save(rb.load(source), tmp_path / "other.keras")


def test_a_lambda_is_carried_as_it_is_and_listed(tmp_path: Path) -> None:
    code = ["4wEAAAAAAAAA", None, None]

    def with_code(model: dict[str, Any]) -> None:
        config = {"name": "code", "function": code, "function_type": "lambda", "arguments": {}}
        model["config"]["layers"].append({"class_name": "Lambda", "config": config})

    written = rb.save(rb.load(changed(STACK, tmp_path, with_code)), tmp_path / "new.keras")
    function = layer_of(config_of(tmp_path / "new.keras"), "code")["function"]
    assert list(function["config"].values()) == code
    assert "never run here" in str(written.model[-1])
    with pytest.raises(ValueError, match="lambda"):
        imported("keras").models.load_model(tmp_path / "new.keras")


def masked_pair(model: dict[str, Any], *, same: bool, heeded: bool) -> None:
    """Two inputs, one of them or both masked, put side by side before a layer that heeds a mask or does not."""

    def layer(kind: str, name: str, *sources: str, **config: Any) -> dict[str, Any]:
        calls = [[[source, 0, 0, {}] for source in sources]] if sources else []
        return {"class_name": kind, "name": name, "config": {"name": name, **config}, "inbound_nodes": calls}

    lstm = next(dict(one["config"]) for one in model["config"]["layers"] if one["config"]["name"] == "first")
    shape = {"batch_input_shape": [None, 7, 5], "dtype": "float32"}
    last = layer("LSTM", "first", "both", **{k: v for k, v in lstm.items() if k != "name"})
    layers = [
        layer("InputLayer", "a", **shape), layer("InputLayer", "b", **shape),
        layer("Masking", "masked", "a", mask_value=0.0), layer("Activation", "passed", "masked", activation="relu"),
        layer("Concatenate", "both", "passed", "masked" if same else "b", axis=-1),
        last if heeded else layer("Activation", "last", "both", activation="relu"),
    ]  # fmt: skip
    model["class_name"] = "Model"
    ends = {"input_layers": [["a", 0, 0], ["b", 0, 0]], "output_layers": [[layers[-1]["name"], 0, 0]]}
    model["config"] = {"name": "model", "layers": layers, **ends}


@pytest.mark.parametrize(("same", "heeded"), [(True, True), (False, True), (False, False)])
def test_unequal_masks_are_refused_where_they_matter(same: bool, heeded: bool) -> None:
    """Keras 2 joins them by all and Keras 3 by any; with one alone Keras 3 has no mask."""
    with h5py.File(STACK) as file:
        model = json.loads(file.attrs["model_config"])
    masked_pair(model, same=same, heeded=heeded)
    said, _ = mask_differences(model, repeats=False)
    assert (said == []) is (same or not heeded)
    assert all(
        "layer 'first': its mask comes out of 'both', where a masked tensor meets one without" in one for one in said
    )
