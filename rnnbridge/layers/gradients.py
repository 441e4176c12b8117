"""What a backward gives, and which of it is asked for: `Gradients`. Knows no cell and no sequences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import ArgumentError
from rnnbridge.spec import RNNSpec

Array = NDArray[Any]
Shape = tuple[int, ...]
ALL = ("x", "state", "weights")


@dataclass
class Gradients:
    """Gradients of one scalar.

    Args:
        x: in the form of x; None if not asked for.
        state: of the initial state, in the form of the state; None if not asked for.
        weights: name -> array, of the weights' shapes; those that were asked for.
    """

    x: Any = None
    state: Any = None
    weights: Mapping[str, Array] = field(default_factory=dict)

    def given(self) -> bool:
        """Whether there is an array."""
        return self.x is not None or self.state is not None or bool(self.weights)


def read_want(want: Iterable[str] | str, names: Collection[str]) -> tuple[bool, bool, list[str]]:
    """Whether x, whether the state, and which of the named weights: from "x", "state", "weights" and names.

    Raises:
        ArgumentError: a word that is none of them.
    """
    known = ", ".join(map(repr, ALL))
    if not isinstance(want, Iterable):
        raise ArgumentError(f"want is {want!r}; it is any of {known} and of the weights' names")
    words = [want] if isinstance(want, str) else list(want)
    if unknown := [word for word in words if word not in (*ALL, *names)]:
        raise ArgumentError(f"want has {', '.join(map(repr, unknown))}; it is any of {known} and of the weights' names")
    return "x" in words, "state" in words, [name for name in names if "weights" in words or name in words]


def check_into(into: Gradients, spec: RNNSpec) -> None:
    """
    Raises:
        ArgumentError: the arrays of weights are not by name, or have the name of none.
    """
    names = spec.weight_shapes()
    if not isinstance(into.weights, Mapping):
        raise ArgumentError(f"into's weights is a {type(into.weights).__name__}; it is a mapping of names to arrays")
    if unknown := [name for name in into.weights if name not in names]:
        raise ArgumentError(f"into has {', '.join(map(repr, unknown))}; the weights are {', '.join(names)}")


def check_apart(written: Mapping[str, Array | None], read: Mapping[str, Array | None]) -> None:
    """
    Raises:
        ArgumentError: an array that is written to shares memory with another one, or with one that is read.
    """
    outputs = [(name, array) for name, array in written.items() if array is not None]
    for place, (name, array) in enumerate(outputs):
        others = outputs[:place] + [(other, given) for other, given in read.items() if given is not None]
        for other, given in others:
            if np.may_share_memory(array, given) and np.shares_memory(array, given):
                raise ArgumentError(f"into's {name} shares memory with {other}; it is written while that is in use")


def target(name: str, given: Any, shape: Shape, dtype: np.dtype[Any], accumulate: bool) -> Array:
    """The array that a gradient is written or added to: the caller's, else a new one.

    Raises:
        ArgumentError: the caller's is not a writable array of this shape and dtype, C-contiguous.
    """
    if given is None:
        return np.zeros(shape, dtype) if accumulate else np.empty(shape, dtype)
    fits = isinstance(given, np.ndarray) and given.shape == shape and given.dtype == dtype
    if not fits or not (given.flags.c_contiguous and given.flags.writeable and given.flags.aligned):
        said = f"{given.dtype} {list(given.shape)}" if isinstance(given, np.ndarray) else f"a {type(given).__name__}"
        raise ArgumentError(f"into's {name} is {said}; it is a writable, C-contiguous {dtype} {list(shape)}")
    array: Array = given
    return array
