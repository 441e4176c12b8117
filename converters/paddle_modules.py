"""Which layer of paddle.nn is one of ours, and the object itself. Knows no file."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from rnnbridge.convention import Convention
from rnnbridge.converters.paddle_names import Group, groups_of
from rnnbridge.converters.paddle_rows import CELLS, LAYERS
from rnnbridge.errors import ArgumentError
from rnnbridge.spec import RNNSpec

_HOME = "paddle.nn.layer.rnn"
_ROWS = {row.layer: row for row in (*LAYERS, *CELLS)}


def paddle_for(purpose: str) -> ModuleType:
    """The paddle package. Raises ArgumentError that says what it is needed for."""
    try:
        import paddle
    except ImportError as error:
        raise ArgumentError(
            f"{purpose} needs PaddlePaddle, in an environment of its own: pip install paddlepaddle==3.3.1 setuptools"
        ) from error
    return paddle  # type: ignore[no-any-return]


def row_of(layer: Any) -> Convention | None:
    """The row of one of nn's layers or cells, or of a class made from one."""
    names = (kind.__name__ for kind in type(layer).__mro__ if kind.__module__ == _HOME)
    return next((_ROWS[name] for name in names if name in _ROWS), None)


def own_parameters(layer: Any) -> dict[str, Any]:
    """The row's name -> parameter."""
    state = layer.state_dict()
    group = next(iter(groups_of(state).values()), Group("", False))
    return {own: state[full] for own, full in group.names.items()}


def layer_for(row: Convention, spec: RNNSpec, batch_first: bool | None, dtype: np.dtype[Any]) -> Any:
    """A new layer or cell. Paddle's default dtype is set for it and then set back."""
    paddle = paddle_for("a layer of Paddle")
    given: dict[str, Any] = {"activation": str(spec.activations[0])} if spec.cell == "rnn" else {}
    given |= {"proj_size": spec.proj_size} if spec.proj_size else {}
    if row in LAYERS:
        direction = "bidirect" if spec.num_directions == 2 else "forward"
        given |= {"num_layers": spec.num_layers, "direction": direction, "time_major": batch_first is False}
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(str(dtype))
    try:
        return getattr(paddle.nn, row.layer)(spec.input_size, spec.hidden_size, **given)
    finally:
        paddle.set_default_dtype(before)
