"""A layer's spec in the C interface's numbers, and which specs the engine runs. Knows no sizes of a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from rnnbridge._native import codes
from rnnbridge._native.interface import Activation, Spec
from rnnbridge.spec import RNNSpec

# Fields of a spec that the engine runs only at the value given here.
_ONLY: dict[str, tuple[object, str]] = {
    "proj_size": (0, "a projection"),
    "peephole": (False, "peepholes"),
    "clip": (None, "a bound on the pre-activations"),
    "cell_clip": (None, "a bound on the cell state"),
    "proj_clip": (None, "a bound on the projected state"),
    "coupled": (None, "coupled gates"),
}


def unsupported(spec: RNNSpec) -> list[str]:
    """Why the engine does not run such a layer; empty if it does."""
    return [
        f"{what} ({field}={getattr(spec, field)!r}) is not run yet"
        for field, (value, what) in _ONLY.items()
        if getattr(spec, field) != value
    ]


def c_spec(spec: RNNSpec, dtype: np.dtype[Any]) -> Spec:
    """rnb_spec."""
    slots = [
        Activation(code=codes("activation")[one.name], alpha=one.alpha or 0.0, beta=one.beta or 0.0)
        for one in spec.activations
    ]
    words = ("cell", "direction", "bias", "merge", "output_order")
    return Spec(
        **{word: codes(word)[getattr(spec, word)] for word in words},
        reset=codes("reset")[spec.reset or "none"],
        dtype=codes("dtype")[dtype.name],
        num_layers=spec.num_layers,
        input_size=spec.input_size,
        hidden_size=spec.hidden_size,
        activations=(Activation * 3)(*slots),
    )
