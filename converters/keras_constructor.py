"""How a layer is made in Keras: the arguments that its spec asks for, and the line to paste. Imports no Keras."""

from __future__ import annotations

from typing import Any

from rnnbridge.convention import Convention
from rnnbridge.converters.keras_rows import activation_spelling, keras_class, version_of
from rnnbridge.spec import RNNSpec


def arguments(row: Convention, spec: RNNSpec) -> dict[str, Any]:
    """The keyword arguments of the layer, or of the layer in a Bidirectional, where they are not Keras 3's defaults."""
    given: dict[str, Any] = {"units": spec.hidden_size, "return_sequences": True}
    if not row.name.startswith("keras.CuDNN"):
        version = version_of(row)
        main = activation_spelling(spec.activations[-1], version)
        gates = activation_spelling(spec.activations[0], version) if spec.cell != "rnn" else "sigmoid"
        given |= {"activation": main} if main != "tanh" else {}
        given |= {"recurrent_activation": gates} if gates != "sigmoid" else {}
        given |= {"use_bias": False} if spec.bias == "none" else {}
        given |= {"reset_after": spec.reset == "after"} if spec.cell == "gru" else {}
    return given | ({"go_backwards": True} if spec.direction == "reverse" else {})


def merge_mode(spec: RNNSpec) -> str | None:
    """What Bidirectional calls the merge."""
    return None if spec.merge == "none" else spec.merge


def package(row: Convention, spec: RNNSpec) -> str:
    """The package whose layer this is: Keras 3 where it can be, since its hard sigmoid is another than Keras 2's."""
    if row.name.startswith("keras.CuDNN"):
        return "tf.compat.v1.keras"
    hard = any(one.name == "hard_sigmoid" for one in spec.activations)
    return "tf_keras" if hard and version_of(row) == 2 else "keras"


def constructor(row: Convention, spec: RNNSpec) -> str:
    """The line that makes the layer."""
    given = arguments(row, spec)
    said = ", ".join([str(given.pop("units")), *(f"{name}={value!r}" for name, value in given.items())])
    line = f"{package(row, spec)}.layers.{keras_class(row)}({said})"
    if spec.num_directions == 1:
        return line
    merged = "" if spec.merge == "concat" else f", merge_mode={merge_mode(spec)!r}"
    return f"{package(row, spec)}.layers.Bidirectional({line}{merged})"
