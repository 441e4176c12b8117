"""Keras files that are damaged, dangerous, old or silent: what is said, what is assumed, and what people reported."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.files.hdf5 import read_hdf5
from rnnbridge.proof.tolerance import run_reference

GOLDEN = Path(__file__).parent / "golden"
DEMO = Path(__file__).parent.parent / "examples" / "gpu_model.h5"
EVERY_KIND = [
    GOLDEN / "keras-2.3.1" / "cudnn_nested.h5",
    GOLDEN / "keras-2.3.1" / "gru.weights.h5",
    GOLDEN / "keras-3.15.1" / "nested.keras",
    GOLDEN / "keras-3.15.1" / "mixed.weights.h5",
]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def weights_file(path: Path, layers: dict[str, dict[str, Any]], version: str | None = "2.1.5") -> Path:
    """A weights-only file: layer -> {weight name: shape or array}."""
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.encode() for layer in layers]
        if version is not None:
            file.attrs["keras_version"] = version.encode()
        for layer, weights in layers.items():
            group = file.create_group(layer)
            group.attrs["weight_names"] = [name.encode() for name in weights]
            for name, given in weights.items():
                array = rng().standard_normal(given) if isinstance(given, tuple) else given
                group[name] = np.asarray(array, "float32")
    return path


def cell(name: str, inputs: int, units: int, gates: int, bias: tuple[int, ...] | None) -> dict[str, tuple[int, ...]]:
    weights: dict[str, tuple[int, ...]] = {
        f"{name}/kernel:0": (inputs, gates * units),
        f"{name}/recurrent_kernel:0": (units, gates * units),
    }
    return weights if bias is None else {**weights, f"{name}/bias:0": bias}


# Bytes that are not as they should be.


@pytest.mark.parametrize("source", EVERY_KIND, ids=lambda path: path.name)
def test_every_truncation_is_a_format_error(source: Path, tmp_path: Path) -> None:
    content = source.read_bytes()
    for size in [1, 7, 8, 9, 64, 511, *range(1000, len(content), max(len(content) // 23, 1)), len(content) - 1]:
        path = tmp_path / f"cut{source.suffix}"
        path.write_bytes(content[:size])
        with pytest.raises(rb.FormatError, match="cut"):
            rb.load(path, format="keras")


@pytest.mark.parametrize("source", EVERY_KIND, ids=lambda path: path.name)
def test_random_bytes_inside_are_read_or_refused(source: Path, tmp_path: Path) -> None:
    content, random, refused = source.read_bytes(), rng(), 0
    path = tmp_path / f"flipped{source.suffix}"
    for _ in range(60):
        damaged = bytearray(content)
        for place in random.integers(0, min(len(content), 4096), 4):
            damaged[place] = random.integers(256)
        path.write_bytes(damaged)
        try:
            rb.load(path, format="keras")
        except rb.FormatError:
            refused += 1
    assert refused


@pytest.mark.parametrize("head", [b"", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"])
def test_noise_is_a_format_error(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "noise.h5"
    path.write_bytes(head + rng().bytes(5000))
    with pytest.raises(rb.FormatError, match=r"noise\.h5"):
        rb.load(path, format="keras")


def linked_outside(file: h5py.File, elsewhere: str) -> None:
    del file["lstm"]["lstm/kernel:0"]
    file["lstm"]["lstm/kernel:0"] = h5py.ExternalLink(elsewhere, "/secret")


def stored_outside(file: h5py.File, elsewhere: str) -> None:
    del file["lstm"]["lstm/kernel:0"]
    file["lstm"].create_dataset("lstm/kernel:0", (5, 12), "float32", external=[(elsewhere, 0, 240)])


def virtual(file: h5py.File, elsewhere: str) -> None:
    layout = h5py.VirtualLayout((5, 12), "float32")
    layout[:] = h5py.VirtualSource(elsewhere, "secret", (5, 12))
    del file["lstm"]["lstm/kernel:0"]
    file["lstm"].create_virtual_dataset("lstm/kernel:0", layout)


def endless(file: h5py.File, elsewhere: str) -> None:
    file["lstm"]["again"] = file["lstm"]


def huge(file: h5py.File, elsewhere: str) -> None:
    file.create_dataset("huge", (1 << 40,), "float32", chunks=(1 << 20,))


@pytest.mark.parametrize(("change", "word"), [
    (linked_outside, "link to somewhere else"), (stored_outside, "lie in another file"),
    (virtual, "lie in another file"), (endless, "contains itself"), (huge, "more than the file can hold"),
])  # fmt: skip
def test_a_file_never_makes_us_open_another_or_run_out(
    change: Callable[[h5py.File, str], None], word: str, tmp_path: Path
) -> None:
    path = weights_file(tmp_path / "trap.h5", {"lstm": cell("lstm", 5, 3, 4, (12,))})
    elsewhere = tmp_path / "elsewhere.h5"
    with h5py.File(elsewhere, "w") as file:
        file["secret"] = np.ones((5, 12), "float32")
    with h5py.File(path, "r+") as file:
        change(file, str(elsewhere))
    with pytest.raises(rb.FormatError, match=word):
        rb.load(path)


@pytest.mark.parametrize("factor", [2, 1 << 18])
def test_a_text_that_claims_to_be_longer_than_it_is(factor: int, tmp_path: Path) -> None:
    """The C library believes such a length: it reads beyond the text, or for ten seconds."""
    content = EVERY_KIND[0].read_bytes()
    with h5py.File(EVERY_KIND[0]) as file:
        length = len(file.attrs["model_config"])
    at = content.index(length.to_bytes(4, "little"), content.index(b"model_config"))
    path = tmp_path / "longer.h5"
    path.write_bytes(content[:at] + (length * factor).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(rb.FormatError, match=r"longer\.h5.*is not in the heap"):
        rb.load(path)


@pytest.mark.parametrize("newest", [False, True])
def test_text_attributes_of_every_form(newest: bool, tmp_path: Path) -> None:
    """Old and new object headers, one text and many, more than one block of attributes."""
    few_or_many = (
        4 if newest else 40
    )  # more than eight move elsewhere in the newest form, which nobody writes for Keras
    given: dict[str, Any] = {f"a{k}": "x" * 41 * k for k in range(few_or_many)} | {"list": ["one", "", "zwölf"]}
    with h5py.File(tmp_path / "texts.h5", "w", libver="latest" if newest else None) as file:
        for key, value in given.items():
            file.attrs[key] = value
    read = read_hdf5(tmp_path / "texts.h5", "texts").attrs
    assert read == {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}


# Files that contradict themselves.


def test_wrong_shapes_name_the_layer_and_the_array(tmp_path: Path) -> None:
    path = weights_file(tmp_path / "odd.h5", {"encoder": cell("encoder", 5, 3, 4, (13,))})
    with pytest.raises(rb.FormatError, match=r"odd\.h5: layer 'encoder': .*bias.*13"):
        rb.load(path)


def changed_config(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], source: str = "keras-2.3.1/gru.h5"
) -> Path:
    path = tmp_path / "changed.h5"
    path.write_bytes((GOLDEN / source).read_bytes())
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        for layer in config["config"]["layers"]:
            change(layer)
        file.attrs["model_config"] = json.dumps(config)
    return path


def more_units(layer: dict[str, Any]) -> None:
    if layer["class_name"] == "GRU":
        layer["config"]["units"] += 2


def other_formula(layer: dict[str, Any]) -> None:
    if layer["config"]["name"] == "gru_after":
        layer["config"]["reset_after"] = False


@pytest.mark.parametrize(("change", "words"), [
    (more_units, "the config says gru_before = GRU of 7 units"),
    (other_formula, "'gru_after': the config says reset_after=False, and the bias is that of a GRU reset after"),
])  # fmt: skip
def test_a_config_that_its_arrays_contradict(
    change: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    with pytest.raises(rb.FormatError) as caught:
        rb.load(changed_config(tmp_path, change))
    assert words in str(caught.value)
    assert "changed.h5" in str(caught.value)


def test_a_listed_array_that_is_missing(tmp_path: Path) -> None:
    path = weights_file(tmp_path / "gap.h5", {"gru": cell("gru", 5, 3, 3, (9,))})
    with h5py.File(path, "r+") as file:
        del file["gru/gru/bias:0"]
    with pytest.raises(
        rb.FormatError, match="'gru': its array 'gru/bias:0' is listed in weight_names and is not there"
    ):
        rb.load(path)


def test_code_in_a_config_is_data(tmp_path: Path) -> None:
    """A Lambda, a class of the user's own and a ConvLSTM2D: named, left as they are, never run."""

    def change(layer: dict[str, Any]) -> None:
        if layer["class_name"] == "InputLayer":
            layer["class_name"] = "Lambda"
            layer["config"]["function"] = ["__import__('os').abort()", None, None]
        if layer["config"]["name"] == "gru_after":
            layer["class_name"] = "ConvLSTM2D"
        if layer["config"]["name"] == "gru_before":
            layer["module"] = "my.own.layers"
        if layer["config"]["name"] == "gru_after_no_bias":
            layer["config"]["activation"] = "softmax"

    bundle = rb.load(changed_config(tmp_path, change))
    for said in ("'gru_after' (ConvLSTM2D) is not", "'gru_before' (GRU) is not", "activation 'softmax' is none of"):
        assert any(said in notice for notice in bundle.notices)
    assert bundle.layers
    assert not {"gru_after", "gru_before", "gru_after_no_bias"} & set(bundle)
    assert "gru_before/gru_before/kernel:0" in bundle.tensors


