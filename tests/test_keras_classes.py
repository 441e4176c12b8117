"""The table of what Keras 3 takes, against the Keras 3 that is installed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rnnbridge.converters.keras_classes import COMMON, KEYWORDS, LINEAR, OWN_ARRAYS, RENAMED, RENAMED_CLASSES
from tests.test_keras_write import imported

ARGUMENTS: dict[str, dict[str, Any]] = {
    "Dense": {"units": 3},
    "Embedding": {"input_dim": 7, "output_dim": 3},
    **{f"Conv{n}D{kind}": {"filters": 3, "kernel_size": 2} for n in (1, 2, 3) for kind in ("", "Transpose")},
    **{f"SeparableConv{n}D": {"filters": 3, "kernel_size": 2} for n in (1, 2)},
    **{f"DepthwiseConv{n}D": {"kernel_size": 2} for n in (1, 2)},
}


@pytest.mark.parametrize("kind", KEYWORDS)
def test_the_keywords_are_those_of_keras_3(kind: str) -> None:
    keras = imported("keras")
    parameters = inspect.signature(getattr(keras.layers, kind).__init__).parameters.values()
    named = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)} - {"self"}
    passed_on = any(one.kind is one.VAR_KEYWORD for one in parameters)
    of_the_rnn = {"zero_output_for_mask"} if kind in ("LSTM", "GRU", "SimpleRNN") else set()
    assert (named | (COMMON if passed_on else set()) | of_the_rnn) == KEYWORDS[kind]


def test_what_keras_3_does_not_have_is_renamed() -> None:
    keras = imported("keras")
    for old, new in RENAMED_CLASSES.items():
        assert new in KEYWORDS or new == "Functional"
        assert old.startswith(("Convolution", "GlobalAvgPool")) or old == "Model" or not hasattr(keras.layers, old)
    for kind, names in RENAMED.items():
        assert set(names.values()) <= KEYWORDS[kind]
        assert not names.keys() & KEYWORDS[kind]


@pytest.mark.parametrize("kind", OWN_ARRAYS)
def test_a_layer_keeps_its_arrays_in_this_order(kind: str) -> None:
    layer = getattr(imported("keras").layers, kind)(**ARGUMENTS.get(kind, {}))
    dimensions = next((int(n) for n in "123" if n in kind), 1)
    layer.build((2,) if kind == "Embedding" else (2, *[11] * dimensions, 5))
    store: dict[str, Any] = {}
    layer.save_own_variables(store)
    by_id = {id(variable): variable.name for variable in layer.variables}
    order = [by_id[id(one)] for one in layer._trainable_variables + layer._non_trainable_variables]
    # Keras 3 says "kernel" of a depthwise one, and files have the name of Keras 2.
    prefix = "depthwise_" if kind.startswith("Depthwise") else ""
    assert [name.removeprefix(prefix) for name in OWN_ARRAYS[kind]] == order
    assert list(store) == [str(number) for number in range(len(OWN_ARRAYS[kind]))]


def test_what_is_scaled_is_what_is_added_up() -> None:
    assert LINEAR["SeparableConv1D"] == ("pointwise_kernel", "bias")
    assert LINEAR["Dense"] == ("kernel", "bias")
    assert "BatchNormalization" not in LINEAR
