"""Checkpoints that rnnbridge writes, loaded by TensorFlow 2 and run by the operators of its block cells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.files.tensor_bundle import TensorBundle, bundle_arrays
from rnnbridge.proof.tolerance import expectation
from tests.samples import inputs_of, spec_of, weights_of

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed: what is written goes unjudged")


def variables(path: Path) -> dict[str, np.ndarray]:
    """What TensorFlow loads of a checkpoint."""
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_tensorflow_loads_every_array(dtype: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm", num_layers=3, direction="bidirectional", bias="single"), dtype="float64")
    arrays = {name: array.astype(dtype) for name, array in weights.arrays.items()}
    rb.save(rb.RNNWeights(weights.spec, arrays), tmp_path / "a.ckpt.index")
    theirs, ours = variables(tmp_path / "a.ckpt"), dict(bundle_arrays(TensorBundle(tmp_path / "a.ckpt.index")))
    assert theirs.keys() == ours.keys()
    assert len(ours) == 2 * 2 * 3
    assert all(theirs[name].dtype == dtype and np.array_equal(theirs[name], array) for name, array in ours.items())


@pytest.mark.parametrize(("peephole", "clip"), [(False, None), (True, 0.25)])
@pytest.mark.parametrize("forget_bias", ["0", "1"])
def test_an_lstm_runs_in_tensorflow(peephole: bool, clip: float | None, forget_bias: str, tmp_path: Path) -> None:
    spec = spec_of("lstm", bias="single", peephole=peephole, cell_clip=clip)
    weights, given = weights_of(spec), inputs_of(spec, 3)
    rb.save(weights, tmp_path / "a.ckpt.index", settings={"forget_bias": forget_bias})
    held = {name.removeprefix("rnn/lstm_cell/"): array for name, array in variables(tmp_path / "a.ckpt").items()}
    zeros = np.zeros(spec.hidden_size, np.float32)
    _, c, _, _, _, _, h = tf.raw_ops.BlockLSTM(
        seq_len_max=tf.constant(len(given.x), tf.int64), x=given.x, cs_prev=given.c0[0], h_prev=given.h0[0],
        w=held["kernel"], b=held["bias"], forget_bias=float(forget_bias), cell_clip=clip or -1, use_peephole=peephole,
        wci=held.get("w_i_diag", zeros), wcf=held.get("w_f_diag", zeros), wco=held.get("w_o_diag", zeros),
    )  # fmt: skip
    agrees(weights, given, {"y": h.numpy(), "h": h.numpy()[-1:], "c": c.numpy()[-1:]})


def test_a_gru_runs_in_tensorflow(tmp_path: Path) -> None:
    spec = spec_of("gru_before", bias="single")
    weights, given = weights_of(spec), inputs_of(spec, 3)
    rb.save(weights, tmp_path / "a.ckpt.index")
    held = {name.removeprefix("rnn/gru_cell/"): array for name, array in variables(tmp_path / "a.ckpt").items()}
    h, y = given.h0[0], []
    for x in given.x:
        *_, h = tf.raw_ops.GRUBlockCell(
            x=x, h_prev=h, w_ru=held["gates/kernel"], b_ru=held["gates/bias"], w_c=held["candidate/kernel"],
            b_c=held["candidate/bias"],
        )  # fmt: skip
        y.append(h.numpy())
    agrees(weights, given, {"y": np.stack(y), "h": y[-1][None]})


GOLDEN = Path(__file__).parent / "golden" / "tensorflow-1.15.5"


@pytest.mark.parametrize(
    ("file", "layers", "settings"),
    [
        ("lstm.ckpt.index", ["plain", "block", "fused", "renamed"], {}),
        ("gru.ckpt.index", ["deep", "block_gru", "inside/bw"], {"relu.activation": "relu"}),
        ("cudnn.ckpt.index", ["both/stack_bidirectional_rnn"], {}),
    ],
)
def test_tensorflow_judges_checkpoints(file: str, layers: list[str], settings: dict[str, str], tmp_path: Path) -> None:
    report = rb.convert(GOLDEN / file, tmp_path / "a.npz", layers=layers, settings=settings)
    assert report.ok
    assert any("TensorFlow" in judge for judge in report.judges), report


def test_tensorflow_says_what_it_cannot_run(tmp_path: Path) -> None:
    report = rb.convert(GOLDEN / "lstm.ckpt.index", tmp_path / "a.npz", layers=["full"])
    assert any("its operators have no projection" in notice for notice in report.notices), report.notices


def agrees(weights: rb.RNNWeights, given: Any, theirs: dict[str, np.ndarray]) -> None:
    exact, allowed = expectation(weights.spec, weights.arrays, given.x, given.h0, given.c0)
    for what, array in theirs.items():
        assert np.abs(exact[what] - array).max() <= allowed[what], what