def test_an_archive_without_its_config(tmp_path: Path) -> None:
    path = tmp_path / "half.keras"
    with zipfile.ZipFile(GOLDEN / "keras-3.15.1" / "mixed.keras") as whole, zipfile.ZipFile(path, "w") as half:
        half.writestr("model.weights.h5", whole.read("model.weights.h5"))
    with pytest.raises(rb.FormatError, match=r"metadata\.json"):
        rb.load(path, format="keras")


# What shapes and names say, where nothing else does.


@pytest.mark.parametrize(("bias", "gates", "row"), [
    ((12,), 4, "keras.LSTM@2"), ((24,), 4, "keras.CuDNNLSTM"), ((9,), 3, "keras.GRU(reset_after=False)@2"),
    ((2, 9), 3, "keras.GRU(reset_after=True)@2"), ((18,), 3, "keras.CuDNNGRU"), ((3,), 1, "keras.SimpleRNN@2"),
])  # fmt: skip
def test_the_bias_tells_the_layer(bias: tuple[int, ...], gates: int, row: str, tmp_path: Path) -> None:
    """keras-team/keras 8860, Keras-Trigger-Word 15: the length of the bias is the only sign in a weights-only file."""
    weights = rb.load(weights_file(tmp_path / "w.h5", {"rnn_1": cell("rnn_1", 5, 3, gates, bias)}))["rnn_1"]
    assert weights.origin.convention == row
    assert any(str(list(bias)) in sentence for sentence in weights.origin.evidence)


