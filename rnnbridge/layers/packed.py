"""Packed sequences: the valid steps of a batch as rows, time first, as PyTorch's PackedSequence has them.

The engine takes lengths, so rows are laid out as [T, N, .] on the way in and taken from there on the way out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import ArgumentError
from rnnbridge.layers.arguments import array_of, kind_problem, shape_problem
from rnnbridge.spec import RNNSpec

Array = NDArray[Any]


class PackedRows(NamedTuple):
    """Rows [sum(batch_sizes), features]: of step 0 batch_sizes[0] rows, then of step 1 batch_sizes[1] of the same
    sequences, ... A PyTorch PackedSequence is one, and may be given as it is.

    Args:
        data: the rows.
        batch_sizes: how many sequences have a step t, never rising.
        sorted_indices: which sequence of the batch the first, second, ... row of a step belongs to; None is 0, 1, ...
            States are in the batch's order.
        unsorted_indices: its inverse; only handed back.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None


class Packed:
    """One call's sequences, packed; the same methods as `Sequences`.

    Raises:
        ArgumentError: the batch sizes or indices do not describe a batch, or the rows do not fit.
    """

    batched = True
    views = False

    def __init__(self, spec: RNNSpec, rows: PackedRows, dtype: np.dtype[Any]) -> None:
        sizes = _whole_numbers("batch_sizes", rows.batch_sizes)
        if sizes.size == 0 or sizes[-1] < 1 or (np.diff(sizes) > 0).any():
            raise ArgumentError("batch_sizes of packed rows are at least 1 and never rise")
        self.T, self.N = len(sizes), int(sizes[0])
        self._spec, self._dtype, self._given = spec, dtype, rows
        places = np.arange(self.N)
        if rows.sorted_indices is not None:
            places = _whole_numbers("sorted_indices", rows.sorted_indices)
            if not np.array_equal(np.sort(places), np.arange(self.N)):
                raise ArgumentError(f"sorted_indices of packed rows are 0 to {self.N - 1}, each once")
        self._t = np.repeat(np.arange(self.T), sizes)
        self._n = np.concatenate([places[:size] for size in sizes])
        self.lengths = np.bincount(self._n, minlength=self.N).astype(np.int64)

    def enter(self, x: Any) -> Array:
        """The rows of x as the engine's [T, N, I]."""
        return self._laid_out("x", x, self._spec.input_size)

    def empty(self, width: int) -> Array:
        """[T, N, width]."""
        return np.empty((self.T, self.N, width), self._dtype)

    def leave(self, y: Array) -> PackedRows:
        """The engine's y as rows."""
        return self._given._replace(data=y[self._t, self._n])

    def enter_gradient(self, dy: Any) -> Array | None:
        """The engine's dy for the rows' gradient: rows, packed or alone.

        Raises:
            ArgumentError: they do not fit.
        """
        return None if dy is None else self._laid_out("dy", dy, self._spec.output_size)

    def leave_gradient(self, dx: Array) -> Array:
        """The gradient of the rows of x, as rows."""
        rows: Array = dx[self._t, self._n]
        return rows

    def read(self, name: str, given: Any, width: int) -> Array:
        """Rows with so many features.

        Raises:
            ArgumentError: they have another shape or dtype.
        """
        array: Array = array_of(name, given[0] if isinstance(given, tuple) else given)
        shape = (len(self._t), width)
        if problem := kind_problem(name, array, self._dtype) or shape_problem(name, array, shape):
            raise ArgumentError(problem)
        return array

    def _laid_out(self, name: str, given: Any, width: int) -> Array:
        laid_out = np.zeros((self.T, self.N, width), self._dtype)
        laid_out[self._t, self._n] = self.read(name, given, width)
        return laid_out


def read_packed(x: tuple[Any, ...]) -> PackedRows:
    """A tuple (data, batch_sizes), a PackedSequence or `PackedRows`.

    Raises:
        ArgumentError: it has another number of parts.
    """
    if not 2 <= len(x) <= 4:
        raise ArgumentError(f"x is a tuple of {len(x)}; packed rows are (data, batch_sizes), or a PackedSequence")
    return PackedRows(*x)


def _whole_numbers(name: str, value: Any) -> Array:
    given = np.asarray(array_of(name, value))
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ArgumentError(f"{name} of packed rows is {given.dtype} {list(given.shape)}; it is one list of integers")
    return given.astype(np.int64)
