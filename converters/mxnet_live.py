"""MXNet's layers in memory: gluon.rnn's LSTM, GRU, RNN, their cells, and contrib's LSTMPCell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.activation import Activation
from rnnbridge.catalogue import Live
from rnnbridge.convention import Convention
from rnnbridge.converters.mxnet_files import plan_for
from rnnbridge.converters.mxnet_modules import layer_for, mxnet_for, own_parameters
from rnnbridge.converters.mxnet_rows import CELLS, LAYERS, LSTMP_CELL
from rnnbridge.errors import Incompatible
from rnnbridge.files.narrow import widened
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Origin, RNNWeights

Array = NDArray[Any]
_HOMES = ("mxnet.gluon.rnn.", "mxnet.gluon.contrib.rnn.")
_ROWS = {row.layer: row for row in (*LAYERS, *CELLS, LSTMP_CELL)}


def recognises(layer: Any) -> bool:
    """Whether an object is one of gluon's recurrent layers or cells."""
    return _row_of(layer) is not None


def read(layer: Any) -> RNNWeights:
    """A layer's weights.

    Raises:
        Incompatible: parameters that have no values yet, states that are clipped, or an activation of its own.
    """
    row = _row_of(layer)
    assert row is not None, "read is called with what is recognised"
    held = {name: _values(layer, name, parameter) for name, parameter in own_parameters(layer).items()}
    spec = _spec_of(row, layer, held)
    stored = {array.dtype.name for array in held.values()}
    arrays = {name: widened(array, array.dtype.name) for name, array in held.items()}
    origin = Origin(
        framework=row.framework,
        convention=row.name,
        name=layer.prefix.rstrip("_"),
        batch_first=None if row.batch_first is None else layer._layout == "NTC",
        padding=row.padding,
        storage_dtype="float16" if stored == {"float16"} else "",
        evidence=(f"the object is a gluon {row.layer}",),
    )
    return RNNWeights(spec, row.read(arrays, spec), origin)


def write(weights: RNNWeights, into: Any, batch_first: bool | None) -> Any:
    """A new layer, or `into` filled in place.

    Raises:
        Incompatible: MXNet cannot hold the layer, or `into` is made otherwise.
    """
    row = None if into is None else _row_of(into)
    if into is not None and row is None:
        raise Incompatible(f"{type(into).__name__} cannot be filled", [f"it is none of gluon's {', '.join(_ROWS)}"])
    plan = plan_for("rnn", weights, (row,) if row else ())
    ready = plan.apply(weights)
    order = weights.origin.order(batch_first)
    layer = layer_for(plan.row, plan.spec, order, weights.dtype) if into is None else into
    arrays = plan.row.write(ready.arrays, ready.spec)
    if into is not None and (differences := list(_differences(into, plan, arrays, batch_first))):
        raise Incompatible(f"this gluon {plan.row.layer} does not fit the weights", differences)
    mxnet = mxnet_for("filling a layer of MXNet")
    for name, parameter in own_parameters(layer).items():
        parameter.set_data(mxnet.nd.array(arrays[name], dtype=parameter.dtype))
    return layer


LIVE = Live("mxnet", recognises, read, write)


def _row_of(layer: Any) -> Convention | None:
    names = (kind.__name__ for kind in type(layer).__mro__ if f"{kind.__module__}.".startswith(_HOMES))
    return next((_ROWS[name] for name in names if name in _ROWS), None)


def _values(layer: Any, name: str, parameter: Any) -> Array:
    try:
        return np.asarray(parameter.data().asnumpy())
    except Exception as error:  # MXNet has two classes for it, and names neither in its base
        reason = f"{name} has no values yet: initialize() the layer with its input_size, or call it once"
        raise Incompatible(f"this gluon {type(layer).__name__} cannot be read", [reason]) from error


def _spec_of(row: Convention, layer: Any, arrays: dict[str, Array]) -> RNNSpec:
    if reasons := list(_own_ways(layer)):
        raise Incompatible(f"this gluon {row.layer} cannot be read", reasons)
    sizes = row.sizes(arrays)
    return RNNSpec(
        cell=row.cell,
        input_size=sizes["input_size"],
        hidden_size=sizes["hidden_size"],
        proj_size=sizes["proj_size"],
        bias="double",
        num_layers=getattr(layer, "_num_layers", 1),
        direction="bidirectional" if getattr(layer, "_dir", 1) == 2 else "forward",
        reset=next(iter(row.reset), None),
        activations=(Activation(_activation_of(layer)),) if row.cell == "rnn" else (),
    )


def _activation_of(layer: Any) -> str:
    """A layer's mode is rnn_tanh or rnn_relu; a cell has the word itself."""
    return str(getattr(layer, "_mode", getattr(layer, "_activation", ""))).removeprefix("rnn_")


def _own_ways(layer: Any) -> Iterator[str]:
    """What a layer does that no row says."""
    if getattr(layer, "_lstm_state_clip_min", None) or getattr(layer, "_lstm_state_clip_max", None):
        yield "it clips its state"
    row = _row_of(layer)
    known = ("tanh", "relu") if row is not None and row.cell == "rnn" else ("tanh",)
    if not hasattr(layer, "_mode") and (own := getattr(layer, "_activation", "tanh")) not in known:
        yield f"its activation is {own}; {' or '.join(known)} is read"
    if (own := getattr(layer, "_recurrent_activation", "sigmoid")) != "sigmoid":
        yield f"its recurrent activation is {own}; sigmoid is read"


def _differences(layer: Any, plan: rewrite.Plan, arrays: dict[str, Array], batch_first: bool | None) -> Iterator[str]:
    """What of a layer is otherwise than the weights need it."""
    yield from _own_ways(layer)
    have = {name: tuple(parameter.shape) for name, parameter in own_parameters(layer).items()}
    for name in sorted(have.keys() | arrays.keys()):
        theirs, ours = have.get(name), arrays[name].shape if name in arrays else None
        if theirs != ours:
            yield f"{name} is {theirs} there and {ours} here"
    if plan.spec.cell == "rnn" and (own := _activation_of(layer)) != str(plan.spec.activations[0]):
        yield f"activation is {own} there and {plan.spec.activations[0]} here"
    if batch_first is not None and plan.row in LAYERS and (layer._layout == "NTC") is not batch_first:
        yield f"layout is {layer._layout} there"