def test_without_a_bias_the_user_says_which(tmp_path: Path) -> None:
    path = weights_file(tmp_path / "w.h5", {"rnn": cell("rnn", 5, 3, 4, None)})
    assert "layer_class" in {one.key for one in rb.load(path)["rnn"].origin.assumptions}
    plain, gpu = rb.load(path)["rnn"], rb.load(path, settings={"layer_class": "CuDNNLSTM"})["rnn"]
    assert gpu.origin.convention == "keras.CuDNNLSTM"
    assert not np.array_equal(gpu.arrays["weight_ih_l0"], plain.arrays["weight_ih_l0"])
    assert np.array_equal(np.sort(gpu.arrays["weight_ih_l0"], None), np.sort(plain.arrays["weight_ih_l0"], None))
    assert not gpu.arrays["bias_ih_l0"].any()
    with pytest.raises(rb.ArgumentError, match="it is one of LSTM, GRU"):
        rb.load(path, settings={"layer_class": "Transformer"})


@pytest.mark.parametrize(("version", "gates"), [
    (None, "hard_sigmoid(0.2, 0.5)"), ("1.2.2", "hard_sigmoid(0.2, 0.5)"), ("2.2.4", "hard_sigmoid(0.2, 0.5)"),
    ("2.2.4-tf", "hard_sigmoid(0.2, 0.5)"), ("2.3.0", "sigmoid"), ("2.3.0-tf", "sigmoid"), ("2.15.0", "sigmoid"),
    ("3.15.1", "sigmoid"),
])  # fmt: skip
def test_the_gates_activation_by_version(version: str | None, gates: str, tmp_path: Path) -> None:
    """minimaxir/textgenrnn 153: the default changed with Keras 2.3; cuDNN layers never had it."""
    layers = {"plain": cell("plain", 5, 3, 4, (12,)), "gpu": cell("gpu", 5, 3, 4, (24,))}
    bundle = rb.load(weights_file(tmp_path / "w.h5", layers, version))
    assert str(bundle["plain"].spec.activations[0]) == gates
    assert str(bundle["gpu"].spec.activations[0]) == "sigmoid"
    (assumed,) = [one for one in bundle["plain"].origin.assumptions if one.key == "recurrent_activation"]
    assert assumed.value == gates.partition("(")[0]


