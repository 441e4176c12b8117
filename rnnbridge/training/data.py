"""What is trained on, in batches: `Batches` of samples, and `Windows` along a stream. Knows no models.

Anything with `__len__`, `carries_state` and `batches` as they have them can be trained on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine.arguments import whole
from rnnbridge.errors import ArgumentError
from rnnbridge.layers.arguments import read_lengths

Array = NDArray[Any]


class Batch(NamedTuple):
    """One step's data.

    Args:
        x: [N, T, ...], what the model takes.
        y: the target, what the loss takes.
        lengths: [N], valid steps of each; None is T.
    """

    x: Array
    y: Array
    lengths: Array | None = None


class Data(Protocol):
    """Batches, the same ones in the same order for the same epoch.

    Attributes:
        carries_state: whether each batch goes on where the one before ended, so that the state is handed on.
    """

    carries_state: bool

    def __len__(self) -> int:
        """How many batches an epoch has."""

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Those of an epoch, from the start-th on."""


class Batches:
    """Samples, each used once an epoch in an order drawn anew from (seed, epoch); the last batch may be smaller.

    Args:
        x: [samples, T, ...].
        y: [samples, ...]: whole numbers [samples] or [samples, T], or numbers.
        lengths: [samples], each 0..T; None is T everywhere. Sequences are padded at their end, with anything.
        batch_size: N.
        shuffle: False keeps the samples' order.
        seed: of the orders.

    Raises:
        ArgumentError: arrays of unequal length, or none.
    """

    carries_state = False

    def __init__(
        self, x: Array, y: Array, lengths: Any = None, *, batch_size: int, shuffle: bool = True, seed: int = 0
    ) -> None:
        self.x, self.y = _array("x", x), _array("y", y)
        if not len(self.x) or len(self.x) != len(self.y):
            raise ArgumentError(f"x has {len(self.x)} samples and y {len(self.y)}; both have the same, at least one")
        self.lengths = _lengths(lengths, self.x)
        self.batch_size = whole("batch_size", batch_size, least=1)
        self.shuffle, self.seed = shuffle, whole("seed", seed, least=0, most=2**64 - 1)

    def __len__(self) -> int:
        return math.ceil(len(self.x) / self.batch_size)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Those of an epoch, from the start-th on."""
        order = np.arange(len(self.x))
        if self.shuffle:
            order = np.random.default_rng((self.seed, epoch)).permutation(order)
        for k in range(start, len(self)):
            rows = order[k * self.batch_size :][: self.batch_size]
            yield Batch(self.x[rows], self.y[rows], None if self.lengths is None else self.lengths[rows])


class Windows:
    """One long stream, cut into `batch_size` streams that run side by side, `steps` at a time.

    The state is handed on from window to window, and gradients end at a window's first step: truncated
    back-propagation through time. What does not fill all streams evenly is left out at the end.

    Args:
        x: [S, ...]: tokens, or [S, I] numbers.
        y: [S, ...], a target for each step; None makes each step's target the next x.
        batch_size: N.
        steps: T of a window; the last one may be shorter.

    Raises:
        ArgumentError: arrays of unequal length, or shorter than one step for each stream.
    """

    carries_state = True

    def __init__(self, x: Array, y: Array | None = None, *, batch_size: int, steps: int) -> None:
        x = _array("x", x)
        x, y = (x[:-1], x[1:]) if y is None else (x, _array("y", y))
        if len(x) != len(y):
            raise ArgumentError(f"x has {len(x)} steps and y {len(y)}; both have the same")
        self.batch_size, self.steps = whole("batch_size", batch_size, least=1), whole("steps", steps, least=1)
        if len(x) < batch_size:
            raise ArgumentError(f"{len(x)} steps with a target are too few for {batch_size} streams")
        self.x, self.y = self._side_by_side(x), self._side_by_side(y)

    def __len__(self) -> int:
        return math.ceil(len(self.x[0]) / self.steps)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The windows, from the start-th on; every epoch has the same."""
        for k in range(start, len(self)):
            window = slice(k * self.steps, (k + 1) * self.steps)
            yield Batch(self.x[:, window], self.y[:, window])

    def _side_by_side(self, array: Array) -> Array:
        """[S, ...] -> [N, S // N, ...]."""
        each = len(array) // self.batch_size
        streams: Array = array[: each * self.batch_size].reshape(self.batch_size, each, *array.shape[1:])
        return streams


def _lengths(lengths: Any, x: Array) -> Array | None:
    """Read; each is 0..T, where x has a T."""
    read = read_lengths(lengths, len(x))
    if read is not None and x.ndim > 1 and not 0 <= read.min() <= read.max() <= x.shape[1]:
        raise ArgumentError(f"lengths go from {read.min()} to {read.max()}; they are 0 to T = {x.shape[1]}")
    return read


def _array(name: str, value: Any) -> Array:
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        raise ArgumentError(f"{name} is a {type(value).__name__}; it is a NumPy array with an axis of samples or steps")
    return value
