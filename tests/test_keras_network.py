"""Models that people trained and published, fetched into a cache and read: what only the right reading gives.

They are other people's work (MIT) and are never committed. Where one cannot be had its tests are skipped, saying why.
"""

from __future__ import annotations

import json
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation, run_reference
from tests.fetching import package
from tests.keras_models import allowed, answers, keras_named, opened
from tests.samples import spec_of

pytestmark = pytest.mark.network
# The kind of titles that textgenrnn was trained on.
TITLES = (
    "What is the best thing you have ever seen in your life?",
    "What is your favorite thing to do with your friends?",
    "What is the best way to get a new job?",
    "People of Reddit, what is the most interesting thing you have ever done?",
)
CONTEXT = 40  # characters that the model sees


@pytest.fixture(scope="module")
def textgenrnn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The weights and the vocabulary."""
    archive = package("textgenrnn", "2.0.0", "--no-binary", ":all:", "--no-build-isolation")
    folder = tmp_path_factory.mktemp("textgenrnn")
    with tarfile.open(archive) as file:
        for name in ("textgenrnn_weights.hdf5", "textgenrnn_vocab.json"):
            member = file.extractfile(f"textgenrnn-2.0.0/textgenrnn/{name}")
            assert member is not None
            (folder / name).write_bytes(member.read())
    return folder / "textgenrnn_weights.hdf5", json.loads((folder / "textgenrnn_vocab.json").read_text("utf-8"))


def nll(bundle: rb.Bundle, vocabulary: dict[str, int], text: str) -> float:
    """Mean negative log likelihood per character: embedding, two LSTMs, attention over all three, softmax."""
    characters = ["<s>", *text, "<s>"]
    tokens = np.array([0] * (CONTEXT - 1) + [vocabulary[one] for one in characters])
    windows = np.lib.stride_tricks.sliding_window_view(tokens[:-1], CONTEXT)
    t = bundle.tensors
    embedded = t["embedding/embedding/embeddings:0"][windows].transpose(1, 0, 2)
    first = run_reference(bundle["rnn_1"].spec, bundle["rnn_1"].arrays, embedded)["y"]
    second = run_reference(bundle["rnn_2"].spec, bundle["rnn_2"].arrays, first)["y"]
    seen = np.concatenate([embedded, first, second], axis=-1)
    attention = np.exp(seen @ t["attention/attention/attention_W:0"])
    context = (seen * attention / attention.sum(0)).sum(0)
    scores = context @ t["output/output/kernel:0"] + t["output/output/bias:0"]
    log_sum = np.logaddexp.reduce(scores, axis=1)
    return float((log_sum - scores[np.arange(len(windows)), tokens[CONTEXT:]]).mean())


def read_as_plain_lstm(path: Path, bundle: rb.Bundle) -> rb.Bundle:
    """What ignoring the length of the bias gives: kernels transposed, the halves of the bias added."""
    layers = {}
    with h5py.File(path) as file:
        for name in bundle:
            kernel, recurrent, bias = (np.asarray(file[name][key]) for key in file[name].attrs["weight_names"])
            spec = spec_of("lstm", input_size=len(kernel), hidden_size=len(recurrent), bias="single")
            arrays = {"weight_ih_l0": kernel.T, "weight_hh_l0": recurrent.T, "bias_ih_l0": sum(np.split(bias, 2))}
            layers[name] = rb.RNNWeights(spec, arrays)
    return rb.Bundle(layers, bundle.tensors)


def test_textgenrnn_predicts_english(textgenrnn: tuple[Path, dict[str, int]]) -> None:
    path, vocabulary = textgenrnn
    bundle = rb.load(path)
    assert {weights.origin.convention for weights in bundle.layers.values()} == {"keras.CuDNNLSTM"}
    right = np.mean([nll(bundle, vocabulary, text) for text in TITLES])
    plain = np.mean([nll(read_as_plain_lstm(path, bundle), vocabulary, text) for text in TITLES])
    assert 0.6 < right < 0.8  # guessing among the 465 characters gives 6.1
    assert plain > 20


@pytest.fixture(scope="module")
def shakkala(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shakkala")
    with zipfile.ZipFile(package("shakkala", "1.7")) as wheel:
        for name in wheel.namelist():
            if name.startswith("shakkala/model/"):
                (folder / Path(name).name).write_bytes(wheel.read(name))
    return folder


@pytest.mark.parametrize("name", ["simple_model", "middle_model", "second_model6"])
def test_shakkala_gives_tf_keras_own_outputs(shakkala: Path, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras = pytest.importorskip("tf_keras", reason="tf_keras is not installed, so it cannot run the models")
    path = shakkala / f"{name}.h5"
    model = keras.models.load_model(str(path), compile=False, custom_objects={"GRU": old_gru(keras)})
    for layer, weights in rb.load(path).layers.items():
        spec = weights.spec
        assert str(spec.activations[0]) == "hard_sigmoid(0.2, 0.5)"
        assert spec.reset in (None, "before")
        x = np.random.default_rng(1).standard_normal((11, 3, spec.input_size)).astype("float32")
        y = np.asarray(model.get_layer(layer)(x.transpose(1, 0, 2))).transpose(1, 0, 2)
        exact = run_reference(spec, weights.arrays, x)["y"]
        assert np.abs(y - exact).max() <= expectation(spec, weights.arrays, x).tolerance["y"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple_model", "middle_model", "second_model6"])
def test_shakkala_opens_in_keras_3_and_agrees_with_tf_keras(shakkala: Path, name: str, tmp_path: Path) -> None:
    rb.convert(shakkala / f"{name}.h5", tmp_path / "new.keras", verify=False)
    new, keras = opened("keras", tmp_path / "new.keras"), keras_named("tf_keras")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = str(shakkala / f"{name}.h5")
        old = keras.models.load_model(path, compile=False, custom_objects={"GRU": old_gru(keras)})
    tokens = np.random.default_rng(1).integers(0, 30, (3, int(old.inputs[0].shape[1]))).astype("float32")
    (want,), (got,), (limits,) = answers(old, [tokens]), answers(new, [tokens]), allowed(new, [tokens])
    for theirs, ours, limit in zip(want, got, limits, strict=True):
        assert np.abs(ours - theirs).max() <= limit


def old_gru(keras: Any) -> type:
    """tf_keras's GRU with the default that it had when the models were saved; tf_keras opens them no other way."""

    class GRU(keras.layers.GRU):  # type: ignore[misc]
        @classmethod
        def from_config(cls, config: dict[str, Any]) -> Any:
            return super().from_config({"reset_after": False, **config})

    return GRU