@pytest.mark.parametrize(("version", "slope"), [("2.15.0", 0.2), ("3.15.1", 1 / 6)])
def test_hard_sigmoid_by_version(version: str, slope: float, tmp_path: Path) -> None:
    """tensorflow/tensorflow 65381: at 1 it is 0.7 in Keras 2 and 0.6667 in Keras 3."""
    path = weights_file(tmp_path / "w.h5", {"rnn": cell("rnn", 5, 3, 4, (12,))}, version)
    weights = rb.load(path, settings={"recurrent_activation": "hard_sigmoid"})["rnn"]
    assert weights.spec.activations[0].alpha == slope


def test_a_hard_sigmoid_of_nobody_knows_which_keras(tmp_path: Path) -> None:
    path = GOLDEN / "tf_keras-2.21.0" / "mixed.weights.h5"
    with pytest.raises(rb.ArgumentError, match="set keras_version=2 or keras_version=3 too"):
        rb.load(path, settings={"recurrent_activation": "hard_sigmoid"})


@pytest.mark.parametrize(("key", "value", "words"), [
    ("keras_version", "latest", "it is a version such as"), ("go_backwards", "maybe", "it is true or false"),
    ("reverse", "true", "nothing here takes the setting 'reverse'"),
    ("activation", "tnh", "setting activation: .*'tnh'"),
])  # fmt: skip
def test_settings_that_say_nothing(key: str, value: str, words: str) -> None:
    with pytest.raises(rb.ArgumentError, match=words):
        rb.load(GOLDEN / "keras-2.3.1" / "gru.weights.h5", settings={key: value})


def test_dead_keywords_are_passed_over(tmp_path: Path) -> None:
    """keras-team/keras 20750 and 20106: time_major=False, batch_input_shape and what else Keras 3 refuses."""

    def change(layer: dict[str, Any]) -> None:
        layer["config"] |= {"time_major": False, "batch_input_shape": [None, None, 3], "consume_less": "gpu"}

    bundle = rb.load(changed_config(tmp_path, change))
    assert bundle["gru_after"].origin.batch_first is True


