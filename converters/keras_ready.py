"""A bundle's layers made ready for Keras: which row holds each, its arrays as Keras names them. Knows no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rnnbridge.convention import Convention
from rnnbridge.converters.keras_compose import CellArrays
from rnnbridge.converters.keras_rows import keras_class
from rnnbridge.errors import Incompatible
from rnnbridge.files.narrow import narrowed
from rnnbridge.rewrite import Plan, plan
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]


@dataclass(frozen=True)
class Ready:
    """A layer of the bundle, ready to be written.

    Args:
        source: its name in the bundle.
        plan: how it fits its row.
        singles: its layers, one Keras object each.
        cells: the arrays of each, one set per direction.
    """

    source: str
    plan: Plan
    singles: list[RNNSpec]
    cells: list[list[CellArrays]]

    @property
    def kind(self) -> str:
        """The class of layer, by which its arrays are named."""
        return keras_class(self.plan.row).removeprefix("CuDNN")


def made_ready(bundle: Bundle, rows: Sequence[Convention], *, bfloat16: bool) -> list[Ready]:
    """Every layer of a bundle; what was stored as bfloat16 is so again where the target can have it.

    Raises:
        Incompatible: with every reason, for layers that no row holds.
    """
    out: list[Ready] = []
    reasons: list[str] = []
    for name, weights in bundle.layers.items():
        try:
            out.append(_one_ready(name, weights, rows, bfloat16))
        except Incompatible as error:
            reasons += [f"layer {name!r}: {reason}" for reason in error.reasons]
    if reasons:
        raise Incompatible(f"{', '.join(keras_class(row) for row in rows)} cannot hold this", reasons)
    return out


def _one_ready(name: str, weights: RNNWeights, rows: Sequence[Convention], bfloat16: bool) -> Ready:
    found = plan(weights, rows)
    singles = found.apply(weights).split()
    cells = [_cells(found.row, one.spec, *_stored(found.row, one, bfloat16)) for one in singles]
    return Ready(name, found, [one.spec for one in singles], cells)


def _stored(row: Convention, weights: RNNWeights, bfloat16: bool) -> tuple[str, dict[str, Array]]:
    storage = weights.origin.storage_dtype
    return narrowed(row.write(weights.arrays, weights.spec), storage if bfloat16 or storage != "bfloat16" else "")


def _cells(row: Convention, spec: RNNSpec, dtype: str, arrays: dict[str, Array]) -> list[CellArrays]:
    if dtype == "bfloat16":
        arrays = {name: array.view("V2") for name, array in arrays.items()}
    return [
        {
            row.array_name(slot, 0, 0): arrays[row.array_name(slot, 0, direction)]
            for slot in row.slots
            if row.array_name(slot, 0, direction) in arrays
        }
        for direction in range(spec.num_directions)
    ]


def first_of(cells: Sequence[CellArrays]) -> Array:
    """The first array of a layer, by which it is known again."""
    return next(iter(cells[0].values()))
