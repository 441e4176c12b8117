"""Layouts as strings: a small algebra of bijections on arrays. Knows no framework, no cell and no formula.

An axis string names an array's axes, outermost first; brackets join several letters into one axis. `"(g o) i"` is
PyTorch's weight matrix: rows run over the gates g and, within a gate, over the output units o; columns are the input
features i. `"i (g o)"` is Keras's, `"d (g o) i"` ONNX's, `"(o g) i"` Chainer's interleaved gates.

`"i (g o) as o i"` is a reinterpreted block: the array is split as on the left, and each block's numbers, read in the
order of the left's letters, are those of a matrix with axes `o i`. This is how Keras stores a cuDNN input kernel.

Every operation here has an exact inverse: no bit is lost. What loses bits is a rewrite, in rewrite.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import LayoutError

Array = NDArray[Any]

# l layer, d direction, b bias (input side, recurrent side), g gate, p projected unit, o output unit, i input feature.
# `Axes.read` returns its letters in this order.
CANONICAL_ORDER = "ldbgpoi"
_TOKEN = re.compile(r"\s*(?:\(([a-z](?: [a-z])*)\)|([a-z]))\s*")


@dataclass(frozen=True)
class Axes:
    """An axis string, parsed.

    Raises:
        LayoutError: the string cannot be read, or repeats or mixes up letters.
    """

    pattern: str

    def __post_init__(self) -> None:
        letters = "".join(self._groups)
        if len(set(letters)) != len(letters) or not set(letters) <= set(CANONICAL_ORDER):
            raise LayoutError(f"axis string {self.pattern!r}: each letter of {CANONICAL_ORDER!r} at most once")
        if self._block and not set(self._block) <= set(letters):
            raise LayoutError(f"axis string {self.pattern!r}: the letters after 'as' are among those before it")

    @cached_property
    def letters(self) -> str:
        """The letters in canonical order: the axes of what `read` returns."""
        return "".join(letter for letter in CANONICAL_ORDER if letter in "".join(self._groups))

    @cached_property
    def _groups(self) -> tuple[str, ...]:
        left = self.pattern.split(" as ")[0]
        groups: list[str] = []
        end = 0
        while end < len(left) or not groups:
            match = _TOKEN.match(left, end)
            if match is None:
                raise LayoutError(f"cannot read the axis string {self.pattern!r}; it looks like '(g o) i'")
            groups.append((match.group(1) or match.group(2)).replace(" ", ""))
            end = match.end()
        return tuple(groups)

    @cached_property
    def _block(self) -> str:
        _, found, right = self.pattern.partition(" as ")
        if found and not re.fullmatch(r"[a-z](?: [a-z])*", right):
            raise LayoutError(f"cannot read the axis string {self.pattern!r}; after 'as' come bare letters")
        return right.replace(" ", "")

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an array laid out so. `sizes` maps each letter to its size."""
        return tuple(math.prod(sizes[letter] for letter in group) for group in self._groups)

    def solve(self, shape: Sequence[int], known: Mapping[str, int]) -> dict[str, int]:
        """Find the sizes that a shape leaves no choice about.

        Args:
            shape: of an array laid out so.
            known: the sizes that are known already, by letter.

        Returns:
            `known` with every letter added that is alone unknown in its axis.

        Raises:
            LayoutError: another number of axes, or an axis that the known sizes do not divide.
        """
        if len(shape) != len(self._groups):
            raise LayoutError(f"shape {list(shape)} has {len(shape)} axes; {self.pattern!r} has {len(self._groups)}")
        sizes = dict(known)
        for group, extent in zip(self._groups, shape, strict=True):
            unknown = [letter for letter in group if letter not in sizes]
            rest = math.prod(sizes[letter] for letter in group if letter in sizes)
            if len(unknown) > 1:
                continue
            if (extent % rest if unknown else extent != rest) or (unknown and extent == 0):
                raise LayoutError(f"shape {list(shape)} does not fit {self.pattern!r} with {_sizes(known)}")
            if unknown:
                sizes[unknown[0]] = extent // rest
        return sizes

    def read(self, array: Array, sizes: Mapping[str, int]) -> Array:
        """Take an array apart: one axis per letter, in canonical order.

        Raises:
            LayoutError: the array's shape is not `shape(sizes)`.
        """
        if array.shape != self.shape(sizes):
            raise LayoutError(
                f"shape is {list(array.shape)}, {self.pattern!r} with {_sizes(sizes)} is {list(self.shape(sizes))}"
            )
        order = "".join(self._groups)
        apart = array.reshape([sizes[letter] for letter in order])
        if self._block:
            apart, order = self._reinterpret(apart, order, self._block_as_written(order), self._block, sizes)
        return np.ascontiguousarray(np.transpose(apart, [order.index(letter) for letter in self.letters]))

    def write(self, tensor: Array, sizes: Mapping[str, int]) -> Array:
        """The inverse of `read`, bit for bit."""
        order = "".join(self._groups)
        apart, have = tensor, self.letters
        if self._block:
            apart, have = self._reinterpret(apart, have, self._block, self._block_as_written(order), sizes)
        return np.ascontiguousarray(np.transpose(apart, [have.index(letter) for letter in order])).reshape(
            self.shape(sizes)
        )

    def _block_as_written(self, order: str) -> str:
        return "".join(letter for letter in order if letter in self._block)

    @staticmethod
    def _reinterpret(apart: Array, order: str, source: str, target: str, sizes: Mapping[str, int]) -> tuple[Array, str]:
        outer = "".join(letter for letter in order if letter not in source)
        blocks = np.transpose(apart, [order.index(letter) for letter in outer + source])
        shape = [sizes[letter] for letter in outer + target]
        return np.ascontiguousarray(blocks).reshape(shape), outer + target


def join(parts: Sequence[Array], axis: int) -> Array:
    """Lay arrays end to end along an axis, as a stacked `[x; h]` kernel does. `part` undoes it."""
    return np.concatenate(parts, axis=axis)


def part(array: Array, lengths: Sequence[int], axis: int) -> list[Array]:
    """Cut an array into consecutive parts of the given lengths along an axis.

    Raises:
        LayoutError: the lengths do not add up to the axis.
    """
    if sum(lengths) != array.shape[axis]:
        raise LayoutError(f"lengths {list(lengths)} do not add up to the {array.shape[axis]} along axis {axis}")
    return np.split(array, np.cumsum(lengths)[:-1], axis=axis)


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{letter}={size}" for letter, size in sizes.items()) or "no size known"
