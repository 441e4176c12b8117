"""Damaged ONNX files: an error that names the file, never another exception. And no other file is taken for one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import catalogue
from tests.samples import spec_of, weights_of

onnx = pytest.importorskip("onnx", reason="onnx is not installed: its converter goes untested")

SPECS = {
    "gru": spec_of("gru_after", num_layers=2, direction="bidirectional", merge="sum"),
    "lstm": spec_of("lstm", peephole=True, activations=("hard_sigmoid(0.2, 0.5)", "tanh", "elu(0.8)"), clip=2.5),
    "rnn": spec_of("rnn_relu", direction="reverse", output_order="processing"),
}


@pytest.fixture(params=SPECS)
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> bytes:
    rb.save(weights_of(SPECS[request.param]), tmp_path / "whole.onnx")
    return (tmp_path / "whole.onnx").read_bytes()


def refused_or_read(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    try:
        rb.load(path, format="onnx")
    except rb.FormatError as error:
        named = str(path) in str(error)
    else:
        return False
    assert named
    return True


def test_truncated_anywhere(whole: bytes, tmp_path: Path) -> None:
    """A protobuf has no length and no end: cut between two properties at its end it is a whole model without them."""
    model = onnx.load_model_from_string(whole)
    complete = set()
    while model.metadata_props:
        model.metadata_props.pop()
        complete.add(len(model.SerializeToString()))
    ends = range(min(complete) - 50, max(complete) + 50)
    for cut in sorted({*range(200), *range(200, len(whole), 37), *ends, len(whole) - 1}):
        assert refused_or_read(tmp_path / "cut.onnx", whole[:cut]) == (cut not in complete), cut
    for cut in complete:
        (tmp_path / "cut.onnx").write_bytes(whole[:cut])
        assert rb.load(tmp_path / "cut.onnx").layers == rb.load(tmp_path / "whole.onnx").layers


def test_bytes_changed(whole: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(700):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            data[place] = rng.integers(256)
        refused += refused_or_read(tmp_path / "changed.onnx", bytes(data))
    assert refused > 100  # a changed weight cannot be seen; a changed structure is


def test_random_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for size in range(0, 400, 2):
        assert refused_or_read(tmp_path / "random.onnx", rng.bytes(size))
        with pytest.raises(rb.FormatError, match=r"random\.onnx"):
            rb.load(tmp_path / "random.onnx")


def test_formats_tell_each_other_apart(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    formats = catalogue().formats
    path.write_bytes(whole)
    assert [name for name, one in formats.items() if one.sniff(path, whole[:512])] == ["onnx"]
    for name, one in formats.items():
        if one.write is not None and name != "onnx":
            other = tmp_path / f"other{one.suffixes[0] if one.suffixes else '.h5'}"
            spec = spec_of("gru_after" if name == "arraymancer" else "lstm")  # which has no other cell
            rb.save(weights_of(spec), other, format=name, overwrite=True)
            assert not formats["onnx"].sniff(other, other.read_bytes()[:512])


def test_a_tensorflow_saved_model_is_not_taken_for_one() -> None:
    meta_graph = bytes([0x0A, 5]) + b"\x12\x03abc" + b"\x00" * 64
    saved_model = bytes([0x08, 0x01, 0x12, len(meta_graph)]) + meta_graph
    assert not catalogue().formats["onnx"].sniff(Path("saved_model.pb"), saved_model)
