"""A hard_sigmoid is another function in Keras 3: exact in a layer that is not recurrent, or refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.errors import Incompatible
from tests.test_keras_upgrade import STACK, changed
from tests.test_keras_write import imported


def test_a_hard_sigmoid_without_arrays_within_a_wrapper_is_refused(tmp_path: Path) -> None:
    def softened(model: dict[str, Any]) -> None:
        soft = {"class_name": "Activation", "config": {"name": "soft", "activation": "hard_sigmoid"}}
        model["config"]["layers"].append({"class_name": "TimeDistributed", "config": {"name": "each", "layer": soft}})

    with pytest.raises(Incompatible, match="layer 'each/soft': Activation with a hard_sigmoid"):
        rb.save(rb.load(changed(STACK, tmp_path, softened)), tmp_path / "new.keras")


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_hard_sigmoid_without_arrays_before_it_is_scaled_by_a_layer(suffix: str, chain: bool, tmp_path: Path) -> None:
    keras_2, keras_3 = imported("tf_keras"), imported("keras")
    given, soft = keras_2.layers.Input((7,)), keras_2.layers.Activation("hard_sigmoid", name="soft")
    model = keras_2.Sequential([given, soft]) if chain else keras_2.Model(given, [soft(given), soft(soft(given))])
    x = np.linspace(-4, 4, 21, dtype=np.float32).reshape(3, 7)
    wanted = model.predict_on_batch(x)
    model.save(tmp_path / "old.h5")
    report = rb.convert(tmp_path / "old.h5", tmp_path / f"new{suffix}", verify=False)
    assert any("after a new Rescaling by 1.2" in str(one) for one in report.model)
    got = keras_3.models.load_model(tmp_path / f"new{suffix}").predict_on_batch(x)
    for ours, theirs in zip([got] if chain else got, [wanted] if chain else wanted, strict=True):
        assert np.abs(ours - theirs).max() <= 8 * np.finfo("f").eps  # a product and a sum of at most 4, twice over


@pytest.mark.parametrize("kind", ["ConvLSTM2D", "Mine"])
def test_a_hard_sigmoid_in_a_class_that_is_not_known_is_refused(kind: str, tmp_path: Path) -> None:
    def soft(model: dict[str, Any]) -> None:
        dense = model["config"]["layers"][-1]
        dense["class_name"] = kind
        dense["config"] = {"name": "out", "cell": {"config": {"recurrent_activation": "hard_sigmoid"}}}

    with pytest.raises(Incompatible, match=f"layer 'out': {kind} with a hard_sigmoid"):
        rb.save(rb.load(changed(STACK, tmp_path, soft)), tmp_path / "new.h5")
    assert not (tmp_path / "new.h5").exists()
