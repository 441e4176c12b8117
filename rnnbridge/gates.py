"""Addressing the gates of canonical arrays by letter. Knows the canonical form only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.spec import GATES, PEEPHOLE_GATES

Array = NDArray[Any]


def gate_order(name: str, cell: str) -> str:
    """The gate letters along the leading axis of a canonical array, "" for the projection, which has none.

    Args:
        name: with or without suffix: "weight_ih", "peephole_l0_reverse".
    """
    return {"weight_hr": "", "peephole": PEEPHOLE_GATES}.get(name.split("_l")[0], GATES[cell])


def split_gates(array: Array, name: str, cell: str) -> dict[str, Array]:
    """Letter -> that gate's rows: `[H, I]` of a matrix `[G*H, I]`, `[H]` of a bias `[G*H]` or a peephole `[3, H]`."""
    order = gate_order(name, cell)
    rows = array if name.startswith("peephole") else array.reshape(len(order), -1, *array.shape[1:])
    return dict(zip(order, rows, strict=True))


def scale_gates(array: Array, name: str, cell: str, factors: dict[str, float]) -> Array:
    """A copy with the rows of some gates multiplied, by letter; letters that the array lacks are passed over."""

    def times(gate: str) -> Callable[[dict[str, Array]], Array]:
        return lambda gates: gates[gate] * factors[gate]

    return change_gates(array, name, cell, {gate: times(gate) for gate in factors})


def change_gates(array: Array, name: str, cell: str, changes: dict[str, Callable[[dict[str, Array]], Array]]) -> Array:
    """A copy in which some gates are computed anew.

    Args:
        changes: letter -> function of all the gates' old rows that gives the new rows; letters that the array lacks
            are passed over.
    """
    gates = split_gates(array, name, cell) if gate_order(name, cell) else {}
    new = {letter: changes[letter](gates) if letter in changes else rows for letter, rows in gates.items()}
    return np.stack(list(new.values())).astype(array.dtype).reshape(array.shape) if new else array
