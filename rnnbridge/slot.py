"""One array of a framework: which canonical tensors it holds, and where. Knows no framework and no row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.gates import gate_order, split_gates
from rnnbridge.layout import Axes, join, part
from rnnbridge.spec import RNNSpec, suffix_of

Array = NDArray[Any]
Place = tuple[str, int, int]
"""A canonical tensor's base name, its layer and its direction."""


@dataclass(frozen=True)
class Slot:
    """One array of the framework and what it holds.

    Args:
        name: the array's name; `{layer}` and `{direction}` are filled in.
        holds: the canonical tensor in it, or two: "bias_ih bias_hh" along axis `b`, "weight_ih weight_hh" end to end
            along `i`.
        axes: its axis string, see layout.py.
        gates: the gates in it, in the framework's letters, where they are not the row's.
        optional: the array is absent where the layer has no such bias.
    """

    name: str
    holds: str
    axes: str
    gates: str = ""
    optional: bool = False

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The canonical tensors in it."""
        return tuple(self.holds.split())

    @cached_property
    def layout(self) -> Axes:
        """Its axis string, parsed."""
        return Axes(self.axes)

    def shares(self, layer: int, direction: int) -> bool:
        """Whether an earlier layer's or direction's array holds this one's numbers too."""
        return bool(("l" in self.layout.letters and layer) or ("d" in self.layout.letters and direction))

    def take(
        self, array: Array, spec: RNNSpec, layer: int, direction: int, gates: Sequence[str]
    ) -> Iterator[tuple[Place, dict[str, Array]]]:
        """Take the array apart: for each tensor in it, gate -> that gate's rows.

        Args:
            gates: canonical letters of the gates in it, in its own order.

        Raises:
            LayoutError: the array has another shape.
        """
        sizes, features = self._sizes(spec, layer, len(gates))
        apart = self.layout.read(array, sizes)
        for inner_layer, inner_direction, index in self._inside(spec, layer, direction):
            tensors = list(apart[index]) if self._along_b else self._apart(apart[index], features)
            for name, tensor in zip(self.tensors, tensors, strict=True):
                rows = tensor if self._along_g else tensor[None]
                yield (name, inner_layer, inner_direction), dict(zip(gates or [""], rows, strict=True))

    def give(
        self, canonical: Mapping[str, Array], spec: RNNSpec, layer: int, direction: int, gates: Sequence[str]
    ) -> Array:
        """Put the array together from canonical ones: the inverse of `take`."""
        sizes, features = self._sizes(spec, layer, len(gates))
        inside = []
        for inner_layer, inner_direction, _ in self._inside(spec, layer, direction):
            suffix = suffix_of(inner_layer, inner_direction)
            tensors = [self._in_own_order(canonical[name + suffix], name, spec.cell, gates) for name in self.tensors]
            inside.append(
                np.stack(tensors) if self._along_b else join(tensors, -1) if len(features) > 1 else tensors[0]
            )
        outer = [sizes[letter] for letter in "ld" if letter in self.layout.letters]
        return self.layout.write(np.stack(inside).reshape(*outer, *inside[0].shape) if outer else inside[0], sizes)

    @property
    def _along_b(self) -> bool:
        return "b" in self.layout.letters

    @property
    def _along_g(self) -> bool:
        return "g" in self.layout.letters

    def _sizes(self, spec: RNNSpec, layer: int, gates: int) -> tuple[dict[str, int], list[int]]:
        widths = {"weight_ih": spec.layer_input_size(layer), "weight_hh": spec.state_size}
        features = [widths[tensor] for tensor in self.tensors if tensor in widths]
        counts = {"l": spec.num_layers, "d": spec.num_directions, "b": len(self.tensors), "g": gates}
        return {**counts, "p": spec.proj_size, "o": spec.hidden_size, "i": sum(features)}, features

    def _inside(self, spec: RNNSpec, layer: int, direction: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        letters = self.layout.letters
        for inner_layer in range(spec.num_layers) if "l" in letters else (layer,):
            for inner_direction in range(spec.num_directions) if "d" in letters else (direction,):
                yield (
                    inner_layer,
                    inner_direction,
                    (inner_layer,) * ("l" in letters) + (inner_direction,) * ("d" in letters),
                )

    def _apart(self, tensor: Array, features: list[int]) -> list[Array]:
        return part(tensor, features, -1) if len(features) > 1 else [tensor]

    def _in_own_order(self, tensor: Array, name: str, cell: str, gates: Sequence[str]) -> Array:
        if not gate_order(name, cell):
            return tensor
        by_gate = split_gates(tensor, name, cell)
        rows = [by_gate[gate] for gate in gates]
        return np.stack(rows) if self._along_g else rows[0]
