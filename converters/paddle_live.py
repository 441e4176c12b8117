"""Paddle's layers in memory: nn's LSTM, GRU, SimpleRNN and their cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.catalogue import Live, Settings
from rnnbridge.converters.paddle_files import plan_for
from rnnbridge.converters.paddle_layer import Reader, Said
from rnnbridge.converters.paddle_modules import layer_for, own_parameters, row_of
from rnnbridge.converters.paddle_names import Group
from rnnbridge.converters.paddle_rows import CELLS, LAYERS
from rnnbridge.errors import Incompatible
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]


def recognises(layer: Any) -> bool:
    """Whether an object is one of nn's recurrent layers or cells."""
    return row_of(layer) is not None


def read(layer: Any) -> RNNWeights:
    """A layer's weights. A bias that is switched off is zero."""
    row = row_of(layer)
    assert row is not None, "read is called with what is recognised"
    arrays = {own: parameter.numpy() for own, parameter in own_parameters(layer).items()}
    group = Group("", row in CELLS, {own: own for own in arrays}, getattr(layer, "num_directions", 1) == 2)
    said = Said(
        activation=_activation_of(layer),
        batch_first=None if row in CELLS else not layer.time_major,
        because="",
        evidence=f"the object is a paddle.nn.{row.layer}",
    )
    return Reader(group, f"this paddle.nn.{row.layer}", layer.full_name(), Settings(), said).weights(arrays)


def write(weights: RNNWeights, into: Any, batch_first: bool | None) -> Any:
    """A new layer, or `into` filled in place.

    Raises:
        Incompatible: Paddle cannot hold the layer, or `into` is made otherwise.
    """
    row = None if into is None else row_of(into)
    if into is not None and row is None:
        known = ", ".join(one.layer for one in (*LAYERS, *CELLS))
        raise Incompatible(f"{type(into).__name__} cannot be filled", [f"it is none of paddle.nn's {known}"])
    plan = plan_for("rnn", weights, (row,) if row else ())
    ready = plan.apply(weights)
    order = weights.origin.order(batch_first)
    layer = layer_for(plan.row, plan.spec, order, weights.dtype) if into is None else into
    arrays = plan.row.write(ready.arrays, ready.spec)
    if into is not None and (differences := list(_differences(into, plan, arrays, batch_first))):
        raise Incompatible(f"this paddle.nn.{plan.row.layer} does not fit the weights", differences)
    for own, parameter in own_parameters(layer).items():
        parameter.set_value(arrays[own].astype(parameter.numpy().dtype))
    return layer


LIVE = Live("paddle", recognises, read, write)


def _activation_of(layer: Any) -> str | None:
    """SimpleRNN and its cell have the word; others have none to choose."""
    return str(getattr(layer, "activation", "")) or None


def _differences(layer: Any, plan: rewrite.Plan, arrays: dict[str, Array], batch_first: bool | None) -> Iterator[str]:
    """What of a layer is otherwise than the weights need it."""
    have = {name: tuple(parameter.shape) for name, parameter in own_parameters(layer).items()}
    for name in sorted(have.keys() | arrays.keys()):
        theirs, ours = have.get(name), arrays[name].shape if name in arrays else None
        if theirs != ours:
            yield f"{name} is {theirs} there and {ours} here"
    if plan.spec.cell == "rnn" and (own := _activation_of(layer)) != str(plan.spec.activations[0]):
        yield f"activation is {own} there and {plan.spec.activations[0]} here"
    if batch_first is not None and plan.row in LAYERS and layer.time_major is batch_first:
        yield f"time_major is {layer.time_major} there"
