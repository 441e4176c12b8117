"""What nodes that only rearrange a tensor do to its axes, tracked by label. Knows no weights and no recurrent layer.

An axis is a string of the labels that run along it, outermost first, `T`, `D`, `N`, `H`; one of size 1 is "". So a
bidirectional Y is `T D N H`, and what the next layer of a stack reads is `T N DH`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rnnbridge.converters.onnx_graph import Scope, attribute_of, input_of

Axes = tuple[str, ...]
Extent = str | int  # of one axis in a shape: the labels along it, or a number
_SAME = ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze")  # on a shape vector of one or two axes


class Tracker:
    """The axes of tensors on the way from one recurrent node.

    Args:
        sizes: label -> extent, of the labels whose extent is known.
        axes: tensor -> its axes; filled as the way is followed.
    """

    def __init__(self, scope: Scope, sizes: Mapping[str, int]) -> None:
        self.scope, self.sizes = scope, sizes
        self.axes: dict[str, Axes] = {}

    def after(self, node: Any) -> Axes | None:
        """The axes of a node's output, None where the node does more than rearrange its input."""
        axes = self.axes[node.input[0]]
        if node.op_type == "Identity":
            return axes
        if node.op_type == "Transpose":
            order = attribute_of(node, "perm", []) or list(range(len(axes)))[::-1]
            return tuple(axes[place] for place in order) if sorted(order) == list(range(len(axes))) else None
        if node.op_type == "Squeeze":
            gone = self.places(node, len(axes))
            return None if not gone or any(axes[place] for place in gone) else _without(axes, gone)
        if node.op_type == "Reshape":
            target = self._shape(input_of(node, 1))
            return None if target is None else reshaped(axes, target, self.sizes, attribute_of(node, "allowzero", 0))
        return None

    def places(self, node: Any, rank: int) -> set[int]:
        """The axes that Squeeze or a reduction names: an attribute in older opsets, an input in newer ones."""
        given: Any = attribute_of(node, "axes", [])
        if not given and input_of(node, 1):
            given = self.scope.constant_or_none(node.input[1])
        places = [] if given is None else [int(place) for place in np.ravel(given)]
        return {place % rank for place in places} if all(-rank <= place < rank for place in places) else set()

    def _shape(self, name: str) -> list[Extent] | None:
        """A shape vector, as an exporter computes it from the shape of a tensor on the way."""
        if (value := self.scope.constant_or_none(name)) is not None:
            return [int(extent) for extent in np.ravel(value)]
        node = self.scope.producers.get(name)
        if node is None:
            return None
        if node.op_type == "Shape":
            axes = self.axes.get(node.input[0])
            return None if axes is None else list(axes[slice(*_bounds(node, len(axes)))])
        parts = [self._shape(one) for one in (node.input if node.op_type in ("Concat", "Mul") else node.input[:1])]
        known = [part for part in parts if part is not None]
        if not known or len(known) != len(parts):
            return None
        return self._computed(node, known)

    def _computed(self, node: Any, parts: list[list[Extent]]) -> list[Extent] | None:
        if node.op_type == "Concat":
            return [extent for part in parts for extent in part]
        if node.op_type == "Mul" and [len(part) for part in parts] == [1, 1]:
            return _product(parts[0][0], parts[1][0])
        if node.op_type in _SAME:
            return parts[0]
        if node.op_type == "Slice":
            bounds = [self.scope.constant_or_none(one) for one in node.input[1:3]]
            known = [int(one.ravel()[0]) for one in bounds if one is not None and one.size == 1]
            return parts[0][slice(*known)] if len(known) == 2 and len(node.input) < 5 else None
        if node.op_type == "Gather":
            places = self.scope.constant_or_none(input_of(node, 1))
            if places is not None and np.all((places >= 0) & (places < len(parts[0]))):
                return [parts[0][int(place)] for place in np.ravel(places)]
        return None


def reshaped(axes: Axes, target: Sequence[Extent], sizes: Mapping[str, int], allow_zero: int = 0) -> Axes | None:
    """The axes after a Reshape, None where they cannot be told.

    Args:
        target: per axis its labels or a number; 0 keeps an axis (unless `allow_zero`), one -1 takes what is left.
        sizes: the extents that are known.
    """
    wanted = [
        axes[place] if extent == 0 and not allow_zero and place < len(axes) else extent
        for place, extent in enumerate(target)
    ]
    if wanted.count(-1) > 1:
        return None
    cut = wanted.index(-1) if -1 in wanted else len(wanted)
    left = "".join(axes)
    head: list[str] = []
    tail: list[str] = []
    for extent in wanted[:cut]:
        labels = _leading(left, extent, sizes)
        if labels is None:
            return None
        head.append(labels)
        left = left[len(labels) :]
    for extent in wanted[:cut:-1]:
        backwards = _leading(left[::-1], extent[::-1] if isinstance(extent, str) else extent, sizes)
        if backwards is None:
            return None
        tail.append(backwards[::-1])
        left = left[: len(left) - len(backwards)]
    if cut == len(wanted):
        return tuple(head) if not left else None
    return (*head, left, *tail[::-1])


def _leading(left: str, extent: Extent, sizes: Mapping[str, int]) -> str | None:
    """The labels at the beginning of `left` that fill one axis of this extent."""
    if isinstance(extent, str):
        return extent if left.startswith(extent) else None
    if extent == 1:
        return ""
    for count in range(1, len(left) + 1):
        if not set(left[:count]) <= set(sizes):
            return None  # a number for T or N where these may vary: it could as well cut across them
        if math.prod(sizes[label] for label in left[:count]) == extent:
            return left[:count]
    return None


def _product(one: Extent, other: Extent) -> list[Extent] | None:
    if isinstance(one, str) and isinstance(other, str):
        return [one + other]
    return [one * other] if isinstance(one, int) and isinstance(other, int) else None


def _without(axes: Axes, gone: set[int]) -> Axes:
    return tuple(axis for place, axis in enumerate(axes) if place not in gone)


def _bounds(node: Any, rank: int) -> tuple[int, int]:
    return attribute_of(node, "start", 0), attribute_of(node, "end", rank)
