"""Files that the real Keras wrote, of every version and kind, read without it and run: Keras's own outputs come out.

Expected values are those in tests/golden; tests/golden/README.md explains their keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation, run_reference, tolerance_between

GOLDEN = Path(__file__).parent / "golden"
DEMO = Path(__file__).parent.parent / "examples" / "gpu_model.h5"
MODELS = [path for path in sorted(GOLDEN.glob("*/*")) if path.suffix in (".h5", ".keras", ".saved")]
MODELS += sorted(GOLDEN.glob("*-objects/*.index"))
WITHOUT_LAYERS = "no_rnn.h5"
# What a weights-only file cannot say, and a user who knows the model can.
SETTINGS: dict[str, dict[str, str]] = {
    "keras-1.2.2/mixed.weights.h5": {
        "lstm_backwards.go_backwards": "true",
        "lstm_backwards.recurrent_activation": "sigmoid",
        "gru_gpu.recurrent_activation": "sigmoid",
        "rnn.activation": "relu",
        "both_ways.merge_mode": "sum",
    },
    "keras-2.3.1/cudnn.weights.h5": {
        "lstm_backwards.go_backwards": "true",
        "gru_backwards.go_backwards": "true",
    },
    "keras-2.3.1/cudnn_bidirectional.weights.h5": {
        "gru_ave.merge_mode": "ave",
        "gru_none.merge_mode": "none",
    },
    "keras-2.3.1/gru.weights.h5": {
        "gru_before_hard_sigmoid.recurrent_activation": "hard_sigmoid",
        "gru_after_hard_sigmoid.recurrent_activation": "hard_sigmoid",
        "gru_after_no_bias.reset_after": "true",
        "gru_before_backwards.go_backwards": "true",
    },
    "tf_keras-2.21.0/mixed.weights_only.h5": {
        "lstm_hard_sigmoid.recurrent_activation": "hard_sigmoid",
        "gru_before_hard_sigmoid.recurrent_activation": "hard_sigmoid",
        "rnn_relu_backwards.activation": "relu",
        "rnn_relu_backwards.go_backwards": "true",
    },
    "tf_keras-2.21.0/mixed.weights.h5": {
        "keras_version": "2",
        "lstm_1.recurrent_activation": "hard_sigmoid",
        "gru_1.recurrent_activation": "hard_sigmoid",
        "simple_rnn.activation": "relu",
        "simple_rnn.go_backwards": "true",
    },
    "tf_keras-2.21.0/two_ways.weights.h5": {"bidirectional.merge_mode": "none"},
    "tf_keras-2.21.0-objects/mixed.ckpt.index": {
        "keras_version": "2",
        "lstm_hard_sigmoid.recurrent_activation": "hard_sigmoid",
        "gru_before_hard_sigmoid.recurrent_activation": "hard_sigmoid",
        "rnn_relu_backwards.activation": "relu",
        "rnn_relu_backwards.go_backwards": "true",
    },
    "tf_keras-2.21.0-objects/two_ways.ckpt.index": {"gru_none.merge_mode": "none"},
    "tf.keras-1.15.5-objects/mixed.ckpt.index": {
        "keras_version": "2.2.4-tf",
        "rnn_relu_backwards.activation": "relu",
        "rnn_relu_backwards.go_backwards": "true",
    },
    "tf.keras-1.15.5-objects/two_ways.ckpt.index": {"keras_version": "2.2.4-tf", "gru_none.merge_mode": "none"},
    "keras-3.15.1/mixed.weights.h5": {
        "lstm_hard_sigmoid.recurrent_activation": "hard_sigmoid",
        "gru_before_hard_sigmoid.recurrent_activation": "hard_sigmoid",
        "rnn_relu_backwards.activation": "relu",
        "rnn_relu_backwards.go_backwards": "true",
    },
    "keras-3.15.1/cells.weights.h5": {
        "lstm_cell.recurrent_activation": "hard_sigmoid",
        "gru_cell_after.go_backwards": "true",
        "rnn_cell.activation": "relu",
    },
}
# Names that such a file does not hold, or not the whole of: name in the model -> what reading calls it.
NAMES: dict[str, dict[str, str]] = {
    "keras-2.3.1/nested.weights.h5": {
        "every_gru/gru": "every_gru",
        "deep/deepest/lstm": "deep/lstm",
        "every_sentence/sentence_model/words": "every_sentence/words",
        "every_sentence/sentence_model/sentence": "every_sentence/sentence",
    },
    "tf_keras-2.21.0/mixed.weights.h5": {
        "lstm_default": "lstm",
        "lstm_hard_sigmoid": "lstm_1",
        "gru_default": "gru",
        "gru_before_hard_sigmoid": "gru_1",
        "rnn_relu_backwards": "simple_rnn",
    },
    "tf_keras-2.21.0/two_ways.weights.h5": {"gru_none": "bidirectional", "lstm_concat": "bidirectional_1"},
}
NOT_CONVERTED = {"lstm_backwards_concat"}  # a Bidirectional whose forward layer has go_backwards=True


class Expected:
    """What Keras gave, time first and directions side by side."""

    def __init__(self, path: Path) -> None:
        with np.load(path.parent / f"{path.name.partition('.')[0]}.expected.npz") as arrays:
            self.arrays = dict(arrays)

    def layers(self) -> list[str]:
        """The recurrent layers, in the model's order."""
        return list(dict.fromkeys(key.partition("|")[0] for key in self.arrays if not key.startswith("model|")))

    def sequence(self, layer: str, what: str) -> Any:
        """x or y, [T, N, .]; None where there is no such case."""
        base, _, case = what.partition("_")
        sides = [f"{layer}|{base}_{side}{'_' * bool(case)}{case}" for side in ("forward", "backward")]
        found = [self.arrays.get(key) for key in ([f"{layer}|{what}"] if f"{layer}|{what}" in self.arrays else sides)]
        return None if found[0] is None else np.concatenate(found, axis=-1).transpose(1, 0, 2)

    def states(self, layer: str, what: str, directions: int, case: str = "") -> Any:
        """h, c, h0 or c0, [D, N, H]; None where there is no such case."""
        sides = [""] if directions == 1 else ["_forward", "_backward"]
        found = [self.arrays.get(f"{layer}|{what}{side}{case}") for side in sides]
        return None if found[0] is None else np.stack(found)


