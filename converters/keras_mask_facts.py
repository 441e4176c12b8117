"""What Keras 2's layers do with masks, class by class: who reads them, joins them, hands them on. Knows no graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbridge.converters.keras_calls import Call, entries_of, settings_of_entry

SELECTIVE = ("Maximum", "Minimum", "Multiply")  # in Keras 3 they leave a masked input out
MERGES = ("Add", "Average", "Concatenate", "Subtract", *SELECTIVE)
RECURRENT = ("LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU", "RNN", "Bidirectional", "ConvLSTM2D")
ATTENTION = ("Attention", "AdditiveAttention")
PASS = (
    "Activation", "ActivityRegularization", "AlphaDropout", "BatchNormalization", "Dense", "Dropout", "ELU",
    "GaussianDropout", "GaussianNoise", "LayerNormalization", "LeakyReLU", "PReLU", "ReLU", "SpatialDropout1D",
    "SpatialDropout2D", "SpatialDropout3D",
)  # fmt: skip
HEEDS = (*RECURRENT, *ATTENTION, "GlobalAveragePooling1D")  # they read no step that is masked


def gives_sequences(config: Mapping[str, Any]) -> bool:
    inner = config.get("layer")
    return bool((settings_of_entry(inner) if isinstance(inner, Mapping) else config).get("return_sequences"))


def on_gpu(kind: str, entry: Mapping[str, Any]) -> bool:
    inner = settings_of_entry(entry).get("layer") if kind == "Bidirectional" else None
    return str(inner["class_name"] if isinstance(inner, Mapping) and "class_name" in inner else kind).startswith(
        "CuDNN"
    )


def is_step_by_step(kind: str, entry: Mapping[str, Any]) -> bool:
    """Whether a layer turns each step into a step."""
    axis = settings_of_entry(entry).get("axis", -1)
    over_steps = kind == "LayerNormalization" and axis not in (-1, 2, 3, [-1], [2], [3])
    return kind in (*PASS, *MERGES) and not over_steps


def makes_masks(entry: Mapping[str, Any]) -> bool:
    """Whether a layer makes a mask, or has one that does."""
    makes = entry.get("class_name") == "Masking" or bool(settings_of_entry(entry).get("mask_zero"))
    return makes or any(makes_masks(one) for one in entries_of(entry))


def mask_can_be_computed(call: Call, entries: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a call makes a mask that an operation of Keras 3 computes from the same tensor.

    A Masking compares after its input was cast to its own dtype, an operation does not cast: both must be float32.
    """
    kind, config = call.entry["class_name"], settings_of_entry(call.entry)
    if not call.takes or kind not in ("Embedding", "Masking"):
        return False
    source = settings_of_entry(entries.get(call.takes[0][0], {}))
    return kind == "Embedding" or all(one.get("dtype") in (None, "float32") for one in (config, source))
