"""What a training makes small: cross entropy, squared error, binary cross entropy, each with its gradient.

A loss is called with (y, target, lengths) and gives a `LossValue`: the mean over what counts. Steps past a length count
nothing. Knows no models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine.arguments import whole
from rnnbridge.errors import ArgumentError
from rnnbridge.training.arguments import said
from rnnbridge.training.modules import valid_of

Array = NDArray[Any]


class LossValue(NamedTuple):
    """A loss of one batch.

    Args:
        mean: over what counted; 0 where nothing did.
        dy: its gradient, in the form of y; zero where nothing counted.
        counted: how many numbers the mean is of.
    """

    mean: float
    dy: Array
    counted: int


Loss: TypeAlias = Callable[[Array, Array, Any], LossValue]


@dataclass(frozen=True)
class CrossEntropy:
    """-log softmax(y)[target], as `torch.nn.CrossEntropyLoss`, the classes along the last axis.

    Called with y [N, T, C] and whole numbers [N, T], or [N, C] and [N]; each target is 0 to C - 1.

    Args:
        ignore_index: targets of this number do not count.
    """

    ignore_index: int = -100

    def __post_init__(self) -> None:
        whole("ignore_index", self.ignore_index, least=-(2**63))

    def __call__(self, y: Array, target: Array, lengths: Any = None) -> LossValue:
        """The mean over the targets that count. Raises ArgumentError for shapes, dtypes and classes that do not fit."""
        _check_scores("CrossEntropy", y, target, "iu")
        counted = (target != self.ignore_index) & _valid(target.shape, lengths)
        scores, classes = y[counted], target[counted]
        if classes.size and not 0 <= classes.min() <= classes.max() < y.shape[-1]:
            given = f"{classes.min()} to {classes.max()}"
            raise ArgumentError(f"targets go from {given}; they are 0 to {y.shape[-1] - 1}, or ignore_index")
        dy, count, rows = np.zeros_like(y), len(classes), np.arange(len(classes))
        if not count:
            return LossValue(0.0, dy, 0)
        scores -= scores.max(axis=-1, keepdims=True)
        shares = np.exp(scores)
        total = shares.sum(axis=-1, keepdims=True)
        losses = np.log(total[:, 0]) - scores[rows, classes]
        shares /= total
        shares[rows, classes] -= 1
        dy[counted] = shares / count
        return LossValue(float(losses.mean(dtype=np.float64)), dy, count)


@dataclass(frozen=True)
class MSE:
    """(y - target)^2, as `torch.nn.MSELoss`. The target has the shape and dtype of y: [N, T, F] or [N, F]."""

    def __call__(self, y: Array, target: Array, lengths: Any = None) -> LossValue:
        """The mean over the numbers that count. Raises ArgumentError for shapes and dtypes that do not fit."""
        _check_scores("MSE", y, target, "f")
        difference = y - target
        return _mean(np.square(difference), 2 * difference, lengths)


@dataclass(frozen=True)
class BCEWithLogits:
    """-t log s(y) - (1 - t) log(1 - s(y)), s the sigmoid, as `torch.nn.BCEWithLogitsLoss`.

    The target has the shape and dtype of y, [N, T, F] or [N, F], and is 0 to 1.
    """

    def __call__(self, y: Array, target: Array, lengths: Any = None) -> LossValue:
        """The mean over the numbers that count. Raises ArgumentError for shapes and dtypes that do not fit."""
        _check_scores("BCEWithLogits", y, target, "f")
        small = np.exp(-np.abs(y))  # never overflows
        losses = np.maximum(y, 0) - y * target + np.log1p(small)
        sigmoid = np.where(y >= 0, 1, small) / (1 + small)
        return _mean(losses, sigmoid - target, lengths)


def _mean(losses: Array, dy: Array, lengths: Any) -> LossValue:
    """The mean of those that count, given d loss / d y of each."""
    valid = _valid(losses.shape, lengths)
    if lengths is not None:
        dy[~valid] = 0
        losses = losses[valid]
    if not losses.size:
        return LossValue(0.0, np.zeros_like(dy), 0)
    return LossValue(float(losses.mean(dtype=np.float64)), dy / losses.size, losses.size)


def _valid(shape: tuple[int, ...], lengths: Any) -> Array:
    """Which steps count: [N, T], or all of them without lengths."""
    if lengths is None:
        return np.ones(shape, np.bool_)
    if len(shape) < 2:
        raise ArgumentError(f"lengths were given, but the targets {list(shape)} have no time axis")
    return valid_of(lengths, *shape[:2])


def _check_scores(what: str, y: Any, target: Any, kinds: str) -> None:
    """Targets are "f", numbers in the form of y, or "iu", whole numbers without its last axis."""
    if not isinstance(y, np.ndarray) or y.dtype.kind != "f" or not y.ndim:
        raise ArgumentError(f"{what} was given a y that is {said(y)}; it takes what a model gives, float32 or float64")
    shape = y.shape[:-1] if kinds == "iu" else y.shape
    fits = isinstance(target, np.ndarray) and target.shape == shape and target.dtype.kind in kinds
    if not fits or (kinds == "f" and target.dtype != y.dtype):
        wanted = "whole numbers" if kinds == "iu" else str(y.dtype)
        given = f"{said(target)} for y {list(y.shape)}"
        raise ArgumentError(f"the target of {what} is {given}; it is {wanted} {list(shape)}")