def check(weights: rb.RNNWeights, expected: Expected, layer: str) -> set[str]:
    """Compare every case that Keras recorded of a layer. Returns which there were."""
    spec, x = weights.spec, expected.sequence(layer, "x")
    cases: dict[str, dict[str, Any]] = {"": {}}
    if (h0 := expected.states(layer, "h0", spec.num_directions)) is not None:
        cases["from_state"] = {"h0": h0, "c0": expected.states(layer, "c0", spec.num_directions)}
    if (lengths := expected.arrays.get(f"{layer}|lengths")) is not None:
        cases["masked"] = {"lengths": lengths}
    for case, given in cases.items():
        got = run_reference(spec, weights.arrays, x, **given)
        allowed = expectation(spec, weights.arrays, x, **given).tolerance
        suffix = f"_{case}" if case else ""
        want = {"y": expected.sequence(layer, f"y{suffix}")}
        for state in ("h", "c"):
            want[state] = expected.states(layer, state, spec.num_directions, suffix)
        valid = np.arange(len(x))[:, None] < given.get("lengths", np.full(x.shape[1], len(x)))
        valid = valid[::-1] if spec.output_order == "processing" else valid
        check_padding(weights, want["y"], valid)
        want["y"] = want["y"] * valid[..., None]
        for name, theirs in want.items():
            if theirs is not None and name in got:
                assert np.abs(got[name] - theirs).max() <= allowed[name], (layer, case, name)
    return set(cases)


