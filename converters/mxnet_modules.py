"""Which gluon layer is one of ours, and the object itself. Knows no file."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from rnnbridge.convention import Convention
from rnnbridge.converters.mxnet_rows import LAYERS, LSTMP_CELL
from rnnbridge.errors import ArgumentError
from rnnbridge.spec import RNNSpec


def mxnet_for(purpose: str) -> ModuleType:
    """The mxnet package. Raises ArgumentError that says what it is needed for; no extra of ours can bring it."""
    try:
        import mxnet
    except ImportError as error:
        raise ArgumentError(
            f"{purpose} needs MXNet, in an environment of its own: pip install mxnet==1.9.1 numpy==1.23.5"
        ) from error
    return mxnet  # type: ignore[no-any-return]


def own_parameters(layer: Any) -> dict[str, Any]:
    """The row's name -> parameter. In a model every name begins with the layer's prefix."""
    return {name.removeprefix(layer.prefix): one for name, one in layer.collect_params().items()}


def layer_for(row: Convention, spec: RNNSpec, batch_first: bool | None, dtype: np.dtype[Any]) -> Any:
    """A new layer or cell, initialised."""
    gluon = mxnet_for("a layer of MXNet").gluon
    given: dict[str, Any] = {"input_size": spec.input_size}
    given |= {"activation": str(spec.activations[0])} if spec.cell == "rnn" else {}
    given |= {"projection_size": spec.proj_size} if spec.proj_size else {}
    if row in LAYERS:
        both = spec.num_directions == 2
        given |= {"num_layers": spec.num_layers, "bidirectional": both, "dtype": str(dtype)}
        given["layout"] = "NTC" if batch_first else "TNC"
    home = gluon.contrib.rnn if row is LSTMP_CELL else gluon.rnn
    layer = getattr(home, row.layer)(spec.hidden_size, **given)
    layer.cast(str(dtype))
    layer.initialize()
    return layer
