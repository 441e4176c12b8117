"""Trained weights in canonical form: `RNNWeights`, where they come from (`Origin`), and what one file holds (`Bundle`).

Knows no framework: converters fill these, the engine and the converters read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rnnbridge.errors import ArgumentError, Incompatible, LayoutError
from rnnbridge.spec import STANDARD_ACTIVATIONS, RNNSpec, suffix_of

Array = NDArray[Any]
_COMPUTED = ("float32", "float64")
_NARROW = ("float16", "bfloat16")  # widened to float32 without loss, remembered, written back as the same bits


@dataclass(frozen=True)
class Assumption:
    """Something the source does not say and that changes the numbers. `--set key=value` overrides it."""

    key: str
    value: str
    because: str

    def __str__(self) -> str:
        return f"{self.key}={self.value} ({self.because})"


@dataclass(frozen=True)
class Origin:
    """What the source said beyond the mathematics.

    Args:
        framework: "keras", "pytorch", "onnx", ...
        convention: name of the row that the arrays were read with, e.g. "keras.CuDNNGRU".
        name: the layer's name in the source.
        version: the version of the framework that wrote it, "" if unknown.
        batch_first: the source's order of sequences; None if it has none.
        padding: what the source puts past a sequence's length, "zero" or "repeat".
        storage_dtype: "float16" or "bfloat16" where the source stored that, else "".
        evidence: what in the source decided the reading, one sentence each.
        assumptions: what the source does not say.
    """

    framework: str = ""
    convention: str = ""
    name: str = ""
    version: str = ""
    batch_first: bool | None = None
    padding: str = "zero"
    storage_dtype: str = ""
    evidence: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    def order(self, asked: bool | None) -> bool | None:
        """The order of sequences to write: what is asked for, else the source's."""
        return self.batch_first if asked is None else asked


