"""Arraymancer's GRU tensors: read where they lie, one file each or in an archive, and written as an archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from tests.samples import spec_of, weights_of


def tensors_of(weights: rb.RNNWeights) -> dict[str, np.ndarray]:
    """Written from the shapes that gru_forward asserts; gates are r, z, n as here."""
    layers = range(weights.spec.num_layers)
    tensors = {
        "W3s0": weights.arrays["weight_ih_l0"],
        "U3s": np.stack([weights.arrays[f"weight_hh_l{layer}"] for layer in layers]),
        "bW3s": np.stack([weights.arrays[f"bias_ih_l{layer}"][None] for layer in layers]),
        "bU3s": np.stack([weights.arrays[f"bias_hh_l{layer}"][None] for layer in layers]),
    }
    if len(layers) > 1:
        tensors["W3sN"] = np.stack([weights.arrays[f"weight_ih_l{layer}"] for layer in layers[1:]])
    return tensors


def save_apart(tensors: dict[str, np.ndarray], folder: Path, prefix: str = "") -> Path:
    for name, tensor in tensors.items():
        np.save(folder / f"{prefix}{name}.npy", tensor)
    return folder / f"{prefix}W3s0.npy"


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_files_beside_each_other_and_the_archive_are_the_same_layer(layers: int, dtype: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of("gru_after", num_layers=layers), dtype=dtype)
    first = save_apart(tensors_of(weights), tmp_path, "encoder.")
    assert rb.load(first)["rnn"] == weights
    written = rb.save(weights.with_origin(batch_first=True), tmp_path / "a.arraymancer.npz")
    bundle = rb.load(tmp_path / "a.arraymancer.npz", settings=written.layers[0].settings)
    assert bundle["rnn"] == weights
    assert bundle["rnn"].origin.batch_first is True
    with np.load(tmp_path / "a.arraymancer.npz") as archive:
        assert {name: archive[name].tobytes() for name in archive.files} == {
            name: tensor.tobytes() for name, tensor in tensors_of(weights).items()
        }
        assert archive["bW3s"].shape == (layers, 1, 9)


def test_a_conversion_is_proven(tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("gru_after", num_layers=2)), tmp_path / "a.npz")
    report = rb.convert(tmp_path / "a.npz", tmp_path / "b.arraymancer.npz")
    assert report.ok
    assert not report.rewrites


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("U3s", None, "U3s.npy missing"),
        ("W3sN", None, r"U3s is \[2, 9, 3\] and should be \[1, 3H, H\]"),
        ("bU3s", np.ones((2, 9), np.float32), r"bU3s is \[2, 9\] and should be \[2, 1, 3H\]"),
        ("W3s0", np.ones((8, 5), np.float32), "W3s0"),
        ("W3sN", np.ones((1, 9, 5), np.float32), "W3s1"),
        ("W3sN", np.float32(1), "W3sN"),
        ("bW3s", np.ones((2, 1, 9), np.int64), "bW3s is int64"),
        ("bW3s", np.ones((2, 1, 9), object), "plain numbers are read|no .npy array"),
        ("U3s", np.ones((2, 0, 0), np.float32), "U3s"),
    ],
)
def test_a_set_that_is_not_whole(name: str, tensor: np.ndarray | None, message: str, tmp_path: Path) -> None:
    tensors = tensors_of(weights_of(spec_of("gru_after", num_layers=2))) | {name: tensor}
    first = save_apart({key: value for key, value in tensors.items() if value is not None}, tmp_path)
    with pytest.raises(rb.FormatError, match=message) as caught:
        rb.load(first)
    assert str(first) in str(caught.value)


def test_a_damaged_archive_is_a_format_error(tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("gru_after")), tmp_path / "a.arraymancer.npz")
    content = (tmp_path / "a.arraymancer.npz").read_bytes()
    for end in range(0, len(content), 97):
        (tmp_path / "b.npz").write_bytes(content[:end])
        with pytest.raises(rb.FormatError):
            rb.load(tmp_path / "b.npz", format="arraymancer")
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        archive.writestr("W3s0.npy", b"nothing")
    with pytest.raises(rb.FormatError, match="missing"):
        rb.load(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (spec_of("lstm"), "lstm"),
        (spec_of("gru_before"), "reset gate before"),
        (spec_of("gru_after", direction="bidirectional"), "bidirectional"),
    ],
)
def test_what_it_cannot_hold_is_refused(spec: rb.RNNSpec, reason: str, tmp_path: Path) -> None:
    with pytest.raises(rb.Incompatible) as caught:
        rb.save(weights_of(spec), tmp_path / "a.arraymancer.npz")
    assert any(reason in one.lower() for one in caught.value.reasons), caught.value.reasons
    assert not list(tmp_path.iterdir())
