"""Masks on the way back: a file for Keras 2 gives the outputs of Keras 3 past a mask too, or it is not written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from tests.keras_models import allowed, answers, keras_named, opened, saved
from tests.test_keras_downgrade import drawn, layer_of

pytestmark = pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask attached:UserWarning")
HEARD = np.array([[1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 0], [0] * 7, [1] * 7], bool)


def masked_input() -> Any:
    """[N, T, I]: padded after, padded before, with holes, nothing to hear, everything."""
    x = np.random.default_rng(3).standard_normal((5, 7, 3), "float32")
    return np.where(HEARD[:, :, None], x, np.float32(0))


def chain(*made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda layers: [one(layers) for one in made]


def both(units: int) -> Callable[[Any], Any]:
    return lambda layers: layers.Bidirectional(layers.LSTM(units, return_sequences=True), name=f"both_{units}")


def lstm(units: int, **more: Any) -> Callable[[Any], Any]:
    return lambda layers: layers.LSTM(units, name=f"lstm_{units}", **more)


OPENED = {
    "given out": (chain(both(5)), True),
    "read": (chain(both(5), lambda layers: layers.Conv1D(2, 3, padding="causal"), lstm(2)), True),
    "heeded": (chain(both(5), lambda layers: layers.Dense(11), lstm(2)), False),
    "normalised": (chain(lambda layers: layers.LayerNormalization(), lstm(2, return_sequences=True)), False),
    "padded": (chain(lambda layers: layers.ZeroPadding1D(1), lstm(2)), False),
}


def chained(made: Callable[[Any], Any]) -> Any:
    keras = keras_named("keras")
    layers = [keras.layers.Input((7, 3), name="x"), keras.layers.Masking(name="masking"), *made(keras.layers)]
    return drawn(keras.Sequential(layers))


def alike(model: Any, path: Path, given: list[Any]) -> None:
    old = opened("tf_keras", path)
    (want,), (got,), (limits,) = answers(model, given), answers(old, given), allowed(old, given)
    for theirs, ours, limit in zip(want, got, limits, strict=True):
        assert np.abs(ours - theirs).max() <= limit


@pytest.mark.parametrize("name", OPENED)
def test_a_masked_model_gives_the_same_outputs(name: str, tmp_path: Path) -> None:
    made, zeros = OPENED[name]
    model = chained(made)
    saved(model, tmp_path / "new.keras")
    rb.convert(tmp_path / "new.keras", tmp_path / "old.h5", "keras-2", verify=False)
    alike(model, tmp_path / "old.h5", [masked_input()])
    if "both" in str([layer.name for layer in model.layers]):
        inner = layer_of(tmp_path / "old.h5", "both_5")["config"]["layer"]["config"]
        assert inner.get("zero_output_for_mask", False) is zeros  # Keras 2.3.1 would give others, and does not open it


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_a_layer_that_gives_zeros_past_a_mask_is_one_in_tf_keras(kind: str, tmp_path: Path) -> None:
    more = {"return_sequences": True, "zero_output_for_mask": True, "name": "zeros"}
    model = chained(lambda layers: [getattr(layers, kind)(5, **more)])
    saved(model, tmp_path / "new.keras")
    report = rb.convert(tmp_path / "new.keras", tmp_path / "old.h5", "keras-2", verify=False)
    assert "Keras 2.3.1 does not open" in next(str(one) for one in report.model if one.name == "zeros")
    alike(model, tmp_path / "old.h5", [masked_input()])


def half_masked(layers: Any, x: Any) -> Any:
    return layers.LSTM(2, name="last")(layers.Add(name="sum")([layers.Masking()(x), layers.Dense(3)(x)]))


def residual(layers: Any, x: Any) -> Any:
    heard = layers.Masking(name="masking")(x)
    return layers.LSTM(2, name="last")(layers.Add(name="sum")([heard, layers.GRU(3, return_sequences=True)(heard)]))


def functional(made: Callable[[Any, Any], Any]) -> Any:
    keras = keras_named("keras")
    x = keras.layers.Input((7, 3), name="x")
    return drawn(keras.Model(x, made(keras.layers, x)))


def test_masks_that_are_one_are_joined(tmp_path: Path) -> None:
    model = functional(residual)
    saved(model, tmp_path / "new.keras")
    rb.convert(tmp_path / "new.keras", tmp_path / "old.h5", "keras-2", verify=False)
    alike(model, tmp_path / "old.h5", [masked_input()])


def test_a_mask_that_keras_3_drops_is_refused(tmp_path: Path) -> None:
    saved(functional(half_masked), tmp_path / "new.keras")
    with pytest.raises(rb.Incompatible, match="'last': its mask comes out of 'sum'"):
        rb.convert(tmp_path / "new.keras", tmp_path / "old.h5", "keras-2", verify=False)
    assert not (tmp_path / "old.h5").exists()


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("made", [lstm(2), both(5)])
def test_the_gpu_layers_take_no_mask(made: Callable[[Any], Any], dry_run: bool, tmp_path: Path) -> None:
    saved(chained(chain(made)), tmp_path / "new.keras")
    with pytest.raises(rb.Incompatible, match="a mask reaches it"):
        rb.convert(tmp_path / "new.keras", tmp_path / "gpu.h5", "keras-cudnn", verify=False, dry_run=dry_run)
    assert not (tmp_path / "gpu.h5").exists()


def test_a_mask_goes_into_a_nested_model(tmp_path: Path) -> None:
    keras = keras_named("keras")
    inner = keras.Sequential([keras.layers.Input((7, 3)), keras.layers.LSTM(2, name="lstm")], name="inner")
    saved(keras.Sequential([keras.layers.Input((7, 3)), keras.layers.Masking(), inner]), tmp_path / "new.keras")
    with pytest.raises(rb.Incompatible, match="'inner/lstm': a mask reaches it"):
        rb.convert(tmp_path / "new.keras", tmp_path / "gpu.h5", "keras-cudnn", verify=False)


def test_what_a_file_of_keras_2_gives_past_a_mask_stays(tmp_path: Path) -> None:
    """Its Bidirectional repeats the last output, and so does the new file's in Keras 2.3.1."""
    source = Path(__file__).parent / "golden" / "models" / "keras-2.3.1" / "both_ways.h5"
    rb.convert(source, tmp_path / "old.h5", "keras-2", verify=False)
    assert not layer_of(tmp_path / "old.h5", "concat")["config"]["layer"]["config"].get("zero_output_for_mask")