class RNNWeights:
    """A recurrent layer's numbers, under PyTorch's names, in canonical gate order.

    `weight_ih_l0 [G*H, I]`, `weight_hh_l0 [G*H, H or P]`, `bias_ih_l0`, `bias_hh_l0 [G*H]`, `weight_hr_l0 [P, H]`,
    `peephole_l0 [3, H]` (i, f, o); `_reverse` for the second direction, `_l1` ... for upper layers.

    Args:
        spec: what the layer is.
        arrays: name -> array, float32 or float64; float16 and bfloat16 are widened. Copied; non-contiguous is fine.
        origin: where they come from.

    Raises:
        LayoutError: naming every array that is missing, unknown, of another shape or dtype.
    """

    __slots__ = ("arrays", "origin", "spec")

    spec: RNNSpec
    arrays: Mapping[str, Array]
    origin: Origin

    def __init__(self, spec: RNNSpec, arrays: Mapping[str, Any], origin: Origin | None = None) -> None:
        if not isinstance(arrays, Mapping):
            raise LayoutError(f"arrays is a {type(arrays).__name__}; it maps names such as 'weight_ih_l0' to arrays")
        given = {name: np.asarray(array) for name, array in arrays.items()}
        if wrong := _mismatches(spec, given):
            raise LayoutError("these arrays are not the spec's: " + "; ".join(wrong))
        narrow = {str(array.dtype) for array in given.values()} & set(_NARROW)
        dtype = np.result_type(*(np.float32 if str(a.dtype) in _NARROW else a.dtype for a in given.values()))
        self.spec = spec
        self.arrays = MappingProxyType({name: _frozen(given[name], dtype) for name in spec.weight_shapes()})
        self.origin = origin or Origin()
        if len(narrow) == 1 and not self.origin.storage_dtype:
            self.origin = replace(self.origin, storage_dtype=narrow.pop())

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return next(iter(self.arrays.values())).dtype

    @property
    def num_parameters(self) -> int:
        """How many numbers there are."""
        return sum(array.size for array in self.arrays.values())

    def tensors(self, layer: int, direction: int) -> dict[str, Array]:
        """The arrays of one layer and direction under their base names, e.g. "weight_ih"."""
        return {name: self.arrays[name + suffix_of(layer, direction)] for name in self.spec.tensor_shapes(layer)}

    def with_origin(self, **changes: Any) -> RNNWeights:
        """A copy whose origin has some fields changed."""
        return RNNWeights(self.spec, self.arrays, replace(self.origin, **changes))

    def astype(self, dtype: DTypeLike) -> RNNWeights:
        """A copy in float32 or float64."""
        kind = float_dtype(dtype)
        return RNNWeights(self.spec, {name: array.astype(kind) for name, array in self.arrays.items()}, self.origin)

    def split(self) -> list[RNNWeights]:
        """One `RNNWeights` per layer of the stack."""
        return [self._one_layer(layer) for layer in range(self.spec.num_layers)]

    def _one_layer(self, layer: int) -> RNNWeights:
        spec = self.spec.replace(num_layers=1, input_size=self.spec.layer_input_size(layer))
        arrays = {
            name + suffix_of(0, direction): array
            for direction in range(spec.num_directions)
            for name, array in self.tensors(layer, direction).items()
        }
        return RNNWeights(spec, arrays, self.origin)

    def __eq__(self, other: object) -> bool:
        """Same spec and same bits; NaNs of the same bits are equal."""
        if not isinstance(other, RNNWeights):
            return NotImplemented
        return (
            self.spec == other.spec
            and self.dtype == other.dtype
            and all(array.tobytes() == other.arrays[name].tobytes() for name, array in self.arrays.items())
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RNNWeights, (self.spec, dict(self.arrays), self.origin)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        where = f" from {self.origin.convention}" if self.origin.convention else ""
        return f"<RNNWeights {describe(self.spec)}, {self.num_parameters} x {self.dtype}{where}>"


def float_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype, if it is one that layers are computed in: "float32", np.float32, np.dtype("float32") ...

    Raises:
        ArgumentError: it is another, or none.
    """
    try:
        read = None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError):
        read = None
    if read is None or read.name not in _COMPUTED or not read.isnative:
        raise ArgumentError(f"dtype is {dtype!r}; it is {' or '.join(map(repr, _COMPUTED))}")
    return read


def describe(spec: RNNSpec) -> str:
    """A spec in a line, as people say it: "GRU reset-after 24 -> 31, 2 layers, bidirectional, double bias"."""
    words = [
        spec.cell.upper() + (f" reset-{spec.reset}" if spec.reset else ""),
        f"{spec.input_size} -> {spec.hidden_size}",
    ]
    head = " ".join(words) + (f" (projected to {spec.proj_size})" if spec.proj_size else "")
    parts = [head, f"{spec.num_layers} layer{'s' * (spec.num_layers > 1)}", spec.direction, f"bias {spec.bias}"]
    if spec.num_directions == 2 and spec.merge != "concat":
        parts.append(f"merge {spec.merge}")
    if spec.activations != STANDARD_ACTIVATIONS.get(spec.cell):
        parts.append(" / ".join(map(str, spec.activations)))
    return ", ".join(parts)


def stack(layers: Sequence[RNNWeights]) -> RNNWeights:
    """Join layers that follow each other into one stack; `RNNWeights.split` undoes it.

    Raises:
        Incompatible: with every field in which two neighbours differ, or whose sizes do not meet.
    """
    layers = list(layers) if isinstance(layers, list | tuple) else []
    if not layers or not all(isinstance(one, RNNWeights) for one in layers):
        raise ArgumentError("stack() takes a list of one or more RNNWeights, lowest layer first")
    if reasons := [reason for pair in pairwise(layers) for reason in stacking_obstacles(*pair)]:
        raise Incompatible("these layers do not form one stack", reasons)
    singles = [single for one in layers for single in one.split()]
    spec = layers[0].spec.replace(num_layers=len(singles))
    arrays = {
        name + suffix_of(layer, direction): array
        for layer, single in enumerate(singles)
        for direction in range(spec.num_directions)
        for name, array in single.tensors(0, direction).items()
    }
    return RNNWeights(spec, arrays, layers[0].origin)


def stacking_obstacles(lower: RNNWeights, upper: RNNWeights) -> list[str]:
    """Why two layers cannot be neighbours in one stack; empty if they can."""
    fields_alike = {**lower.spec.to_dict(), "dtype": str(lower.dtype)}
    others = {**upper.spec.to_dict(), "dtype": str(upper.dtype)}
    reasons = [
        f"{key} is {value!r} below and {others[key]!r} above"
        for key, value in fields_alike.items()
        if key not in ("input_size", "num_layers") and value != others[key]
    ]
    if lower.spec.output_size != upper.spec.input_size:
        reasons.append(f"the lower gives {lower.spec.output_size} features and the upper takes {upper.spec.input_size}")
    if lower.spec.merge == "none":
        reasons.append("the lower layer's directions are not merged")
    if "processing" in (lower.spec.output_order, upper.spec.output_order):
        reasons.append("a layer whose output is in processing order has no neighbour in a stack")
    return reasons


@dataclass
class Bundle:
    """What one file (or live object) holds.

    Args:
        layers: name -> weights of every recurrent layer, in the file's order.
        tensors: every other array of the file, untouched, by its name in the file.
        format: name of the format that read it, e.g. "keras".
        path: the file, None for a live object.
        notices: what a user should know and would not guess.
        is_model: whether it is a whole model, which the format writes again even where no layer is recurrent.
        carried: what the format itself needs to write the whole file again; no business of anybody else.
    """

    layers: dict[str, RNNWeights]
    tensors: dict[str, Array] = field(default_factory=dict)
    format: str = ""
    path: Path | None = None
    notices: tuple[str, ...] = ()
    is_model: bool = False
    carried: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        layers = "".join(f"\n  {name!r}: {weights!r}" for name, weights in self.layers.items())
        return f"<Bundle of {self.path or 'memory'} ({self.format}), {len(self.tensors)} other arrays{layers}>"

    def __getitem__(self, name: str) -> RNNWeights:
        if name not in self.layers:
            raise ArgumentError(f"no recurrent layer {name!r}; there are {', '.join(map(repr, self.layers))}")
        return self.layers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)


def _mismatches(spec: RNNSpec, given: Mapping[str, Array]) -> list[str]:
    wanted = spec.weight_shapes()
    wrong = [f"{name} {list(shape)} is missing" for name, shape in wanted.items() if name not in given]
    wrong += [f"{name} is not one of them" for name in given if name not in wanted]
    for name in wanted.keys() & given.keys():
        array = given[name]
        if array.shape != wanted[name]:
            wrong.append(f"{name} is {list(array.shape)} and should be {list(wanted[name])}")
        if str(array.dtype) not in (*_COMPUTED, *_NARROW):
            wrong.append(f"{name} is {array.dtype}; float32, float64, float16 and bfloat16 are read")
    return sorted(wrong)


def _frozen(array: Array, dtype: np.dtype[Any]) -> Array:
    copy = np.array(array, dtype=dtype, order="C", copy=True)
    copy.flags.writeable = False
    return copy
