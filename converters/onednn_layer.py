"""One primitive's memories: from their arrays to weights and back. Opens no file.

A memory has an axis l of layers before what a row holds. Several layers in one direction become one stack; in two
directions they are refused, since there each direction is a stack of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.activation import Activation
from rnnbridge.catalogue import Settings
from rnnbridge.convention import Convention
from rnnbridge.converters.onednn_rows import (
    BIAS,
    BIAS_INSIDE,
    BIAS_OF_GATES,
    GRU,
    LBR_GRU,
    LSTM,
    OLD_LSTM,
    TAGS,
    VANILLA_RNN,
)
from rnnbridge.errors import ArgumentError, FormatError, LayoutError, SpecError
from rnnbridge.files.narrow import widened
from rnnbridge.layout import join, part
from rnnbridge.spec import MOST_LAYERS, Direction, Merge, RNNSpec
from rnnbridge.weights import Assumption, Origin, RNNWeights, stack

Array = NDArray[Any]
_KINDS = {"float16": "float16", "float32": "", "float64": ""}
_GATE_AXIS = {tag: axes.replace(" ", "").index("g") + 1 for tag, axes in TAGS.items()}
_LBR_ROWS = [3, 1]  # of a bias: the gates', and the candidate's inside the reset
USUAL_VERSION = "3.2"
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})*")
_FIRST_WITH_TODAYS_GATES = (0, 17)


@dataclass(frozen=True)
class Reader:
    """One primitive's way from memories to weights; `where` begins every error."""

    where: str
    name: str
    settings: Settings

    def weights(self, held: Mapping[str, Array]) -> RNNWeights:
        """The layer or stack. Raises FormatError that names the array; ArgumentError for a setting."""
        kinds = {array.dtype.name for array in held.values()}
        if unknown := sorted(kinds - _KINDS.keys()):
            raise FormatError(f"{self.where}: {', '.join(unknown)} in it; {', '.join(_KINDS)} are read")
        try:
            tag = self._tag(held)
            row, assumptions = self._row(held, tag)
            if left_over := sorted(held.keys() - {BIAS, *(slot.name for slot in row.slots)}):
                raise LayoutError(f"{', '.join(left_over)} left over: a {row.layer} has none")
            spec, more = self._spec(row, held, tag)
            origin = Origin(
                framework=row.framework,
                convention=row.name,
                name=self.name,
                padding=row.padding,
                storage_dtype="float16" if kinds == {"float16"} else "",
                evidence=(f"its memories have the names and the rows of {row.layer}",),
                assumptions=(*assumptions, *more),
            )
            wide = {name: widened(array, _KINDS[array.dtype.name]) for name, array in held.items()}
            layers = [RNNWeights(spec, row.read(arrays, spec), origin) for arrays in _by_layer(wide, row)]
            return stack(layers)
        except (LayoutError, SpecError) as error:
            raise FormatError(f"{self.where}: {error}") from error

    def _tag(self, held: Mapping[str, Array]) -> str:
        found = [name[-5:] for name in held if name.startswith(("weights_layer_", "weights_iter_"))]
        if len(found) != 2 or found[0] != found[1]:
            have = ", ".join(sorted(held))
            raise LayoutError(f"weights_layer and weights_iter, both in {' or in '.join(TAGS)}, should be among {have}")
        if BIAS not in held:
            raise LayoutError(f"{BIAS} is missing; a primitive has one, of zeros where there is none")
        weights = held[f"weights_layer_{found[0]}"]
        for name, array in held.items():
            axes = name.rpartition("_")[2]
            if array.ndim != len(axes) or array.shape[:2] != weights.shape[:2] or 0 in array.shape:
                raise LayoutError(
                    f"{name} is {list(array.shape)}; its axes are {' '.join(axes)}, as many l and d as all"
                )
        return found[0]

    def _row(self, held: Mapping[str, Array], tag: str) -> tuple[Convention, list[Assumption]]:
        gates, rows = held[f"weights_layer_{tag}"].shape[_GATE_AXIS[tag]], held[BIAS].shape[2]
        if (gates, rows) == (4, 4):
            return self._lstm(held, tag)
        known = {(1, 1): VANILLA_RNN, (3, 3): GRU, (3, 4): LBR_GRU}
        if (gates, rows) not in known:
            raise LayoutError(
                f"{gates} gates and {rows} rows of biases; a vanilla RNN has 1 and 1, a GRU 3 and 3, an LBR-GRU 3 and "
                "4, an LSTM 4 and 4"
            )
        return known[gates, rows][tag], []

    def _lstm(self, held: Mapping[str, Array], tag: str) -> tuple[Convention, list[Assumption]]:
        asked = self.settings.get("version", self.name)
        if any(name.startswith(("weights_peephole", "weights_projection")) for name in held):
            return LSTM[tag], []  # which came long after 0.17
        unsaid = Assumption("version", USUAL_VERSION, "since 0.17 the gates are i f c o; before, f i o c")
        return lstm_rows(asked or USUAL_VERSION)[tag], [] if asked else [unsaid]

    def _spec(self, row: Convention, held: Mapping[str, Array], tag: str) -> tuple[RNNSpec, list[Assumption]]:
        layers, directions = held[f"weights_layer_{tag}"].shape[:2]
        if layers > MOST_LAYERS:
            raise LayoutError(f"{layers} layers; at most {MOST_LAYERS} are taken")
        if directions > 2:
            raise LayoutError(f"{directions} directions; there are one or two")
        if layers > 1 and directions > 1:
            raise LayoutError(
                f"{layers} layers in two directions: oneDNN makes of each direction a stack of its own and joins their "
                "ends, which no layer here does; store the layers in a primitive each"
            )
        direction, merge, assumptions = self._directions(directions)
        sizes = row.sizes(next(_by_layer(held, row)), directions)
        activations, more = self._activations(row)
        spec = RNNSpec(
            cell=row.cell,
            input_size=sizes["input_size"],
            hidden_size=sizes["hidden_size"],
            proj_size=sizes["proj_size"],
            bias=row.bias_forms[-1],
            direction=direction,
            merge=merge,
            reset=next(iter(row.reset), None),
            peephole="weights_peephole_ldgo" in held,
            activations=activations,
        )
        return spec, assumptions + more

    def _directions(self, count: int) -> tuple[Direction, Merge, list[Assumption]]:
        if count == 1:
            backwards = self.settings.flag("reverse", self.name)
            unsaid = [] if backwards is not None else [Assumption("reverse", "false", "a memory has no direction")]
            return "reverse" if backwards else "forward", "concat", unsaid
        asked = self.settings.get("merge", self.name)
        if asked not in (None, "concat", "sum"):
            raise ArgumentError(f"setting merge={asked!r}; bidirectional_concat and bidirectional_sum: concat or sum")
        unsaid = [] if asked else [Assumption("merge", "concat", "how directions are joined is no part of a memory")]
        return "bidirectional", "sum" if asked == "sum" else "concat", unsaid

    def _activations(self, row: Convention) -> tuple[tuple[Activation, ...], list[Assumption]]:
        if row.cell != "rnn":
            return (), []
        asked, known = self.settings.get("activation", self.name), row.activations[0]
        if asked is not None and asked not in known:
            raise ArgumentError(f"setting activation={asked!r}; oneDNN's RNN has {', '.join(known)}")
        unsaid = Assumption("activation", known[0], "an RNN's memories do not say it")
        return (Activation(asked or known[0]),), [] if asked else [unsaid]


