"""ONNX's LSTM, GRU and RNN operators as rows, and its spelling of activations. Knows no model and no file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rnnbridge.activation import CONSTANTS, Activation
from rnnbridge.convention import Convention
from rnnbridge.errors import FormatError
from rnnbridge.slot import Slot

# The inputs of all three operators by position; GRU and RNN end at initial_h.
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")

# onnx/defs/rnn/defs.cc: the names; canonical ones are those of rnnbridge.activation.
SPELLING: dict[str, str] = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "affine": "Affine",
    "leaky_relu": "LeakyRelu",
    "thresholded_relu": "ThresholdedRelu",
    "scaled_tanh": "ScaledTanh",
    "hard_sigmoid": "HardSigmoid",
    "elu": "Elu",
    "softsign": "Softsign",
    "softplus": "Softplus",
}
# ONNX has no Identity among them; Affine with 1 and 0 is one.
_LINEAR = Activation("affine", 1.0, 0.0)
# "Default values are the same as of corresponding ONNX operators": Affine and ScaledTanh have no such operator today.
_DEFAULTS: dict[str, dict[str, float]] = {
    "alpha": {"leaky_relu": 0.01, "hard_sigmoid": 0.2, "elu": 1.0, "thresholded_relu": 1.0},
    "beta": {"hard_sigmoid": 0.5},
}
_NAMES = {spelt.lower(): name for name, spelt in SPELLING.items()}
_ANY = (*SPELLING, "linear")

_SOURCE = (
    "onnx/defs/rnn/defs.cc and doc_strings.cc (kDoc_{cell}_ver14), measured with ONNX Runtime 1.32; an empty "
    "sequence's final state is ONNX Runtime's, the text says nothing"
)
_MANY_GATES = (
    Slot("W", "weight_ih", "d (g o) i"),
    Slot("R", "weight_hh", "d (g o) i"),
    Slot("B", "bias_ih bias_hh", "d (b g o)", optional=True),
)
_ONE_GATE = (  # which has no axis
    Slot("W", "weight_ih", "d o i"),
    Slot("R", "weight_hh", "d o i"),
    Slot("B", "bias_ih bias_hh", "d (b o)", optional=True),
)
_COMMON: dict[str, Any] = {
    "padding": "zero",
    "zero_length": "zero",
    "batch_first": False,
    "directions": ("forward", "reverse", "bidirectional"),
    "merges": ("concat", "sum", "mul", "ave", "none"),
    "output_orders": ("input", "processing"),
    "added": {
        "sum": "ReduceSum",
        "mul": "ReduceProd",
        "ave": "ReduceMean",
        "none": "Gather for each direction",
        "processing": "Slice",
    },
}

LSTM = Convention(
    name="onnx.LSTM",
    cell="lstm",
    gates="iofc",
    letters={"c": "g"},
    slots=(*_MANY_GATES, Slot("P", "peephole", "d (g o)", gates="iof", optional=True)),
    source=_SOURCE.format(cell="LSTM"),
    state_order="h c",
    activations=(_ANY, _ANY, _ANY),
    extras=("peephole", "clip", "f=1-i"),
    **_COMMON,
)
GRU = Convention(
    name="onnx.GRU",
    cell="gru",
    gates="zrh",
    letters={"h": "n"},
    slots=_MANY_GATES,
    source=_SOURCE.format(cell="GRU"),
    reset=("after", "before"),
    activations=(_ANY, _ANY),
    extras=("clip",),
    **_COMMON,
)
RNN = Convention(
    name="onnx.RNN",
    cell="rnn",
    gates="i",
    letters={"i": "n"},
    slots=_ONE_GATE,
    source=_SOURCE.format(cell="RNN"),
    activations=(_ANY,),
    extras=("clip",),
    **_COMMON,
)
CONVENTIONS = (LSTM, GRU, RNN)
ROWS = {row.layer: row for row in CONVENTIONS}
# ONNX says "applied to the input of activations". Runtimes take that for the gates (microsoft/onnxruntime#27224).
CLIP_OF_LSTM = (
    "clip bounds the pre-activations of the four gates, as in ONNX Runtime and OpenVINO; read to the letter, ONNX's "
    "text bounds the cell state before its activation as well"
)
# In the activations attribute, per direction.
STANDARD = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


def decimal(stored: float) -> float:
    """The shortest decimal that a float32 stands for: 0.2 for 0.20000000298; 1/6, which has none, as exactly 1/6."""
    single = np.float32(stored)
    return 1 / 6 if single == np.float32(1 / 6) else float(np.format_float_scientific(single, unique=True))


def read_activations(names: Sequence[str], alpha: Sequence[float], beta: Sequence[float]) -> list[Activation]:
    """Activations from the three attributes.

    The values are consumed in the order of the activations, each by the next one that takes such a value, as ONNX
    Runtime does (core/providers/cpu/rnn/rnn_helpers.cc, ActivationFuncs).

    Raises:
        FormatError: an unknown name, a value that is missing and has no default, or values that are left over.
    """
    if unknown := [name for name in names if name.lower() not in _NAMES]:
        raise FormatError(f"activations has {unknown}; ONNX has {', '.join(SPELLING.values())}")
    canonical = [_NAMES[name.lower()] for name in names]
    constants = {"alpha": _consumed("alpha", canonical, alpha), "beta": _consumed("beta", canonical, beta)}
    made = [
        Activation(name, **{key: next(constants[key]) for key in CONSTANTS[name]})  # in the order of the names
        for name in canonical
    ]
    return [Activation("linear") if one == _LINEAR else one for one in made]


def spelt(activations: Sequence[Activation]) -> dict[str, list[str] | list[float]]:
    """The inverse: the attributes `activations` and, where they hold something, `activation_alpha` and `..._beta`."""
    held = [_LINEAR if one.name == "linear" else one for one in activations]
    attributes: dict[str, list[str] | list[float]] = {"activations": [SPELLING[one.name] for one in held]}
    for key in ("alpha", "beta"):
        if values := [float(getattr(one, key)) for one in held if key in CONSTANTS[one.name]]:
            attributes[f"activation_{key}"] = values
    return attributes


def _consumed(key: str, names: Sequence[str], given: Sequence[float]) -> Iterator[float]:
    takers = [place for place, name in enumerate(names) if key in CONSTANTS[name]]
    values = [decimal(value) for value in given]
    one_per_activation = len(values) == len(names) and [values[p] for p in takers] == values[: len(takers)]
    if len(values) > len(takers) and not one_per_activation:
        raise FormatError(f"activation_{key} has {len(values)} values; {list(names)} take {len(takers)}")
    for place in takers[len(values) :]:
        if names[place] not in _DEFAULTS[key]:
            raise FormatError(f"activation_{key} has no value for {SPELLING[names[place]]}, which has no default")
        values.append(_DEFAULTS[key][names[place]])
    return iter(values)
