"""Running a layer step by step in fixed buffers: nothing is allocated in a step. Knows plans, not layers.

`Stream` goes on from its own state; `Step` takes a state and gives the next, on streams that it keeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine import Plan, aligned_empty
from rnnbridge.errors import ArgumentError
from rnnbridge.layers.arguments import State, read_state
from rnnbridge.layers.parameters import Parameters

Array = NDArray[Any]


class Stream:
    """A layer with a state of its own, fed one step at a time. `Layer.stream` makes one.

    It runs the weights as they were when it was made, and gives the same bits as one call with the whole sequence. Not
    to be called from several threads at once: make one stream for each.
    """

    def __init__(self, plan: Plan, packed: Array, threads: int | None = None) -> None:
        self._plan = plan
        self._x = np.empty((1, plan.N, plan.spec.input_size), plan.dtype)
        self._y = np.empty((1, plan.N, plan.spec.output_size), plan.dtype)
        self._h = np.zeros(plan.state_shape, plan.dtype)
        self._c = np.zeros_like(self._h) if plan.spec.has_cell_state else None
        self._step = plan.bind(
            self._x,
            y=self._y,
            packed=packed,
            workspace=aligned_empty(plan.workspace_nbytes),
            h0=self._h,
            hn=self._h,
            c0=self._c,
            cn=self._c,
            threads=threads,
        )
        self._x_t: Array = self._x[0]
        self._y_t: Array = self._y[0]
        self._y_t.flags.writeable = False

    def __call__(self, x_t: Array) -> Array:
        """Run one step.

        Args:
            x_t: [N, I] of the layer's dtype, any strides.

        Returns:
            y_t [N, H], read-only and the same memory every time: the next step overwrites it. Copy what you keep.

        Raises:
            ArgumentError: x_t has another shape or dtype.
        """
        if not isinstance(x_t, np.ndarray) or x_t.shape != self._x_t.shape or x_t.dtype != self._x_t.dtype:
            given = f"{x_t.dtype} {list(x_t.shape)}" if isinstance(x_t, np.ndarray) else f"a {type(x_t).__name__}"
            raise ArgumentError(f"x_t is {given}; it is {self._x_t.dtype} [N, I] = {list(self._x_t.shape)}")
        self._x_t[...] = x_t
        self._step()
        return self._y_t

    @property
    def state(self) -> State:
        """A copy of the state after the last step: h [L, N, H], or (h, c) for an LSTM."""
        h, c = self.end()
        return h if c is None else (h, c)

    def reset(self, state: State | None = None) -> None:
        """Start anew from a state, zeros if None.

        Raises:
            ArgumentError: the state does not fit.
        """
        self.begin(*read_state(state, self._plan.spec, self._plan.N, self._plan.dtype, batched=True))

    def begin(self, h: Array | None, c: Array | None) -> None:
        """Start anew from a state that was read; None is zeros."""
        self._h[...] = 0 if h is None else h
        if self._c is not None:
            self._c[...] = 0 if c is None else c

    def end(self) -> tuple[Array, Array | None]:
        """Copies of h and c after the last step."""
        return self._h.copy(), None if self._c is None else self._c.copy()

    def __repr__(self) -> str:
        return f"<Stream x_t {list(self._x_t.shape)} -> y_t {list(self._y_t.shape)}, {self._plan.dtype}>"


class Step:
    """Single steps that bring their state along, from any number of threads if the weights are frozen."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        # A call takes a stream off the list and puts it back, so that no two share one (as in engine.memory).
        self._free: list[tuple[tuple[int, int | None, bool], Stream, Array]] = []

    def __call__(
        self, x_t: Array, h: Array | None, c: Array | None, threads: int | None
    ) -> tuple[Array, Array, Array | None]:
        """y_t [N, H], h and c after x_t [N, I]; all were read."""
        key = (len(x_t), threads, self._parameters.packed is None)
        stream, packed = self._taken(key)
        self._parameters.pack(out=packed)
        stream.begin(h, c)
        y_t = stream(x_t).copy()
        result = y_t, *stream.end()
        self._free.append((key, stream, packed))
        return result

    def _taken(self, key: tuple[int, int | None, bool]) -> tuple[Stream, Array]:
        """A free stream for the key, with what it has its weights in; the last one, or a new one in its place."""
        try:
            of, stream, packed = self._free.pop()
        except IndexError:
            of = None
        if of != key:
            packed = self._parameters.pack()
            stream = Stream(Plan(self._parameters.spec, 1, key[0], dtype=self._parameters.dtype), packed, key[1])
        return stream, packed
