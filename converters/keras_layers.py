"""Keras layers in memory, of Keras 3 and of tf_keras: layers, cells and wrappers. Imports no Keras before it must."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Live, Settings
from rnnbridge.convention import Convention
from rnnbridge.converters.keras_blocks import BFLOAT16, Block, Found
from rnnbridge.converters.keras_judges import make_layer
from rnnbridge.converters.keras_model import Recurrent, recurrent_of
from rnnbridge.converters.keras_reading import LayerReader
from rnnbridge.converters.keras_rows import LAYER_ROWS, row_named
from rnnbridge.converters.keras_version import READ, Version
from rnnbridge.errors import ArgumentError, Incompatible, MissingExtraError
from rnnbridge.rewrite import plan
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]
_PACKAGES = ("keras", "tf_keras")
_CLASSES = ("RNN", "Bidirectional", "LSTMCell", "GRUCell", "SimpleRNNCell")
_ORDER = ("kernel", "recurrent_kernel", "bias")


def recognises(layer: Any) -> bool:
    """Whether this is a recurrent layer, cell or Bidirectional of Keras 3 or tf_keras, or derived from one."""
    return any(base.__name__ in _CLASSES and _package(base) in _PACKAGES for base in type(layer).__mro__)


def read(layer: Any) -> RNNWeights:
    """The weights of a layer that is built.

    Raises:
        ArgumentError: it is not built yet.
        Incompatible: a class of the user's own, a Keras that is not known, or cells that form no stack.
    """
    unit, keras = _unit(layer), _keras(layer)
    version = Version(str(keras.__version__))
    if not version.is_read:
        raise Incompatible(f"{unit.name!r} is a layer of {version}", [READ])
    blocks = tuple(Block("", _arrays(keras, cell)) for cell in _cells(layer))
    reader = LayerReader(Found(unit, blocks), version, Settings({}))
    layers = list(reader.read().values())
    if len(layers) > 1:
        raise Incompatible(f"{unit.name!r} is no stack of equal layers", ["its cells differ; give them one at a time"])
    return layers[0]


def write(weights: RNNWeights, into: Any, batch_first: bool | None) -> Any:
    """A new layer of Keras 3, built and filled (for a stack a Sequential of layers); or `into` filled.

    Raises:
        Incompatible: Keras has no such layer, or `into` is another one; `reasons` has every reason.
    """
    if batch_first is False:
        raise Incompatible("Keras layers take [N, T, I]", ["there is no time-first layer; leave out batch_first=False"])
    if into is not None:
        _fill(into, weights)
        return into
    try:
        keras = importlib.import_module("keras")
    except ImportError:
        raise MissingExtraError("making a Keras layer", "keras", "keras") from None
    found = plan(weights, LAYER_ROWS[3])
    layers = []
    for single in found.apply(weights).split():
        layer = make_layer(keras, found.row, single.spec, dtype=str(weights.dtype))
        layer.build((None, None, single.spec.input_size))
        layer.set_weights(_stored(found.row, single))
        layers.append(layer)
    if len(layers) == 1:
        return layers[0]
    return keras.Sequential([keras.Input((None, weights.spec.input_size), dtype=str(weights.dtype)), *layers])


def _fill(into: Any, weights: RNNWeights) -> None:
    if not recognises(into):
        raise ArgumentError(f"into is a {type(into).__qualname__}; it is a recurrent layer of Keras")
    spec = weights.spec
    if not getattr(into, "built", False):
        into.build((None, spec.input_size) if "Cell" in type(into).__name__ else (None, None, spec.input_size))
    there = read(into)
    sizes = [
        f"{name} is {getattr(there.spec, name)} in the layer and {getattr(spec, name)} in the weights"
        for name in ("input_size", "hidden_size", "num_layers")
        if getattr(there.spec, name) != getattr(spec, name)
    ]
    try:
        found = plan(weights, [_exactly(there)])
    except Incompatible as error:
        raise Incompatible(f"{into.name!r} is another layer", [*sizes, *error.reasons]) from None
    if found.spec.bias != there.spec.bias:
        sizes.append(f"the layer has bias {there.spec.bias!r} and the weights have {found.spec.bias!r}")
    if sizes:
        raise Incompatible(f"{into.name!r} is another layer", sizes)
    into.set_weights([one for single in found.apply(weights).split() for one in _stored(found.row, single)])


def _exactly(there: RNNWeights) -> Convention:
    """The row that holds nothing but what a layer is now."""
    spec = there.spec
    row = row_named(there.origin.convention)
    return replace(
        row,
        slots=tuple(replace(slot, optional=slot.optional and spec.bias == "none") for slot in row.slots),
        activations=tuple((str(one),) for one in spec.activations),
        directions=(spec.direction,),
        merges=(spec.merge,),
        output_orders=(spec.output_order,),
        many_layers=True,
    )


def _stored(row: Convention, weights: RNNWeights) -> list[Array]:
    """The arrays in the order of get_weights: the forward direction's, then the backward one's."""
    arrays = row.write(weights.arrays, weights.spec)
    names = [row.array_name(slot, 0, d) for d in range(weights.spec.num_directions) for slot in row.slots]
    return [arrays[name] for name in names if name in arrays]


def _unit(layer: Any) -> Recurrent:
    kind, config = type(layer).__name__, layer.get_config()
    own = _package(type(layer)) in _PACKAGES
    if kind.endswith("Cell"):
        entry = {"class_name": "RNN", "config": {"cell": {"class_name": kind, "config": config}, "go_backwards": False}}
    else:
        entry = {"class_name": kind, "config": config, **({} if own else {"module": "elsewhere"})}
    unit = recurrent_of(entry, str(layer.name))
    if unit is None or unit.obstacle or not own:
        why = unit.obstacle if unit is not None and unit.obstacle else f"{kind} is a class of your own"
        raise Incompatible(f"{layer.name!r} ({kind}) cannot be converted", [why])
    return unit


def _cells(layer: Any) -> list[Any]:
    if hasattr(layer, "forward_layer"):
        return [*_cells(layer.forward_layer), *_cells(layer.backward_layer)]
    cell = getattr(layer, "cell", layer)
    return list(getattr(cell, "cells", [cell]))


def _arrays(keras: Any, cell: Any) -> dict[str, Array]:
    variables = {name: getattr(cell, name, None) for name in _ORDER}
    if variables["kernel"] is None:
        raise ArgumentError(f"{cell.name!r} is not built yet: call it once, or layer.build((None, None, input_size))")
    return {name: _numpy(keras, one) for name, one in variables.items() if one is not None}


def _numpy(keras: Any, variable: Any) -> Array:
    if hasattr(keras, "ops"):  # of a copy, because NumPy warns of the variable itself
        array = np.asarray(keras.ops.convert_to_numpy(keras.ops.copy(variable)))
    else:
        array = np.asarray(variable.numpy())
    return array.view(np.uint16).view(BFLOAT16) if str(array.dtype) == "bfloat16" else array


def _keras(layer: Any) -> Any:
    bases = [_package(base) for base in type(layer).__mro__]
    return importlib.import_module(next(name for name in bases if name in _PACKAGES))


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


LIVE = Live("keras", recognises, read, write)
