"""A layer's weights as one vector, as cuDNN and MXNet keep them: all matrices of all layers, then all biases.

Such a vector says nothing of itself: the user says what the layer is, and its length must fit to the number. Knows no
framework: a row, whose arrays have the canonical shapes, says which there are and in which order within a layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rnnbridge.activation import Activation
from rnnbridge.catalogue import Settings
from rnnbridge.convention import Convention
from rnnbridge.errors import ArgumentError, FormatError, SpecError
from rnnbridge.spec import GATES, Bias, Cell, RNNSpec
from rnnbridge.weights import Assumption, describe

Array = NDArray[Any]
_LARGEST = 1 << 24  # of a size that is said; more than any layer has, and its products stay small


def size_of(spec: RNNSpec) -> int:
    """How many numbers a layer has."""
    return sum(math.prod(shape) for shape in spec.weight_shapes().values())


def apart(row: Convention, vector: Array, spec: RNNSpec) -> dict[str, Array]:
    """The row's arrays out of the vector [size_of(spec)]."""
    arrays, begin = {}, 0
    for name, shape in _order(row, spec):
        arrays[name] = vector[begin : begin + math.prod(shape)].reshape(shape)
        begin += math.prod(shape)
    return arrays


def together(row: Convention, arrays: Mapping[str, Array], spec: RNNSpec) -> Array:
    """The inverse of `apart`; arrays that are not given are left out."""
    return np.concatenate([arrays[name].reshape(-1) for name, _ in _order(row, spec) if name in arrays])


def _order(row: Convention, spec: RNNSpec) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of every array: for all layers and directions the matrices, then for all of them the biases."""
    shapes = {
        row.array_name(slot, layer, direction): (slot.holds.startswith("bias"), spec.tensor_shapes(layer)[slot.holds])
        for layer, direction, _ in spec.positions()
        for slot in row.slots
        if slot.holds in spec.tensor_shapes(layer)
    }
    return [(name, shape) for wanted in (False, True) for name, (bias, shape) in shapes.items() if bias is wanted]


@dataclass(frozen=True)
class Said:
    """What the user said of a vector, with what had to be assumed."""

    spec: RNNSpec
    assumptions: tuple[Assumption, ...]


def said_of(settings: Settings, layer: str, where: str, size: int, bias: Bias) -> Said:
    """What a vector of this size holds, by the settings `cell`, `hidden_size` and, where they are not 1, false or 0,
    `num_layers`, `bidirectional`, `proj_size`; `activation` for an RNN. The input size follows from the vector's.

    Raises:
        FormatError: the cell or the hidden size is not said, or no input size makes a layer of that many numbers.
        ArgumentError: a setting that is no such thing.
    """
    cell, hidden = settings.get("cell", layer), _number(settings, layer, "hidden_size")
    if cell is None or hidden is None:
        raise FormatError(
            f"{where}: a vector of {size} numbers does not say what it holds; "
            f"set cell ({', '.join(GATES)}) and hidden_size, and num_layers, bidirectional, proj_size where they apply"
        )
    if cell not in GATES:
        raise ArgumentError(f"setting cell={cell!r}; it is {', '.join(GATES)}")
    layers, proj = _number(settings, layer, "num_layers"), _number(settings, layer, "proj_size")
    both, activation = settings.flag("bidirectional", layer), settings.get("activation", layer)
    assumptions = [
        Assumption(key, value, "a vector does not say it; its length fits")
        for key, value, given in (("num_layers", "1", layers), ("bidirectional", "false", both))
        if given is None
    ]
    if cell == "rnn" and activation is None:
        assumptions.append(Assumption("activation", "tanh", "a vector does not say it"))
    try:
        spec = RNNSpec(
            cell=cast(Cell, cell),
            input_size=1,
            hidden_size=hidden,
            num_layers=layers or 1,
            direction="bidirectional" if both else "forward",
            bias=bias,
            reset="after" if cell == "gru" else None,
            proj_size=proj or 0,
            activations=(Activation(activation or "tanh"),) if cell == "rnn" else (),
        )
    except SpecError as error:
        raise ArgumentError(f"the settings describe no layer: {error}") from error
    return Said(_with_input(spec, size, where), tuple(assumptions))


def _with_input(spec: RNNSpec, size: int, where: str) -> RNNSpec:
    """The size is linear in the input size: two of them give the line."""
    if spec.num_layers > size:  # a spec's shapes are listed layer by layer
        raise FormatError(f"{where}: {spec.num_layers} layers cannot be in {size} numbers")
    at_one = size_of(spec)
    slope = size_of(spec.replace(input_size=2)) - at_one
    steps, rest = divmod(size - at_one, slope)
    if steps < 0 or rest:
        kind = describe(spec).replace(" 1 ->", " I ->")
        raise FormatError(
            f"{where}: {size} numbers are no {kind}: that has {at_one - slope} + {slope} I of them; are cell, "
            "hidden_size, num_layers, bidirectional, proj_size and the bias as you said?"
        )
    return spec.replace(input_size=1 + steps)


def _number(settings: Settings, layer: str, key: str) -> int | None:
    value = settings.get(key, layer)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 9 and 0 < int(value) <= _LARGEST):
        raise ArgumentError(f"setting {key}={value!r}; it is a whole number of at least 1")
    return int(value)
