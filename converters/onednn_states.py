"""The states that oneDNN is given with a layer, in its layouts and in the canonical one. Opens no file.

Since 1.0 they are two memories, h and c, in ldnc; before, one in ldsnc whose axis s is h, then c.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import LayoutError

Array = NDArray[Any]
H, C = "src_iter", "src_iter_c"
TODAY, OLD = (f"{H}_ldnc", f"{C}_ldnc"), f"{H}_ldsnc"
NAMES = (*TODAY, OLD)


def from_memories(held: Mapping[str, Array]) -> dict[str, Array]:
    """The states among a layer's memories: "src_iter" and "src_iter_c", h and c [L*D, N, .]; none if there are none.

    Raises:
        LayoutError: another number of axes, or states of both kinds.
    """
    given = {name: held[name] for name in NAMES if name in held}
    if OLD in given and len(given) > 1:
        raise LayoutError(f"{', '.join(given)}: states are in {OLD} or in {' and '.join(TODAY)}")
    for name, array in given.items():
        axes = name.rpartition("_")[2]
        if array.ndim != len(axes) or (name == OLD and array.shape[2] > 2):
            raise LayoutError(f"{name} is {list(array.shape)}; its axes are {' '.join(axes)}, s is h and c")
    if OLD in given:
        apart = np.moveaxis(given[OLD], 2, 0)
        return {name: _joined(state) for name, state in zip((H, C), apart, strict=False)}
    return {name.removesuffix("_ldnc"): _joined(state) for name, state in given.items()}


def to_memories(states: Mapping[str, Array], directions: int, *, old: bool) -> dict[str, Array]:
    """The inverse, for states of layers with so many directions; `old` is one memory in ldsnc."""
    apart = {name: states[name].reshape(-1, directions, *states[name].shape[1:]) for name in (H, C) if name in states}
    if old and apart:
        return {OLD: np.stack(list(apart.values()), axis=2)}
    return {f"{name}_ldnc": array for name, array in apart.items()}


def _joined(state: Array) -> Array:
    """[L, D, N, .] -> [L*D, N, .]"""
    return state.reshape(-1, *state.shape[2:])
