"""Between the caller's sequences and the engine's [T, N, .]: order of axes, no batch axis, masks, padding, merging.

Knows no cell and no memory but that of the sequences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import ArgumentError
from rnnbridge.layers import padding as pad
from rnnbridge.layers.arguments import (
    array_of,
    kind_problem,
    plain_rows,
    read_lengths,
    read_mask,
    shape_problem,
)
from rnnbridge.spec import RNNSpec

Array = NDArray[Any]
Output = Array | tuple[Array, Array]


class Sequences:
    """One call's sequences, in one array: [T, N, .], [N, T, .] or [T, .].

    Args:
        spec: what the layer is.
        x: read (`read_sequence`).
        batch_first: whether three axes are [N, T, .].
        lengths, mask, padding: as `Layer.forward` takes them.

    Attributes:
        T, N: the engine's.
        batched: whether states have a batch axis.
        lengths: int64 [N] for the engine, or None.
        views: whether what enters is a view, so that a gradient can be written through it.

    Raises:
        ArgumentError: lengths, mask or padding do not fit.
    """

    def __init__(
        self, spec: RNNSpec, x: Array, batch_first: bool, lengths: Any = None, mask: Any = None, padding: str = "zero"
    ) -> None:
        _check_padding(padding, spec)
        self.batched, self._spec, self._dtype, self._padding = x.ndim == 3, spec, x.dtype, padding
        self._turned = batch_first and self.batched
        self.T, self.N = self._axes(x).shape[:2]
        self._order: Array | None = None
        if mask is None:
            self.lengths = read_lengths(lengths, self.N)
            self._valid = None if self.lengths is None else pad.valid_steps(self.lengths, self.T)
        else:
            if lengths is not None:
                raise ArgumentError("lengths and mask were both given; they say the same thing, so give one")
            letters = ("NT" if batch_first else "TN") if self.batched else "T"
            self._valid = self._axes(read_mask(mask, letters, x.shape[:-1])[..., None])[..., 0]
            self._order = pad.valid_first(self._valid)
            self.lengths = self._valid.sum(axis=0, dtype=np.int64)
        self.views = mask is None

    def enter(self, x: Array) -> Array:
        """The caller's x as the engine's [T, N, I]."""
        turned = self._axes(x)
        return turned if self._order is None else pad.gather(turned, self._order)

    def empty(self, width: int) -> Array:
        """[T, N, width] in the caller's memory order, for what will leave."""
        axes = (self.N, self.T) if self._turned else (self.T, self.N)
        array = np.empty((*axes, width), self._dtype)
        return array.swapaxes(0, 1) if self._turned else array

    def leave(self, y: Array) -> Output:
        """What the caller gets for the engine's y, which may be written to."""
        if self._order is not None:
            y = self._processed(pad.scatter(self._processed(y), self._order))
        if self._padding == "repeat" and self._valid is not None:
            pad.repeat_last(*self._in_processing_order(y, self._valid))
        y = self._back(y)
        H = self._spec.hidden_size
        return (y[..., :H], y[..., H:]) if self._spec.merge == "none" else y

    def enter_gradient(self, dy: Any) -> Array | None:
        """The engine's dy for the gradient of what left.

        Raises:
            ArgumentError: it does not have the form and dtype of what left.
        """
        if dy is None:
            return None
        turned = self._axes(self._joined(dy) if self._spec.merge == "none" else self.read("dy", dy))
        if self._padding == "repeat" and self._valid is not None:
            back, valid = self._in_processing_order(turned, self._valid)
            turned = self._in_processing_order(pad.fold_repeated(back, valid), valid)[0]
        return turned if self._order is None else self._processed(pad.gather(self._processed(turned), self._order))

    def leave_gradient(self, dx: Array) -> Array:
        """What the caller gets for the engine's dx, in the form of x."""
        return self._back(dx if self._order is None else pad.scatter(dx, self._order))

    def read(self, name: str, given: Any, width: int | None = None) -> Array:
        """An array in the form of the caller's sequences, with so many features; None is those of y.

        Raises:
            ArgumentError: it has another shape or dtype.
        """
        array = array_of(name, given)
        axes = (self.T, self.N) if self.batched else (self.T,)
        shape = (*(axes[::-1] if self._turned else axes), self._spec.output_size if width is None else width)
        if problem := kind_problem(name, array, self._dtype) or shape_problem(name, array, shape):
            raise ArgumentError(problem)
        return plain_rows(array)

    def _joined(self, dy: Any) -> Array:
        """The gradients of the two directions' outputs side by side; None is zeros."""
        if not isinstance(dy, tuple | list) or len(dy) != 2:
            raise ArgumentError(f"dy is a {type(dy).__name__}; it is the pair (dy_forward, dy_backward), as y is")
        H = self._spec.hidden_size
        joined = np.zeros_like(self._back(self.empty(2 * H)))
        for part, into in zip(dy, (joined[..., :H], joined[..., H:]), strict=True):
            if part is not None:
                into[...] = self.read("dy", part, H)
        return joined

    def _axes(self, array: Array) -> Array:
        """The caller's axes -> [T, N, .]; a view."""
        if not self.batched:
            return array[:, None]
        return array.swapaxes(0, 1) if self._turned else array

    def _back(self, array: Array) -> Array:
        """The reverse of `_axes`."""
        if not self.batched:
            return array[:, 0]
        return array.swapaxes(0, 1) if self._turned else array

    def _processed(self, y: Array) -> Array:
        """y by step of the input -> in the layer's output order, and back."""
        return y[::-1] if self._spec.output_order == "processing" else y

    def _in_processing_order(self, y: Array, valid: Array) -> tuple[Array, Array]:
        backwards = self._spec.direction == "reverse"
        flip_y = backwards and self._spec.output_order == "input"
        return y[::-1] if flip_y else y, valid[::-1] if backwards else valid


def _check_padding(padding: str, spec: RNNSpec) -> None:
    if padding not in ("zero", "repeat"):
        raise ArgumentError(f"padding is {padding!r}; it is 'zero' or 'repeat'")
    if padding == "repeat" and spec.num_directions == 2:
        raise ArgumentError(
            "padding='repeat' needs one direction: with two there is no single step before. Keras's Bidirectional "
            "puts zeros there too; leave padding out"
        )
