"""The arrays of one recurrent cell among a file's arrays, and what their shapes and names say of the cell.

Knows the names that Keras 1, 2 and 3 give to weights; knows no container and no config.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.converters.keras_model import Layer, Recurrent
from rnnbridge.converters.keras_rows import KERAS1_ROWS, LAYER_ROWS, keras_class
from rnnbridge.errors import FormatError, LayoutError
from rnnbridge.files.narrow import widened

Array = NDArray[Any]
BFLOAT16 = np.dtype("V2")  # HDF5 has no bfloat16; Keras stores its bytes
MATRICES = ("kernel", "recurrent_kernel")
# How many gates a class has, whose matrices hold them side by side.
_GATES = {len(row.gates): keras_class(row) for row in LAYER_ROWS[3]}
# "lstm_1/lstm_cell/recurrent_kernel_1:0", and Keras 1's "lstm_1_U_f", "lstm_1_U".
_NAME = re.compile(r"^(?:(?P<folder>.*)/)?(?P<base>kernel|recurrent_kernel|bias)(?:_\d+)?(?::\d+)?$", re.DOTALL)
# The arrays of a layer of Keras 1 and what its row calls them. A SimpleRNN's differ from later ones in name alone.
_KERAS1_BASES = {"W": "kernel", "U": "recurrent_kernel", "b": "bias"}
_KERAS1_ROWS = {frozenset(row.array_name(slot, 0, 0) for slot in row.slots): row for row in KERAS1_ROWS}
_KERAS1_FORMS = (*({name: name for name in names} for names in _KERAS1_ROWS), _KERAS1_BASES)
_KERAS1 = re.compile(
    rf"^(?P<folder>.*)_(?P<name>{'|'.join(sorted({name for form in _KERAS1_FORMS for name in form}))})(?::\d+)?$",
    re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """The arrays of one cell.

    Args:
        folder: what their names have in common.
        arrays: by the name that a row gives them: "kernel", or Keras 1's "W_i".
        places: where each lies in its container.
    """

    folder: str
    arrays: Mapping[str, Array]
    places: Mapping[str, Any] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """H."""
        recurrent = next(array for name, array in self.arrays.items() if name.startswith(("recurrent_kernel", "U_")))
        return int(recurrent.shape[0])

    @property
    def is_keras1(self) -> bool:
        """Whether every gate has arrays of its own."""
        return "kernel" not in self.arrays

    def kind(self) -> tuple[str, str, str]:
        """(class, reset, evidence) as the arrays tell them; reset is "" where they do not."""
        if self.is_keras1:
            row = _KERAS1_ROWS[frozenset(self.arrays)]
            kind = keras_class(row)
            return kind, "".join(row.reset), f"{len(self.arrays)} arrays, one per gate: a Keras 1 {kind}"
        rows, columns = self.arrays["recurrent_kernel"].shape
        gates, ragged = divmod(columns, max(rows, 1))
        if ragged or gates not in _GATES:
            return "", "", f"its recurrent kernel is [{rows}, {columns}]"
        kind, bias = _GATES[gates], self.arrays.get("bias")
        if bias is None:
            return kind, "", f"its recurrent kernel is [{rows}, {columns}], {gates} gate(s) of {rows} units: {kind}"
        said = f"its bias is {list(bias.shape)} for {rows} units"
        if gates > 1 and bias.shape == (2 * columns,):
            return f"CuDNN{kind}", "after" if kind == "GRU" else "", f"{said}, two of {gates} gates: CuDNN{kind}"
        if kind == "GRU" and bias.ndim == 2:
            return kind, "after", f"{said}, a row for the input and one for the recurrent side: GRU reset after"
        reset = "before" if kind == "GRU" else ""
        return kind, reset, f"{said}, {gates} gate(s): {kind}{' reset before' if reset else ''}"


@dataclass(frozen=True)
class Found:
    """A recurrent layer and the arrays of its cells."""

    recurrent: Recurrent
    blocks: tuple[Block, ...]

    @property
    def step(self) -> int:
        """How many blocks a cell has: one per direction."""
        return 2 if self.recurrent.bidirectional else 1


def scan(weights: Sequence[tuple[str, Array]]) -> Iterator[tuple[Block, tuple[int, ...]]]:
    """Find the cells in a layer's weights, in their order.

    Yields:
        A cell's arrays, and which of the weights they are.
    """
    start = 0
    while start < len(weights):
        count, block = _modern(weights, start) or _keras1(weights, start) or (1, None)
        if block is not None:
            yield block, tuple(range(start, start + count))
        start += count


def _modern(weights: Sequence[tuple[str, Array]], start: int) -> tuple[int, Block] | None:
    matches = [_NAME.match(name) for name, _ in weights[start : start + 3]]
    bases = [match["base"] if match else "" for match in matches]
    folders = [match["folder"] if match else None for match in matches]
    if tuple(bases[:2]) != MATRICES or folders[0] != folders[1]:
        return None
    count = 3 if bases[2:] == ["bias"] and folders[2] == folders[0] else 2
    arrays = {base: weights[start + k][1] for k, base in enumerate(bases[:count])}
    if any(arrays[base].ndim != 2 for base in MATRICES):
        return None
    return count, Block(folders[0] or "", arrays, {base: start + k for k, base in enumerate(arrays)})


def _keras1(weights: Sequence[tuple[str, Array]], start: int) -> tuple[int, Block] | None:
    for form in _KERAS1_FORMS:
        count = len(form)
        found = [one for name, _ in weights[start : start + count] if (one := _KERAS1.match(name))]
        if {one["name"] for one in found} != form.keys() or len({one["folder"] for one in found}) > 1:
            continue
        names = [form[one["name"]] for one in found]
        arrays = {name: weights[start + k][1] for k, name in enumerate(names)}
        if all(array.ndim == (1 if name.startswith("b") else 2) for name, array in arrays.items()):
            return count, Block(found[0]["folder"], arrays, {name: start + k for k, name in enumerate(names)})
    return None


def match(units: Sequence[Recurrent], blocks: Sequence[Block], where: str) -> list[Found]:
    """Give the cells of one group of weights to the layers that the config has there.

    Keras writes what can be trained before what is frozen; a layer that is not known here may have arrays between.

    Raises:
        FormatError: they do not fit.
    """
    known = [unit for unit in units if unit.cells]
    strangers = [Found(unit, ()) for unit in units if not unit.cells]
    frozen_last = sorted(known, key=lambda unit: not unit.trainable)
    for order in (frozen_last, known):
        if (found := _assign(order, list(blocks), bool(strangers))) is not None:
            return sorted([*found, *strangers], key=lambda one: units.index(one.recurrent))
    have = "; ".join(f"{block.folder} {_shapes(block.arrays)}" for block in blocks) or "none"
    want = "; ".join(f"{unit.name} = {unit.said} of {_units(unit)} units" for unit in known)
    raise FormatError(f"{where}: the config says {want}; the recurrent arrays there are: {have}")


def _assign(units: Sequence[Recurrent], blocks: list[Block], strangers: bool) -> list[Found] | None:
    found = []
    for unit in units:
        start = next((k for k in range(len(blocks)) if _fits(unit, blocks[k : k + unit.blocks])), None)
        if start is None or (start and not strangers):
            return None
        found.append(Found(unit, tuple(blocks[start : start + unit.blocks])))
        del blocks[: start + unit.blocks]
    return found if strangers or not blocks else None


def _fits(unit: Recurrent, blocks: Sequence[Block]) -> bool:
    cells = unit.cells * (2 if unit.bidirectional else 1)
    return len(blocks) == len(cells) and all(
        block.kind()[0] in ("", cell.kind) and units_of(cell.config) in (None, block.units)
        for cell, block in zip(cells, blocks, strict=True)
    )


def units_of(config: Mapping[str, Any]) -> int | None:
    """H as a config says it; Keras 1 calls it output_dim."""
    units = config.get("units", config.get("output_dim"))
    return None if units is None else int(units)


def _units(unit: Recurrent) -> str:
    return "+".join(str(units_of(cell.config)) for cell in unit.cells)


def _shapes(arrays: Mapping[str, Array]) -> str:
    return ", ".join(f"{name} {list(np.shape(array))}" for name, array in arrays.items())


def recurrents(layers: Sequence[Layer]) -> list[Recurrent]:
    """The recurrent layers of a model, in its order."""
    return [unit for layer in layers for unit in layer.recurrents()]


def bias_names(arrays: Mapping[str, Array]) -> list[str]:
    """The names that the biases of a cell, or of both directions, have or would have."""
    return [name.replace("recurrent_kernel", "bias") for name in arrays if name.endswith("recurrent_kernel")]


def storage_of(arrays: Mapping[str, Array]) -> str:
    """ "bfloat16" where that is what is stored; float16 NumPy knows by itself."""
    return "bfloat16" if all(array.dtype == BFLOAT16 for array in arrays.values()) else ""


def numbers(array: Array, name: str) -> Array:
    """A stored array as numbers to compute with; LayoutError where it holds none."""
    if array.dtype == BFLOAT16:
        return widened(array.view(np.uint16), "bfloat16")
    if array.dtype.kind != "f":
        raise LayoutError(f"{name} is {array.dtype}, which are no floating-point numbers")
    return array
