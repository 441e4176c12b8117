"""A runnable layer: weights that it owns, and the ways to run them. Knows the canonical form and the engine only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine import Plan, borrowed
from rnnbridge.engine.arguments import whole
from rnnbridge.engine.plan import refuse_training
from rnnbridge.errors import ArgumentError
from rnnbridge.layers import padding as pad
from rnnbridge.layers.arguments import State, read_dropout, read_lengths, read_mask, read_sequence, read_state
from rnnbridge.layers.stream import Stream
from rnnbridge.weights import RNNWeights, describe

Array = NDArray[Any]
Output = Array | tuple[Array, Array]


class Layer:
    """A stack of equal recurrent layers on the engine. `rb.layer`, `rb.LSTM`, `rb.GRU` and `rb.RNN` make one.

    Letters: T time, N batch, I input size, H hidden size, L layers, D directions. Sequences are [T, N, .], or [N, T, .]
    with batch_first; without the batch axis they are one sequence [T, I], and then states are [L*D, H].

    States are h [L*D, N, H], and the pair (h, c) for an LSTM; the row of layer l and direction d is l*D + d.

    Attributes:
        spec: what the layer is.
        origin: where its weights come from.
        dtype: float32 or float64, of the weights and of every array that goes in or out.
        batch_first: whether sequences are [N, T, .].
        dropout: between layers, in training only; no effect on what this version runs.
    """

    def __init__(self, weights: RNNWeights, *, batch_first: bool = False, dropout: float = 0.0) -> None:
        self.spec, self.origin, self.dtype = weights.spec, weights.origin, weights.dtype
        self.batch_first, self.dropout = batch_first, read_dropout(dropout)
        self._weights = {name: array.copy() for name, array in weights.arrays.items()}
        self._plan = self._packer = Plan(self.spec, T=1, N=1, dtype=self.dtype)
        self._packed: Array | None = None

    @property
    def weights(self) -> Mapping[str, Array]:
        """Name -> array, PyTorch's names and shapes as in `RNNWeights`. Writable in place until `freeze`."""
        return MappingProxyType(self._weights)

    def to_weights(self) -> RNNWeights:
        """A copy of the weights as they are now, to be saved or converted: `rb.save(layer, path)` takes it so too."""
        return RNNWeights(self.spec, self._weights, self.origin)

    @property
    def frozen(self) -> bool:
        """Whether the weights can no longer change."""
        return self._packed is not None

    def freeze(self) -> None:
        """Make the weights read-only and pack them once; from then on several threads may call the layer at once."""
        for array in self._weights.values():
            array.flags.writeable = False
        if self._packed is None:
            self._packed = self._packer.pack(self._weights)

    def __call__(
        self,
        x: Array,
        state: State | None = None,
        lengths: Any = None,
        *,
        mask: Array | None = None,
        padding: str = "zero",
        threads: int | None = None,
    ) -> tuple[Output, State]:
        """Run whole sequences: `forward` without the tape."""
        y, final, _ = self.forward(x, state, lengths, mask=mask, padding=padding, threads=threads)
        return y, final

    def forward(
        self,
        x: Array,
        state: State | None = None,
        lengths: Any = None,
        *,
        mask: Array | None = None,
        padding: str = "zero",
        training: bool = False,
        threads: int | None = None,
    ) -> tuple[Output, State, None]:
        """Run whole sequences.

        Args:
            x: [T, N, I], or [N, T, I] with batch_first, or [T, I]; any strides; not read past a length.
            state: the initial state; None is zeros.
            lengths: [N] whole numbers 0..T in any order; None is T everywhere. The reverse direction starts at a
                sequence's last valid step.
            mask: instead of lengths, bool [T, N] in the order of x (or [T]): only steps that are True are run.
            padding: what y holds where there is no valid step: "zero", or "repeat" for the output of the step before,
                as Keras has it without `zero_output_for_mask` (one direction only).
            training: this version runs forward only, so True is an error.
            threads: at most so many; None is `get_num_threads()`. The bits do not depend on it.

        Returns:
            y: [T, N, D*H] in the order of x ([T, N, H] with merge "sum", "mul", "ave"); with merge "none" the pair
                (forward, backward).
            state: the state after each sequence's last valid step; the initial one where there is none.
            tape: None, as nothing can be trained yet.

        Raises:
            ArgumentError: saying what was given and what is accepted.
        """
        refuse_training(training)
        x = read_sequence("x", x, "NTI" if self.batch_first else "TNI", self.spec, self.dtype)
        batched = x.ndim == 3
        sequence = self._turn(x) if batched else x[:, None]
        T, N = sequence.shape[:2]
        initial = read_state(state, self.spec, N, self.dtype, batched)
        self._check_padding(padding)
        if mask is None:
            steps = read_lengths(lengths, N)
            y, final = self._run(sequence, initial, steps, threads)
            valid = None if steps is None else pad.valid_steps(steps, T)
        else:
            valid = self._read_mask(mask, lengths, x)
            y, final = self._run_masked(sequence, initial, valid, threads)
        if padding == "repeat" and valid is not None:
            self._repeat_last(y, valid)
        return self._halves(self._turn(y) if batched else y[:, 0]), self._state(final, batched), None

    def step(self, x_t: Array, state: State | None = None, *, threads: int | None = None) -> tuple[Array, State]:
        """One step of streaming. `stream` does the same in fixed buffers, faster.

        Args:
            x_t: [N, I], or [I].
            state: the state after the step before; None is zeros.

        Returns:
            y_t [N, H] (or [H]) and the state after the step.

        Raises:
            ArgumentError: the layer is not direction="forward", or an argument does not fit.
        """
        self._check_steps("step")
        x_t = read_sequence("x_t", x_t, "NI", self.spec, self.dtype)
        batched = x_t.ndim == 2
        sequence = x_t[None] if batched else x_t[None, None]
        initial = read_state(state, self.spec, sequence.shape[1], self.dtype, batched)
        y, final = self._run(sequence, initial, None, threads)
        return y[0] if batched else y[0, 0], self._state(final, batched)

    def stream(self, N: int, *, threads: int | None = None) -> Stream:
        """Step-by-step running in fixed buffers for a batch of N; packs the weights as they are now.

        Raises:
            ArgumentError: the layer is not direction="forward", or N < 1.
        """
        self._check_steps("stream")
        packed = self._packer.pack(self._weights) if self._packed is None else self._packed
        return Stream(Plan(self.spec, T=1, N=whole("N", N, least=1), dtype=self.dtype), packed, threads)

    def __getstate__(self) -> dict[str, Any]:
        """What pickle and copy keep: weights and options, no plan and no packed weights."""
        weights = RNNWeights(self.spec, self._weights, self.origin)
        options = {"batch_first": self.batch_first, "dropout": self.dropout}
        return {"weights": weights, "options": options, "frozen": self.frozen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Layer.__init__(self, state["weights"], **state["options"])
        if state["frozen"]:
            self.freeze()

    def __repr__(self) -> str:
        order = "[N, T, I]" if self.batch_first else "[T, N, I]"
        notes = f", dropout {self.dropout}" * (self.dropout > 0) + ", frozen" * self.frozen
        return f"<{describe(self.spec)}, {self.dtype}, x {order}{notes}>"

    def _run(
        self, x: Array, initial: tuple[Array | None, Array | None], lengths: Array | None, threads: int | None
    ) -> tuple[Array, tuple[Array, Array | None]]:
        """x [T, N, I] -> y [T, N, output_size] in the caller's memory order, (h, c)."""
        T, N = x.shape[:2]
        plan = self._plan
        if (plan.T, plan.N) != (T, N):
            plan = self._plan = Plan(self.spec, T, N, dtype=self.dtype)
        y = self._turn(np.empty((*self._turn(x).shape[:2], self.spec.output_size), self.dtype))
        hn = np.empty(plan.state_shape, self.dtype)
        cn = np.empty_like(hn) if self.spec.has_cell_state else None
        packed = self._packed
        with borrowed(plan.workspace_nbytes, 0 if packed is not None else plan.packed_nbytes) as (workspace, scratch):
            if packed is None:
                packed = plan.pack(self._weights, out=scratch)
            h0, c0 = initial
            memory = {"y": y, "lengths": lengths, "h0": h0, "c0": c0, "hn": hn, "cn": cn}
            plan.forward(x, packed=packed, workspace=workspace, threads=threads, **memory)
        return y, (hn, cn)

    def _run_masked(
        self, x: Array, initial: tuple[Array | None, Array | None], valid: Array, threads: int | None
    ) -> tuple[Array, tuple[Array, Array | None]]:
        order = pad.valid_first(valid)
        y, final = self._run(pad.gather(x, order), initial, valid.sum(axis=0, dtype=np.int64), threads)
        if self.spec.output_order == "processing":
            return pad.scatter(y[::-1], order)[::-1], final
        return pad.scatter(y, order), final

    def _repeat_last(self, y: Array, valid: Array) -> None:
        backwards = self.spec.direction == "reverse"
        flip_y = backwards and self.spec.output_order == "input"
        pad.repeat_last(y[::-1] if flip_y else y, valid[::-1] if backwards else valid)

    def _turn(self, array: Array) -> Array:
        """Between the caller's order and [T, N, .]; a view."""
        return array.swapaxes(0, 1) if self.batch_first else array

    def _halves(self, y: Array) -> Output:
        if self.spec.merge != "none":
            return y
        H = self.spec.hidden_size
        return y[..., :H], y[..., H:]

    def _state(self, final: tuple[Array, Array | None], batched: bool) -> State:
        h, c = (part if batched or part is None else part[:, 0] for part in final)
        assert h is not None
        return h if c is None else (h, c)

    def _read_mask(self, mask: Array, lengths: Any, x: Array) -> Array:
        if lengths is not None:
            raise ArgumentError("lengths and mask were both given; they say the same thing, so give one")
        if x.ndim == 2:
            return read_mask(mask, "T", x.shape[:1])[:, None]
        return self._turn(read_mask(mask, "NT" if self.batch_first else "TN", x.shape[:2]))

    def _check_padding(self, padding: str) -> None:
        if padding not in ("zero", "repeat"):
            raise ArgumentError(f"padding is {padding!r}; it is 'zero' or 'repeat'")
        if padding == "repeat" and self.spec.num_directions == 2:
            raise ArgumentError(
                "padding='repeat' needs one direction: with two there is no single step before. Keras's Bidirectional "
                "puts zeros there too; leave padding out"
            )

    def _check_steps(self, how: str) -> None:
        if self.spec.direction != "forward":
            raise ArgumentError(
                f"{how} runs forward in time, and this layer is {self.spec.direction}: its first output needs the last "
                "input. Run whole sequences: net(x)"
            )
