"""cuDNN's flat weight buffer: packed and unpacked as its sources say, in every bias mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.mxnet_params import read_params
from rnnbridge.proof.tolerance import expectation
from rnnbridge.spec import suffix_of
from tests.samples import spec_of, weights_of

GOLDEN = Path(__file__).parent / "golden" / "mxnet-1.9.1"
LAYERS = [
    ("lstm", {}),
    ("lstm", {"num_layers": 2, "direction": "bidirectional", "proj_size": 2}),
    ("gru_after", {"num_layers": 3}),
    ("gru_after", {"direction": "bidirectional"}),
    ("rnn_tanh", {"num_layers": 2, "direction": "bidirectional"}),
    ("rnn_relu", {}),
]
MODES = {"none": "none", "single": "single_inp", "double": "double"}


def buffer_of(weights: rb.RNNWeights) -> np.ndarray:
    """Written from the description: every pseudo-layer's matrices, gate by gate; then every one's biases."""
    numbers: list[float] = []
    spec = weights.spec
    for kinds in (("weight_ih", "weight_hh", "weight_hr"), ("bias_ih", "bias_hh")):
        for layer in range(spec.num_layers):
            for direction in range(spec.num_directions):
                for kind in kinds:
                    array = weights.arrays.get(kind + suffix_of(layer, direction))
                    if array is not None:
                        numbers += [float(number) for row in np.atleast_2d(array) for number in row]
    return np.array(numbers, weights.dtype)


@pytest.mark.parametrize(("cell", "changes"), LAYERS)
@pytest.mark.parametrize("bias", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_buffer_is_what_the_description_says(
    cell: str, changes: dict[str, Any], bias: str, dtype: str, tmp_path: Path
) -> None:
    weights = weights_of(spec_of(cell, bias=bias, **changes), dtype=dtype)
    written = rb.save(weights, tmp_path / "a.cudnn.npy")
    assert np.load(tmp_path / "a.cudnn.npy").tobytes() == buffer_of(weights).tobytes()
    settings = written.layers[0].settings
    assert settings["bias_mode"] == MODES[bias]
    assert rb.load(tmp_path / "a.cudnn.npy", settings=settings)["rnn"] == weights


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_mxnet_runs_the_same_vector(mode: str, tmp_path: Path) -> None:
    """MXNet hands its packed vector to cuDNN as it is; on a CPU it runs it by itself."""
    np.save(tmp_path / "a.npy", read_params(GOLDEN / f"{mode}.packed.params")[f"{mode}_parameters"])
    settings = {"cell": mode[:3].replace("lst", "lstm"), "hidden_size": "3", "num_layers": "2", "bidirectional": "true"}
    weights = rb.load(tmp_path / "a.npy", settings=settings)["rnn"]
    with np.load(GOLDEN / f"{mode}.expected.npz") as answer:
        held = {key.partition("|")[2]: answer[key] for key in answer.files}
    exact, allowed = expectation(weights.spec, weights.arrays, held["x"], held["state0"], held.get("state1"))
    assert np.abs(exact["y"] - held["y"]).max() <= allowed["y"]
    assert np.abs(exact["h"] - held["final0"]).max() <= allowed["h"]


def test_a_size_that_was_reported() -> None:
    """One bidirectional LSTM: D (4 H I + 4 H H + 8 H) numbers."""
    spec = spec_of("lstm", direction="bidirectional")
    assert len(buffer_of(weights_of(spec))) == 2 * (4 * 3 * 5 + 4 * 3 * 3 + 8 * 3)


@pytest.mark.parametrize("cell", ["lstm", "gru_after", "rnn_tanh"])
def test_a_recurrent_bias_alone_has_zeros_on_the_input_side(cell: str, tmp_path: Path) -> None:
    single = weights_of(spec_of(cell, bias="single", num_layers=2))
    written = rb.save(single, tmp_path / "a.cudnn.npy")
    settings = {**written.layers[0].settings, "bias_mode": "single_rec"}
    weights = rb.load(tmp_path / "a.cudnn.npy", settings=settings)["rnn"]
    for suffix in ("_l0", "_l1"):
        assert not weights.arrays[f"bias_ih{suffix}"].any()
        assert (weights.arrays[f"bias_hh{suffix}"] == single.arrays[f"bias_ih{suffix}"]).all()
    rb.save(weights, tmp_path / "b.cudnn.npy", settings={"bias_mode": "single_rec"})
    assert (tmp_path / "b.cudnn.npy").read_bytes() == (tmp_path / "a.cudnn.npy").read_bytes()
    with pytest.raises(rb.Incompatible) as caught:
        rb.save(single, tmp_path / "c.cudnn.npy", settings={"bias_mode": "single_rec"})
    assert any("bias_ih_l0" in reason for reason in caught.value.reasons)


def test_bias_modes_that_are_asked_for(tmp_path: Path) -> None:
    """An LSTM's two biases are one; a GRU's are not."""
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.cudnn.npy", settings={"bias_mode": "single_inp"})
    assert np.load(tmp_path / "a.cudnn.npy").size == 4 * 3 * (5 + 3 + 1)
    rb.save(weights_of(spec_of("lstm", bias="none")), tmp_path / "b.cudnn.npy", settings={"bias_mode": "double"})
    assert np.load(tmp_path / "b.cudnn.npy").size in (4 * 3 * (5 + 3 + 2), 4 * 3 * (5 + 3))
    with pytest.raises(rb.Incompatible):
        rb.save(weights_of(spec_of("gru_after")), tmp_path / "c.cudnn.npy", settings={"bias_mode": "single_inp"})
    with pytest.raises(rb.ArgumentError, match="bias_mode='both'"):
        rb.save(weights_of(spec_of("lstm")), tmp_path / "c.cudnn.npy", settings={"bias_mode": "both"})


def test_half_precision_comes_back_as_the_same_bits(tmp_path: Path) -> None:
    arrays = {name: array.astype(np.float16) for name, array in weights_of(spec_of("gru_after")).arrays.items()}
    weights = rb.RNNWeights(spec_of("gru_after"), arrays)
    written = rb.save(weights, tmp_path / "a.cudnn.npy")
    assert np.load(tmp_path / "a.cudnn.npy").dtype == np.float16
    assert rb.load(tmp_path / "a.cudnn.npy", settings=written.layers[0].settings)["rnn"] == weights


def test_a_conversion_is_proven(tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("lstm", num_layers=2, direction="bidirectional")), tmp_path / "a.npz")
    report = rb.convert(tmp_path / "a.npz", tmp_path / "b.cudnn.npy")
    assert report.ok
    assert not report.rewrites


@pytest.mark.parametrize(
    ("array", "settings", "error", "message"),
    [
        (np.ones(7, np.float32), {}, rb.FormatError, "set cell .* and hidden_size"),
        (np.ones(7, np.float32), {"cell": "lstm", "hidden_size": "3"}, rb.FormatError, "7 numbers are no LSTM"),
        (np.ones(7, np.int32), {"cell": "lstm", "hidden_size": "3"}, rb.FormatError, "int32"),
        (np.ones(7, np.float32), {"cell": "lstm", "hidden_size": "3", "wrong": "1"}, rb.FormatError, "7 numbers"),
        (np.ones(7, np.float32), {"cell": "lstm", "hidden_size": "9999999"}, rb.FormatError, "7 numbers"),
    ],
)
def test_what_is_no_such_buffer(array: Any, settings: Any, error: Any, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(error, match=message):
        rb.load(tmp_path / "a.npy", settings=settings)


def test_a_damaged_file_is_a_format_error(tmp_path: Path) -> None:
    written = rb.save(weights_of(spec_of("lstm")), tmp_path / "a.cudnn.npy")
    content = (tmp_path / "a.cudnn.npy").read_bytes()
    for end in range(0, len(content), 13):
        (tmp_path / "b.npy").write_bytes(content[:end])
        with pytest.raises(rb.FormatError):
            rb.load(tmp_path / "b.npy", format="cudnn", settings=written.layers[0].settings)


def test_several_layers_are_refused(tmp_path: Path) -> None:
    bundle = rb.Bundle({name: weights_of(spec_of("lstm")) for name in ("a", "b")})
    with pytest.raises(rb.Incompatible, match="buffer") as caught:
        rb.save(bundle, tmp_path / "a.cudnn.npy")
    assert any("'a', 'b'" in reason for reason in caught.value.reasons)
