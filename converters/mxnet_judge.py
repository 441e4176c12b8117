"""MXNet as a judge: gluon's own layer, filled with the arrays that MXNet loads from a file, runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import JudgeTask
from rnnbridge.converters.mxnet_modules import layer_for, mxnet_for, own_parameters
from rnnbridge.converters.mxnet_names import groups_of
from rnnbridge.converters.mxnet_rows import CONVENTIONS, LAYERS
from rnnbridge.errors import Incompatible

Array = NDArray[Any]


def run_layer(task: JudgeTask) -> dict[str, Array]:
    """Run a layer of a file.

    Args:
        task: its spec and origin say which layer to make; its numbers are not used.

    Returns:
        y [T, N, .], h, and c for an LSTM.

    Raises:
        Incompatible: lengths, which MXNet ignores on a CPU; arrays that are not those of a layer or cell.
    """
    mxnet = mxnet_for("running a layer of MXNet")
    if task.lengths is not None and (np.asarray(task.lengths) != len(task.x)).any():
        raise Incompatible("MXNet cannot run this", ["it ignores sequence lengths on a CPU"])
    held = mxnet.nd.load(str(task.path))
    group = groups_of(held).get(task.layer)
    row = next((row for row in CONVENTIONS if row.name == task.weights.origin.convention), None)
    if group is None or row is None or group.form not in ("layer", "cell"):
        raise Incompatible("MXNet cannot run this", [f"the file has no layer or cell of gluon called {task.layer!r}"])
    layer = layer_for(row, task.weights.spec, False, task.weights.dtype)
    for name, parameter in own_parameters(layer).items():
        parameter.set_data(held[group.names[name]].astype(parameter.dtype))
    x = mxnet.nd.array(task.x, dtype=str(task.weights.dtype))
    given = [mxnet.nd.array(one, dtype=str(task.weights.dtype)) for one in (task.h0, task.c0) if one is not None]
    if row in LAYERS:
        y, final = layer(x, given)
        states = [state.asnumpy() for state in final]
    else:
        y, final = layer.unroll(len(task.x), x, [state[0] for state in given], layout="TNC", merge_outputs=True)
        states = [state.asnumpy()[None] for state in final]
    return {"y": y.asnumpy(), **dict(zip("hc", states, strict=False))}
