"""What a layer beside the recurrent ones is: `Module`, with the calls that rb.LSTM has. Knows no losses and no data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import ArgumentError
from rnnbridge.layers import Gradients
from rnnbridge.layers.gradients import ALL
from rnnbridge.layers.parameters import InPlace
from rnnbridge.training.arguments import said

Array = NDArray[Any]
Forward: TypeAlias = tuple[Any, Any, Any]


class Module(ABC):
    """A layer of a model: `forward` gives (y, state, tape), `backward` takes the tape and the gradient of y.

    Sequences are [N, T, .]: N sequences of a batch, T steps. To write one of your own, hand your arrays to `__init__`
    and write `forward` and `backward`.

    Attributes:
        keeps_time: whether y has the time axis that x has.
    """

    keeps_time = True

    def __init__(self, **arrays: Array) -> None:
        self._arrays = arrays

    @property
    def weights(self) -> InPlace:
        """Name -> array, writable in place until `freeze`."""
        return InPlace(self._arrays)

    def freeze(self) -> None:
        """Make the weights read-only: training leaves them as they are."""
        for array in self._arrays.values():
            array.flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        """With the names of what is frozen: NumPy's copies and unpickled arrays can be written to."""
        frozen = [name for name, array in self._arrays.items() if not array.flags.writeable]
        return {**vars(self), "_frozen": frozen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        frozen = state["_frozen"]
        vars(self).update((name, value) for name, value in state.items() if name != "_frozen")
        for name in frozen:
            self._arrays[name].flags.writeable = False

    def __call__(self, x: Any, state: Any = None, lengths: Any = None) -> tuple[Any, Any]:
        """Run: `forward` without the tape."""
        y, final, _ = self.forward(x, state, lengths)
        return y, final

    @abstractmethod
    def forward(self, x: Any, state: Any = None, lengths: Any = None, *, training: bool = False) -> Forward:
        """Run, and keep what `backward` needs.

        Args:
            x: of the batch.
            state: of layers that have one; None is zeros.
            lengths: [N] whole numbers 0..T; None is T everywhere.
            training: keep a tape.

        Returns:
            y, the state after the last valid step (None where there is none), and the tape, None without training.
        """

    @abstractmethod
    def backward(self, tape: Any, dy: Array, dstate: Any = None, *, want: Collection[str] = ALL) -> Gradients:
        """Gradients of a scalar, given its gradient of y.

        Args:
            tape: of a training `forward`.
            dy: in the form of y.
            dstate: of the final state, in its form; None is zeros.
            want: what to compute: any of "x", "state", "weights" and of the weights' names.
        """


def float_rows(what: str, x: Any, features: int, dtype: np.dtype[Any]) -> Array:
    """x [..., features] as rows [., features].

    Raises:
        ArgumentError: another dtype or number of features, naming what was called.
    """
    if not isinstance(x, np.ndarray) or x.dtype != dtype or x.ndim < 2 or x.shape[-1] != features:
        raise ArgumentError(f"{what} was given {said(x)}; it takes {dtype} [N, ..., {features}]")
    return x.reshape(-1, features)


def check_tape(what: str, tape: Any) -> None:
    """Raise ArgumentError if there is no tape."""
    if tape is None:
        raise ArgumentError(f"{what} has no tape; it is what forward(..., training=True) returned last")