def check_padding(weights: rb.RNNWeights, y: np.ndarray, valid: np.ndarray) -> None:
    """Keras put past the lengths what the reading says that it does."""
    if weights.origin.padding == "zero":
        assert not y[~valid].any()
    elif not valid.all() and weights.spec.direction == "forward":
        last = valid.sum(0) - 1
        repeated = np.where(last >= 0, y[last, np.arange(y.shape[1])].T, 0).T
        for batch in range(y.shape[1]):
            assert (y[last[batch] + 1 :, batch] == repeated[batch]).all()


def relative(path: Path) -> str:
    return path.relative_to(GOLDEN).as_posix()


@pytest.mark.parametrize("path", [path for path in MODELS if path.name != WITHOUT_LAYERS], ids=relative)
def test_the_outputs_are_keras_own(path: Path) -> None:
    name = relative(path)
    bundle, expected, called = rb.load(path, settings=SETTINGS.get(name)), Expected(path), NAMES.get(name, {})
    seen: set[str] = set()
    for layer in expected.layers():
        if layer in NOT_CONVERTED:
            assert any(layer in notice and "go_backwards=True" in notice for notice in bundle.notices)
            continue
        here = called.get(layer, layer)
        if here in bundle.layers:
            seen |= check(bundle[here], expected, layer)
        else:
            check_stacked_cells(bundle, expected, layer)
    assert "" in seen


def check_stacked_cells(bundle: rb.Bundle, expected: Expected, layer: str) -> None:
    """A list of unequal cells: each reads what the one below gives, and passes its error on."""
    exact = rough = expected.sequence(layer, "x")
    cells = [name for name in bundle if name.startswith(f"{layer}/cell_")]
    assert len(cells) > 1
    for name in cells:
        spec, arrays = bundle[name].spec, bundle[name].arrays
        exact = run_reference(spec, arrays, exact)["y"]
        rough = run_reference(spec, arrays, rough, dtype=np.float32)["y"]
    assert np.abs(exact - expected.sequence(layer, "y")).max() <= tolerance_between(exact, rough)


def test_the_demo_model_gives_keras_own_outputs() -> None:
    bundle, expected = rb.load(DEMO), Expected(DEMO)
    assert list(bundle) == expected.layers()
    for layer in expected.layers():
        check(bundle[layer], expected, layer)
    assert bundle["context"].origin.convention == "keras.CuDNNGRU"


@pytest.mark.parametrize("name", SETTINGS)
def test_what_a_file_does_not_say_is_listed_as_assumed(name: str) -> None:
    settings = {key: value for key, value in SETTINGS[name].items() if key == "keras_version"}
    bundle = rb.load(GOLDEN / name, settings=settings)
    for key in SETTINGS[name]:
        layer, _, setting = key.rpartition(".")
        if layer:
            assumed = {one.key: one.because for one in bundle[layer].origin.assumptions}
            assert assumed[setting]


def test_a_model_without_a_recurrent_layer_is_carried_by_keras_alone(tmp_path: Path) -> None:
    bundle = rb.load(GOLDEN / "keras-2.3.1" / WITHOUT_LAYERS)
    assert not bundle.layers
    with pytest.raises(rb.ArgumentError, match="no recurrent layer to write, and a whole model only its own framework"):
        rb.save(bundle, tmp_path / "a.npz")
    assert rb.convert(bundle.path or "", tmp_path / "new.keras").model
    assert not list(tmp_path.glob("*.npz"))


def test_narrow_numbers_are_remembered() -> None:
    bundle = rb.load(GOLDEN / "keras-3.15.1" / "narrow.keras")
    assert {weights.origin.storage_dtype for weights in bundle.layers.values()} == {"float16", "bfloat16"}
    assert {str(weights.dtype) for weights in bundle.layers.values()} == {"float32"}


def test_time_major_is_kept() -> None:
    bundle = rb.load(GOLDEN / "tf_keras-2.21.0" / "time_major.h5")
    assert {weights.origin.batch_first for weights in bundle.layers.values()} == {False}
