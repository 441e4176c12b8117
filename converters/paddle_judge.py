"""Paddle as a judge: nn's own layer, filled with what paddle.load takes from a file, runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import JudgeTask
from rnnbridge.converters.paddle_modules import layer_for, own_parameters, paddle_for
from rnnbridge.converters.paddle_names import groups_of
from rnnbridge.converters.paddle_rows import CELLS, LAYERS
from rnnbridge.errors import Incompatible

Array = NDArray[Any]


def run_layer(task: JudgeTask) -> dict[str, Array]:
    """Run a layer of a file.

    Args:
        task: its spec and origin say which layer to make; its numbers are not used.

    Returns:
        y [T, N, .], h, and c for an LSTM.

    Raises:
        Incompatible: lengths where there is a projection; arrays that are not those of a layer or cell.
    """
    paddle = paddle_for("running a layer of Paddle")
    row = next((row for row in (*LAYERS, *CELLS) if row.name == task.weights.origin.convention), None)
    held = paddle.load(str(task.path), return_numpy=True)
    group = groups_of(held).get(task.layer)
    if row is None or group is None or group.is_cell is not (row in CELLS):
        raise Incompatible("Paddle cannot run this", [f"the file has no layer or cell called {task.layer!r}"])
    lengths = None if task.lengths is None or (task.lengths == len(task.x)).all() else task.lengths
    if lengths is not None and task.weights.spec.proj_size:
        raise Incompatible("Paddle cannot run this", ["with a projection its outputs past a length are not zero"])
    layer = layer_for(row, task.weights.spec, False, task.weights.dtype)
    for own, parameter in own_parameters(layer).items():
        parameter.set_value(np.asarray(held[group.names[own]]).astype(task.weights.dtype))
    states = [paddle.to_tensor(one) for one in (task.h0, task.c0) if one is not None]
    if row in CELLS:
        layer, states = paddle.nn.RNN(layer, time_major=True), [state[0] for state in states]
    given = tuple(states) if len(states) > 1 else states[0]
    y, final = layer(paddle.to_tensor(task.x), given, None if lengths is None else paddle.to_tensor(lengths))
    finals = [state.numpy() for state in (final if len(states) > 1 else [final])]
    finals = [state[None] for state in finals] if row in CELLS else finals
    return {"y": y.numpy(), **dict(zip("hc", finals, strict=False))}
