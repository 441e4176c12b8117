"""MXNet's `.params`: files that MXNet 1.9.1 wrote give its own numbers, and what is written is what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.mxnet_params import params_bytes, read_params
from rnnbridge.proof.tolerance import expectation
from tests.samples import spec_of, weights_of

GOLDEN = Path(__file__).parent / "golden" / "mxnet-1.9.1"
FILES = sorted(path.name for path in GOLDEN.glob("*.params"))
VECTOR = {"hidden_size": "3", "num_layers": "2", "bidirectional": "true"}
SETTINGS = {
    "lstm.packed.params": {"cell": "lstm", **VECTOR},
    "gru.packed.params": {"cell": "gru", **VECTOR},
    "rnn_tanh.packed.params": {"cell": "rnn", "activation": "tanh", **VECTOR},
}


def load(name: str) -> rb.Bundle:
    return rb.load(GOLDEN / name, settings=SETTINGS.get(name))


def expected(name: str) -> dict[str, dict[str, np.ndarray]]:
    """Layer -> what -> array, as MXNet answered."""
    found: dict[str, dict[str, np.ndarray]] = {}
    with np.load(GOLDEN / f"{name.split('.')[0]}.expected.npz") as arrays:
        for key in arrays.files:
            layer, _, what = key.partition("|")
            found.setdefault(layer, {})[what] = arrays[key]
    return found


@pytest.mark.parametrize("name", FILES)
def test_mxnets_own_numbers_come_out(name: str) -> None:
    bundle = load(name)
    answers = expected(name)
    assert set(bundle) == set(answers)
    for layer, answer in answers.items():
        weights = bundle[layer]
        states = (answer["state0"], answer.get("state1"))
        exact, allowed = expectation(weights.spec, weights.arrays, answer["x"], *states)
        theirs = {"y": answer["y"], "h": answer["final0"], "c": answer.get("final1")}
        for what, tolerance in allowed.items():
            assert np.abs(exact[what] - theirs[what]).max() <= tolerance, (layer, what)


def test_what_a_file_does_not_say_is_assumed() -> None:
    bundle = load("model.params")
    said = {name: {one.key: one.value for one in weights.origin.assumptions} for name, weights in bundle.layers.items()}
    assert said["relu"] == {"activation": "relu", "batch_first": "false"}
    assert said["rnn_tanh"] == {"batch_first": "false"}  # its name, as gluon and symbols call such a layer, says it
    assert said["rnn_cell"] == {"activation": "tanh"}
    assert list(bundle.tensors) == ["dense.weight", "dense.bias"]
    changed = rb.load(GOLDEN / "model.params", settings={"relu.activation": "tanh", "gru.batch_first": "true"})
    assert str(changed["relu"].spec.activations[0]) == "tanh"
    assert changed["gru"].origin.batch_first is True


def test_packed_and_unpacked_are_the_same_layer() -> None:
    for name in ("lstm", "gru", "rnn_tanh"):
        assert load(f"{name}.packed.params")[name] == load(f"{name}.unpacked.params")[name]


def test_the_container_is_written_as_mxnet_writes_it() -> None:
    for name in ("model.params", "lstm.unpacked.params", "gru.packed.params"):
        assert params_bytes(read_params(GOLDEN / name)) == (GOLDEN / name).read_bytes()


def test_layers_are_written_under_the_names_of_save_parameters(tmp_path: Path) -> None:
    bundle = load("model.params")
    written = rb.save(bundle, tmp_path / "a.params")
    theirs, ours = read_params(GOLDEN / "model.params"), read_params(tmp_path / "a.params")
    assert set(ours) == {name for name in theirs if not name.startswith("dense")}
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)
    assert written.not_converted == ("dense.weight", "dense.bias")
    lines = {layer.source: layer.constructor for layer in written.layers}
    assert lines["both_ways"] == "mx.gluon.rnn.LSTM(3, num_layers=2, bidirectional=True, input_size=5)"
    assert lines["lstmp_cell"] == "mx.gluon.contrib.rnn.LSTMPCell(3, projection_size=2, input_size=5)"
    assert lines["rnn_tanh"] == (
        "mx.gluon.rnn.RNN(3, num_layers=2, bidirectional=True, activation='tanh', input_size=5)"
    )


@pytest.mark.parametrize("cell", ["lstm", "gru_after", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_there_and_back_gives_the_same_bits(cell: str, direction: str, dtype: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of(cell, num_layers=3, direction=direction), dtype=dtype).with_origin(batch_first=True)
    written = rb.save(weights, tmp_path / "a.params")
    again = rb.load(tmp_path / "a.params", settings=written.layers[0].settings)
    assert again["rnn"] == weights
    assert again["rnn"].origin.batch_first is True
    assert rb.verify(weights_saved(weights, tmp_path), tmp_path / "a.params", settings_b=written.layers[0].settings)


def weights_saved(weights: rb.RNNWeights, folder: Path) -> Path:
    rb.save(weights, folder / "a.npz")
    return folder / "a.npz"


def test_half_precision_comes_back_as_the_same_bits(tmp_path: Path) -> None:
    arrays = {name: array.astype(np.float16) for name, array in weights_of(spec_of("lstm")).arrays.items()}
    weights = rb.RNNWeights(spec_of("lstm"), arrays)
    rb.save(weights, tmp_path / "a.params")
    held = read_params(tmp_path / "a.params")
    assert {array.dtype for array in held.values()} == {np.dtype(np.float16)}
    assert rb.load(tmp_path / "a.params")["rnn"] == weights


def test_what_mxnet_cannot_hold_is_refused(tmp_path: Path) -> None:
    for weights, reason in (
        (weights_of(spec_of("gru_before")), "reset gate before"),
        (weights_of(spec_of("lstm", direction="reverse")), "reverse"),
        (weights_of(spec_of("lstm", num_layers=11)), "at most 10 layers"),
    ):
        with pytest.raises(rb.Incompatible) as caught:
            rb.save(weights, tmp_path / "a.params")
        assert any(reason in one for one in caught.value.reasons), caught.value.reasons
    assert not list(tmp_path.iterdir())


def whole(width: int, *numbers: int) -> bytes:
    return b"".join(int(one).to_bytes(width, "little") for one in numbers)


def old(arrays: dict[str, np.ndarray], magic: int | None) -> bytes:
    """A file as MXNet before 0.11 (magic None: the number of dimensions in its place) or before 1.0 wrote it."""
    content = whole(8, 0x112, 0, len(arrays))
    for array in arrays.values():
        head = whole(4, array.ndim) + whole(4, *array.shape)
        if magic is not None:
            head = whole(4, magic, array.ndim) + whole(8, *array.shape)
        content += head + whole(4, 1, 0, 0) + array.astype("<f4").tobytes()
    content += whole(8, len(arrays))
    return content + b"".join(whole(8, len(name)) + name.encode() for name in arrays)


@pytest.mark.parametrize("magic", [None, 0xF993FAC8], ids=["oldest", "version 1"])
def test_older_containers(magic: int | None, tmp_path: Path) -> None:
    held = read_params(GOLDEN / "prefixed.params")
    (tmp_path / "a.params").write_bytes(old(held, magic))
    assert rb.load(tmp_path / "a.params")["lstm7"] == load("prefixed.params")["lstm7"]


def arrays_with(**changes: Any) -> dict[str, np.ndarray]:
    held = dict(read_params(GOLDEN / "prefixed.params"))
    return {name: array for name, array in {**held, **changes}.items() if array is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lstm7_l1_h2h_bias": None}, "l1_h2h_bias is missing"),
        ({"lstm7_l0_h2h_weight": None}, "l0_h2h_weight is missing"),
        ({"lstm7_l0_h2h_weight": np.ones((5, 3), np.float32)}, r"l0_h2h_weight is \[5, 3\]"),
        ({"lstm7_r1_i2h_weight": np.ones((12, 5), np.float32)}, "r1_i2h_weight"),
        ({"lstm7_l7_h2h_bias": np.ones(12, np.float32)}, "l2_i2h_weight is missing"),
        ({"lstm7_l999_h2h_bias": np.ones(12, np.float32)}, "1000 layers cannot be"),
        ({"lstm7_l0_h2r_weight": np.ones((2, 3), np.float32)}, "l0_h2r_weight"),
    ],
)
def test_an_incomplete_layer_names_the_array(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.params").write_bytes(params_bytes(arrays_with(**changes)))
    with pytest.raises(rb.FormatError, match=message) as caught:
        rb.load(tmp_path / "a.params")
    assert "layer 'lstm7'" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, rb.FormatError, "set cell .* and hidden_size"),
        ({"cell": "lstm", "hidden_size": "5"}, rb.FormatError, "numbers are no LSTM I -> 5"),
        ({"cell": "gru", **VECTOR, "hidden_size": "5"}, rb.FormatError, "numbers are no GRU"),
        ({"cell": "lstm", **VECTOR, "num_layers": "9" * 8}, rb.ArgumentError, "num_layers"),
        ({"cell": "lstm", **VECTOR, "num_layers": "4000"}, rb.FormatError, "cannot be in"),
        ({"cell": "lstm", **VECTOR, "hidden_size": "-3"}, rb.ArgumentError, "hidden_size='-3'"),
        ({"cell": "elman", **VECTOR}, rb.ArgumentError, "cell='elman'"),
        ({"cell": "gru", **VECTOR, "proj_size": "2"}, rb.ArgumentError, "proj_size"),
    ],
)
def test_a_vector_says_nothing_of_itself(settings: dict[str, str], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        rb.load(GOLDEN / "lstm.packed.params", settings=settings)


def test_damaged_files_are_format_errors(tmp_path: Path) -> None:
    """Every end, and every byte of the structure changed: refused, or read as other numbers."""
    content, path = (GOLDEN / "gru.unpacked.params").read_bytes(), tmp_path / "a.params"
    for end in range(0, len(content), 37):
        path.write_bytes(content[:end])
        with pytest.raises(rb.FormatError):
            rb.load(path, format="mxnet")
    refused = 0
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        try:
            rb.load(path, format="mxnet")
        except rb.FormatError as error:
            assert str(path) in str(error)  # noqa: PT017 (some are errors, some are not)
            refused += 1
    assert refused > 100


def test_a_sparse_array_and_a_claim_of_very_much_are_refused(tmp_path: Path) -> None:
    content = bytearray((GOLDEN / "prefixed.params").read_bytes())
    for place, byte, message in (
        (28, 1, "sparse"),
        (43, 0x7F, "larger than the file"),
        (23, 0x7F, "arrays cannot be in"),
    ):
        changed = bytearray(content)
        changed[place] = byte
        (tmp_path / "a.params").write_bytes(changed)
        with pytest.raises(rb.FormatError, match=message):
            rb.load(tmp_path / "a.params")
