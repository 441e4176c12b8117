"""Masks with holes, and what stands in the output where there is no valid step. Knows sequences only, no cell.

Sequences are [T, N, .], masks bool [T, N], True where a step is valid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def valid_steps(lengths: Array, T: int) -> Array:
    """The mask that lengths [N] stand for."""
    return np.arange(T)[:, None] < lengths


def valid_first(mask: Array) -> Array:
    """Step numbers [T, N], each sequence's valid ones first and in order: what `gather` and `scatter` move by."""
    return np.argsort(~mask, axis=0, kind="stable")


def gather(x: Array, order: Array) -> Array:
    """A copy of x whose valid steps come first."""
    return np.take_along_axis(x, order[:, :, None], axis=0)


def scatter(y: Array, order: Array) -> Array:
    """A copy of y, in the same memory order, with every step back where `gather` took it from."""
    result = np.empty_like(y)
    np.put_along_axis(result, order[:, :, None], y, axis=0)
    return result


def repeat_last(y: Array, valid: Array) -> None:
    """Put the output of the last valid step before it wherever a step is not valid; in place.

    Keras does this where `zero_output_for_mask` is unset (keras/src/backend/*/rnn.py). Before the first valid step
    there is nothing to repeat, and y stays zero there.

    Args:
        y: in the order of processing, zero where not valid.
        valid: in the same order.
    """
    steps = np.arange(len(y))[:, None]
    latest = np.maximum.accumulate(np.where(valid, steps, 0), axis=0)
    t, n = np.nonzero(~valid)
    y[t, n] = y[latest[t, n], n]


def fold_repeated(dy: Array, valid: Array) -> Array:
    """The derivative of `repeat_last`: a copy of dy in which every step also has what its repetitions got."""
    steps = np.arange(len(dy))[:, None]
    latest = np.maximum.accumulate(np.where(valid, steps, 0), axis=0)
    t, n = np.nonzero(~valid & np.take_along_axis(valid, latest, axis=0))
    folded = dy.copy()
    np.add.at(folded, (latest[t, n], n), dy[t, n])
    return folded
