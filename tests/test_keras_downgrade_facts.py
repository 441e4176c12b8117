"""What Keras 2 lacks of Keras 3, against the tf_keras that is installed: it takes every class as written for it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rnnbridge.converters.keras_classes import KEYWORDS
from rnnbridge.converters.keras_downgrade import Downgrade
from rnnbridge.converters.keras_downgrade_facts import NOT_THERE
from tests.keras_models import keras_named

WRAPPERS = ("Bidirectional", "TimeDistributed", "RNN", "StackedRNNCells", "InputLayer")
NEEDED: dict[str, Any] = {
    "units": 3, "filters": 3, "kernel_size": 2, "pool_size": 2, "activation": "tanh", "rate": 0.25, "stddev": 0.25,
    "input_dim": 7, "output_dim": 3, "n": 2, "dims": (1,), "target_shape": (-1,), "scale": 1.0, "axes": 1,
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(KEYWORDS.keys() - set(WRAPPERS) - NOT_THERE))
def test_tf_keras_takes_what_is_written_of_a_class(kind: str) -> None:
    new, old = keras_named("keras"), keras_named("tf_keras")
    made = getattr(new.layers, kind)
    wanted = inspect.signature(made.__init__).parameters
    layer = made(**{name: NEEDED[name] for name in wanted if name in NEEDED and wanted[name].default is inspect._empty})
    downgrade = Downgrade({}, {}, cudnn=False, modern=True, repeats=False)
    entry = downgrade._plain(new.saving.serialize_keras_object(layer), "layer")
    assert not downgrade.problems
    assert getattr(old.layers, kind).from_config(entry["config"]).get_config()["name"] == layer.name