def test_cudnn_kernels_are_reshaped_and_not_transposed(tmp_path: Path) -> None:
    """keras-team/keras PR 8307: each gate's [I, H] block holds the bytes of a matrix [H, I]; only I != H shows it."""
    kernel = np.arange(5 * 12, dtype="float32").reshape(5, 12)
    weights = cell("gpu", 5, 3, 4, (24,)) | {"gpu/kernel:0": kernel}
    read = rb.load(weights_file(tmp_path / "w.h5", {"gpu": weights}))["gpu"].arrays["weight_ih_l0"]
    for gate in range(4):
        assert np.array_equal(read[3 * gate : 3 * gate + 3], kernel[:, 3 * gate : 3 * gate + 3].reshape(3, 5))


def test_keras_1_gates_come_in_another_order(tmp_path: Path) -> None:
    """keras-team/keras 3088: twelve arrays, i c f o, each W, U, b."""
    parts = {"W": (5, 3), "U": (3, 3), "b": (3,)}
    arrays = {f"lstm_1_{base}_{gate}": rng().standard_normal(shape) + k
              for k, gate in enumerate("icfo") for base, shape in parts.items()}  # fmt: skip
    weights = rb.load(weights_file(tmp_path / "w.h5", {"lstm_1": arrays}, None))["lstm_1"]
    assert weights.origin.convention == "keras.LSTM@1"
    for row, gate in enumerate("ifco"):
        W, b = arrays[f"lstm_1_W_{gate}"], arrays[f"lstm_1_b_{gate}"]
        assert np.array_equal(weights.arrays["weight_ih_l0"][3 * row : 3 * row + 3], W.T.astype("float32"))
        assert np.array_equal(weights.arrays["bias_ih_l0"][3 * row : 3 * row + 3], b.astype("float32"))


def test_bidirectional_halves_by_name(tmp_path: Path) -> None:
    """keras-team/keras 10626: two Bidirectional layers, read without rebuilding the model."""
    layers = {
        f"bidirectional_{k}": cell(f"bidirectional_{k}/forward_lstm_{k}", 5, 3, 4, (12,))
        | cell(f"bidirectional_{k}/backward_lstm_{k}", 5, 3, 4, (12,))
        for k in (1, 2)
    }
    bundle = rb.load(weights_file(tmp_path / "w.h5", layers))
    assert list(bundle) == list(layers)
    assert {weights.spec.direction for weights in bundle.layers.values()} == {"bidirectional"}


def test_a_frozen_layer_comes_after_the_others_in_a_group(tmp_path: Path) -> None:
    """Keras writes what is trained before what is frozen: names and shapes would give the wrong layer its weights."""
    keras = pytest.importorskip("tf_keras", reason="tf_keras is not installed, so it cannot write such a file")
    layers = keras.layers
    inner = keras.Sequential(
        [layers.LSTM(5, return_sequences=True, trainable=False, name="first"), layers.LSTM(5, name="second")],
        name="inner",
    )
    model = keras.Sequential([layers.Input((None, 5)), inner])
    model.save_weights(str(tmp_path / "w.h5"))
    whole = tmp_path / "frozen.h5"
    whole.write_bytes((tmp_path / "w.h5").read_bytes())
    with h5py.File(whole, "r+") as file:
        group = file.create_group("model_weights")
        for key in list(file.attrs):
            group.attrs[key] = file.attrs[key]
            del file.attrs[key]
        for name in [name for name in file if name != "model_weights"]:
            file.move(name, f"model_weights/{name}")
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": model.get_config()})
    bundle = rb.load(whole)
    for layer in inner.layers:
        kernel = layer.get_weights()[0]
        assert np.array_equal(bundle[f"inner/{layer.name}"].arrays["weight_ih_l0"], kernel.T)


def test_nan_weights_are_accepted(tmp_path: Path) -> None:
    weights = cell("rnn", 5, 3, 1, (3,)) | {"rnn/bias:0": np.full(3, np.nan)}
    read = rb.load(weights_file(tmp_path / "w.h5", {"rnn": weights}))["rnn"]
    assert np.isnan(run_reference(read.spec, read.arrays, np.ones((2, 1, 5)))["y"]).all()