def lstm_rows(version: str) -> dict[str, Convention]:
    """The rows of an LSTM of a version of MKL-DNN or oneDNN. Raises ArgumentError for what is no version."""
    match = _VERSION.fullmatch(version)
    if match is None or (int(match[1]), int(match[2])) < (0, 14):
        raise ArgumentError(f"setting version={version!r}; a version of oneDNN such as 3.2, from MKL-DNN 0.14 on")
    return OLD_LSTM if (int(match[1]), int(match[2])) < _FIRST_WITH_TODAYS_GATES else LSTM


def memories(row: Convention, layer: RNNWeights) -> dict[str, Array]:
    """The memories of one layer: the inverse of reading them."""
    arrays = row.write(layer.arrays, layer.spec)
    if BIAS_INSIDE in arrays:
        inside = arrays.pop(BIAS_INSIDE)
        arrays[BIAS] = join([arrays.pop(BIAS_OF_GATES), inside[:, None]], 1)
    return {name: array[None] for name, array in arrays.items()}


def _by_layer(held: Mapping[str, Array], row: Convention) -> Any:
    """For each layer the row's arrays."""
    for layer in range(len(held[BIAS])):
        arrays = {name: np.asarray(array[layer]) for name, array in held.items()}
        if any(slot.name == BIAS_INSIDE for slot in row.slots):
            arrays[BIAS_OF_GATES], inside = part(arrays.pop(BIAS), _LBR_ROWS, 1)
            arrays[BIAS_INSIDE] = inside[:, 0]
        yield arrays
