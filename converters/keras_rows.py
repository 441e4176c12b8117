"""The rows of Keras: how its layers lay out their weights, by major version, and what its activations are called.

Keras 2 stands for multi-backend Keras 2, tf.keras and tf_keras. Knows no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbridge.activation import Activation
from rnnbridge.convention import Convention
from rnnbridge.converters.keras_config import is_keras_own, is_number
from rnnbridge.errors import LayoutError, SpecError
from rnnbridge.slot import Slot

_HARD_SIGMOID = {2: Activation("hard_sigmoid", 0.2, 0.5), 3: Activation("hard_sigmoid", 1 / 6, 0.5)}
_PLAIN = ("sigmoid", "tanh", "relu", "linear", "selu", "softsign", "softplus", "exponential", "silu", "gelu")
_SPELLINGS: dict[int, dict[str, Activation]] = {
    version: {**{name: Activation(name) for name in _PLAIN}, "elu": Activation("elu", 1.0), "hard_sigmoid": hard}
    for version, hard in _HARD_SIGMOID.items()
}
_SPELLINGS[3]["leaky_relu"] = Activation("leaky_relu", 0.2)
# Layers that can be given as an activation; Keras 3 renamed the constant of one.
_LAYERS_WITH_ALPHA = {"LeakyReLU": ("leaky_relu", ("negative_slope", "alpha")), "ELU": ("elu", ("alpha",))}
_ALIASES = {"swish": "silu", None: "linear"}

_LAYERS = "get_weights() of tf_keras 2.21 and keras 3.15.1, run against the equations; keras/layers/rnn/"
_CUDNN = "_convert_rnn_weights in keras 2.3.1 engine/saving.py and tf_keras 2.21 saving/legacy/hdf5_format.py"
_KERAS1 = "preprocess_weights_for_loading in keras 2.3.1 engine/saving.py, original_keras_version '1'"
_KERNELS = (
    Slot("{direction}kernel", "weight_ih", "i (g o)"),
    Slot("{direction}recurrent_kernel", "weight_hh", "i (g o)"),
)
_ONE_BIAS = Slot("{direction}bias", "bias_ih", "(g o)", optional=True)
_TWO_BIASES = Slot("{direction}bias", "bias_ih bias_hh", "b (g o)", optional=True)
# A cuDNN matrix of one gate is [H, I]; Keras keeps its bytes under the shape [I, H] instead of transposing it. The
# recurrent matrix is square: there the same bytes under the same shape are the matrix itself.
_CUDNN_SLOTS = (
    Slot("{direction}kernel", "weight_ih", "i (g o) as o i"),
    Slot("{direction}recurrent_kernel", "weight_hh", "o (g i)"),
    Slot("{direction}bias", "bias_ih bias_hh", "(b g o)"),
)
_ONE_GATE = (  # a SimpleRNN has one gate, which has no axis
    Slot("{direction}kernel", "weight_ih", "i o"),
    Slot("{direction}recurrent_kernel", "weight_hh", "i o"),
    Slot("{direction}bias", "bias_ih", "o", optional=True),
)
_COMMON: dict[str, Any] = {
    "direction_names": ("", "backward_"),
    "directions": ("forward", "reverse", "bidirectional"),
    "batch_first": True,
    "padding": "repeat",
    "merges": ("concat", "sum", "mul", "ave", "none"),
    "output_orders": ("processing",),
}
_LSTM: dict[str, Any] = {
    "cell": "lstm",
    "gates": "ifco",
    "letters": {"c": "g"},
    "state_order": "h c",
    "one_activation": True,
    **_COMMON,
}
_GRU: dict[str, Any] = {"cell": "gru", "gates": "zrh", "letters": {"h": "n"}, **_COMMON}
_RNN: dict[str, Any] = {"cell": "rnn", "gates": "h", "letters": {"h": "n"}, **_COMMON}


def _single_gate_slots(gates: str) -> tuple[Slot, ...]:
    return tuple(
        Slot(f"{{direction}}{letter}_{gate}", holds, axes, gates=gate)
        for gate in gates
        for letter, holds, axes in (("W", "weight_ih", "i o"), ("U", "weight_hh", "i o"), ("b", "bias_ih", "o"))
    )


def _rows_of(version: int) -> tuple[Convention, ...]:
    any_one = tuple(str(one) for one in _SPELLINGS[version].values())
    one: dict[str, Any] = {"slots": (*_KERNELS, _ONE_BIAS), "source": _LAYERS}
    two: dict[str, Any] = {"slots": (*_KERNELS, _TWO_BIASES), "source": _LAYERS}
    gru: dict[str, Any] = {"activations": (any_one,) * 2, **_GRU}
    return (
        Convention(name=f"keras.LSTM@{version}", activations=(any_one,) * 3, **one, **_LSTM),
        Convention(name=f"keras.GRU(reset_after=True)@{version}", reset=("after",), **two, **gru),
        Convention(name=f"keras.GRU(reset_after=False)@{version}", reset=("before",), **one, **gru),
        Convention(name=f"keras.SimpleRNN@{version}", activations=(any_one,), slots=_ONE_GATE, source=_LAYERS, **_RNN),
    )


def _cudnn_rows() -> tuple[Convention, ...]:
    common: dict[str, Any] = {"slots": _CUDNN_SLOTS, "source": _CUDNN}
    gates, tanh = ("sigmoid",), ("tanh",)
    return (
        Convention(name="keras.CuDNNLSTM", activations=(gates, tanh, tanh), **common, **_LSTM),
        Convention(name="keras.CuDNNGRU", reset=("after",), activations=(gates, tanh), **common, **_GRU),
    )


def _keras1_rows() -> tuple[Convention, ...]:
    names = ("sigmoid", "tanh", "relu", "linear", "softplus", "softsign", "hard_sigmoid")
    any_one = tuple(str(_SPELLINGS[2][name]) for name in names)
    lstm: dict[str, Any] = {**_LSTM, "gates": "icfo", "activations": (any_one,) * 3}
    gru: dict[str, Any] = {**_GRU, "reset": ("before",), "activations": (any_one,) * 2}
    return (
        Convention(name="keras.LSTM@1", slots=_single_gate_slots("icfo"), source=_KERAS1, **lstm),
        Convention(name="keras.GRU@1", slots=_single_gate_slots("zrh"), source=_KERAS1, **gru),
    )


CUDNN_ROWS = _cudnn_rows()
LAYER_ROWS: dict[int, tuple[Convention, ...]] = {version: _rows_of(version) for version in (2, 3)}
KERAS1_ROWS = _keras1_rows()
CONVENTIONS: tuple[Convention, ...] = (*LAYER_ROWS[2], *LAYER_ROWS[3], *CUDNN_ROWS, *KERAS1_ROWS)
_BY_NAME = {row.name: row for row in CONVENTIONS}


def row_for(kind: str, reset: str | None, per_gate: bool, version: int) -> Convention:
    """The row that a layer is read with.

    Args:
        kind: "LSTM", "GRU", "SimpleRNN", "CuDNNLSTM" or "CuDNNGRU".
        reset: "after" or "before" for a GRU.
        per_gate: whether every gate has arrays of its own, as in Keras 1.
        version: the major version of Keras.
    """
    if kind.startswith("CuDNN"):
        return _BY_NAME[f"keras.{kind}"]
    if per_gate:
        return _BY_NAME[f"keras.{kind}@1"]
    form = f"(reset_after={reset == 'after'})" if kind == "GRU" else ""
    return _BY_NAME[f"keras.{kind}{form}@{max(version, 2)}"]


def row_named(name: str) -> Convention:
    """A row of Keras by its name, "keras.LSTM@3"."""
    return _BY_NAME[name]


def activation_named(name: Any, version: int) -> Activation:
    """The activation that Keras of this major version means by a name, or by a config's object.

    Raises:
        SpecError: a name that is not one of them, or a function of the user's own.
    """
    if isinstance(name, dict):
        kind, config = name["class_name"], name.get("config")
        if kind in _LAYERS_WITH_ALPHA and isinstance(config, dict) and is_keras_own(name):
            return _of_a_layer(kind, config)
        name = config if isinstance(config, str) else kind
    if isinstance(name, str) and "(" in name:
        return Activation.parse(name)
    known = _SPELLINGS[max(version, 2)]
    spelt = _ALIASES.get(name, name)
    if spelt not in known:
        raise SpecError(f"activation {name!r} is none of {', '.join(known)}")
    return known[spelt]


def _of_a_layer(kind: str, config: Mapping[str, Any]) -> Activation:
    name, keys = _LAYERS_WITH_ALPHA[kind]
    alpha: Any = next((config[key] for key in keys if key in config), None)
    if not is_number(alpha):
        raise LayoutError(f"the config says {kind} with {keys[0]}={alpha!r}; a number is accepted")
    return Activation(name, float(alpha))


def activation_spelling(activation: Activation, version: int) -> str:
    """What Keras of this major version calls an activation."""
    return next(name for name, one in _SPELLINGS[max(version, 2)].items() if one == activation)


def version_of(row: Convention) -> int:
    """The major version of Keras that a row stands for; the cuDNN layers are Keras 2's."""
    return int(row.name.partition("@")[2] or 2)


def keras_class(row: Convention) -> str:
    """The class of layer that a row is for."""
    return row.layer.partition("@")[0].partition("(")[0]
