"""A runnable layer: weights that it owns, and the ways to run and train it. Knows the canonical form and the engine."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine import Dropout, Plan, borrowed
from rnnbridge.engine.arguments import whole
from rnnbridge.errors import ArgumentError
from rnnbridge.layers.arguments import State, read_dropout, read_sequence, read_state
from rnnbridge.layers.gradients import ALL, Gradients
from rnnbridge.layers.packed import Packed, read_packed
from rnnbridge.layers.parameters import InPlace, Parameters
from rnnbridge.layers.sequences import Sequences
from rnnbridge.layers.stream import Step, Stream
from rnnbridge.layers.tape import Tape
from rnnbridge.layers.training import run_backward, run_forward
from rnnbridge.weights import RNNWeights, describe

Array = NDArray[Any]


class Layer:
    """A stack of equal recurrent layers on the engine. `rb.layer`, `rb.LSTM`, `rb.GRU` and `rb.RNN` make one.

    Letters: T time, N batch, I input size, H hidden size, L layers, D directions. Sequences are [T, N, .], or [N, T, .]
    with batch_first; without the batch axis they are one sequence [T, I], and then states are [L*D, H]. Arrays of other
    libraries that lie in this machine's memory (`__array__`, `__dlpack__`) are read in place.

    States are h [L*D, N, H], and the pair (h, c) for an LSTM; the row of layer l and direction d is l*D + d.

    Attributes:
        spec: what the layer is.
        origin: where its weights come from.
        dtype: float32 or float64, of the weights and of every array that goes in or out.
        batch_first: whether sequences are [N, T, .].
        dropout: the part of the features dropped between layers, in training only.
        dropout_seed, dropout_offset: which they are (`rnnbridge.engine.Dropout`). The offset rises by one with every
            training call; both may be set, and go with the layer into copies and pickles.
    """

    def __init__(
        self, weights: RNNWeights, *, batch_first: bool = False, dropout: float = 0.0, seed: int | None = None
    ) -> None:
        self.spec, self.origin, self.dtype = weights.spec, weights.origin, weights.dtype
        self.batch_first, self.dropout = batch_first, read_dropout(dropout, self.spec.num_layers)
        self.dropout_offset, self._counting = 0, Lock()
        drawn = np.random.SeedSequence().generate_state(1, np.uint64)[0] if seed is None else seed
        self.dropout_seed = whole("seed", drawn, least=0, most=2**64 - 1)
        self._parameters = Parameters(weights)
        self._planned: tuple[Any, Plan | None] = (None, None)
        self._step = Step(self._parameters)

    @property
    def weights(self) -> InPlace:
        """Name -> array, PyTorch's names and shapes as in `RNNWeights`. Writable in place until `freeze`."""
        return InPlace(self._parameters.arrays)

    def to_weights(self) -> RNNWeights:
        """A copy of the weights as they are now, to be saved or converted: `rb.save(layer, path)` takes it so too."""
        return RNNWeights(self.spec, self.weights, self.origin)

    @property
    def frozen(self) -> bool:
        """Whether the weights can no longer change."""
        return self._parameters.packed is not None

    def freeze(self) -> None:
        """Make the weights read-only and pack them once; from then on several threads may call the layer at once."""
        self._parameters.freeze()

    def __call__(
        self,
        x: Any,
        state: State | None = None,
        lengths: Any = None,
        *,
        mask: Array | None = None,
        padding: str = "zero",
        threads: int | None = None,
    ) -> tuple[Any, Any]:
        """Run whole sequences: `forward` without the tape."""
        y, final, _ = self.forward(x, state, lengths, mask=mask, padding=padding, threads=threads)
        return y, final

    def forward(
        self,
        x: Any,
        state: State | None = None,
        lengths: Any = None,
        *,
        mask: Array | None = None,
        padding: str = "zero",
        training: bool = False,
        recompute: bool = False,
        threads: int | None = None,
    ) -> tuple[Any, Any, Tape | None]:
        """Run whole sequences.

        Args:
            x: [T, N, I], or [N, T, I] with batch_first, or [T, I]; any strides; not read past a length. Or packed rows:
                a pair (data, batch_sizes) or a PyTorch PackedSequence, which have lengths of their own.
            state: the initial state; None is zeros.
            lengths: [N] whole numbers 0..T in any order; None is T everywhere. The reverse direction starts at a
                sequence's last valid step.
            mask: instead of lengths, bool [T, N] in the order of x (or [T]): only steps that are True are run.
            padding: what y holds where there is no valid step: "zero", or "repeat" for the output of the step before,
                as Keras has it without `zero_output_for_mask` (one direction only).
            training: keep a tape for `backward`, and drop features between layers.
            recompute: with training, a tape of the states at a few steps alone (and of inner outputs, if
                bidirectional); backward runs forward once more. It saves memory where T * N is some thousands, and
                costs some below: its workspace holds what about 512 rows of steps need.
            threads: at most so many; None is `get_num_threads()`. The bits do not depend on it.

        Returns:
            y: [T, N, D*H] in the order of x ([T, N, H] with merge "sum", "mul", "ave"); with merge "none" the pair
                (forward, backward); of packed rows `PackedRows`. Read-only while its tape lives.
            state: the state after each sequence's last valid step; the initial one where there is none.
            tape: None without training. It refers to x and the initial state: leave them as they are until backward.

        Raises:
            ArgumentError: saying what was given and what is accepted.
        """
        form, sequence = self._read(x, lengths, mask, padding)
        h0, c0 = read_state(state, self.spec, form.N, self.dtype, form.batched)
        plan = self._plan_for(form.T, form.N, training, recompute)
        y, hn = form.empty(self.spec.output_size), np.empty(plan.state_shape, self.dtype)
        cn = np.empty_like(hn) if self.spec.has_cell_state else None
        tape = Tape(plan, self._parameters, form, x=sequence, y=y, h0=h0, c0=c0) if training else None
        if tape is not None:
            run_forward(tape, hn, cn, self._next_dropout(), threads)
        else:
            self._evaluate(plan, threads, x=sequence, y=y, lengths=form.lengths, h0=h0, c0=c0, hn=hn, cn=cn)
        result = form.leave(y)
        if tape is not None:
            tape.lock(result)
        return result, _state(hn, cn, form.batched), tape

    def backward(
        self,
        tape: Tape,
        dy: Any = None,
        dstate: Any = None,
        *,
        want: Iterable[str] | str = ALL,
        into: Gradients | None = None,
        accumulate: bool = False,
        threads: int | None = None,
    ) -> Gradients:
        """Gradients of a scalar, given its gradients of what a training `forward` returned.

        May run any number of times on one tape and gives the same bits.

        Args:
            tape: of this layer, whose weights are still those of that forward.
            dy: in the form and dtype of y; not read past a length. None is zeros.
            dstate: in the form of the state; None, for one of a pair too, is zeros.
            want: what to compute: any of "x", "state", "weights" and of the weights' names.
            into: arrays to write to instead of new ones, each None or left out where there is none; those that are not
                asked for stay as they are. None may share memory with another, or with what is read.
            accumulate: add to the arrays of `into`.
            threads: at most so many; None is `get_num_threads()`. The bits do not depend on it.

        Returns:
            Gradients: `x` in the form of x, exactly zero where there was no valid step; `state` in the form of the
            state; `weights` by the weights' names. The arrays of `into` where they were given.

        Raises:
            ArgumentError: saying what does not fit: another layer's tape, weights that were written to since, ...
        """
        if not isinstance(tape, Tape):
            raise ArgumentError(
                f"tape is a {type(tape).__name__}; it is what forward(..., training=True) returned last"
            )
        if tape.parameters is not self._parameters:
            raise ArgumentError("the tape is another layer's; each layer's backward takes the tapes of its own forward")
        return run_backward(tape, dy, dstate, want=want, into=into, accumulate=accumulate, threads=threads)

    def step(self, x_t: Any, state: State | None = None, *, threads: int | None = None) -> tuple[Array, State]:
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
        x_t = x_t if batched else x_t[None]
        y, h, c = self._step(x_t, *read_state(state, self.spec, len(x_t), self.dtype, batched), threads)
        return y if batched else y[0], _state(h, c, batched)

    def stream(self, N: int, *, threads: int | None = None) -> Stream:
        """Step-by-step running in fixed buffers for a batch of N; packs the weights as they are now.

        Raises:
            ArgumentError: the layer is not direction="forward", or N < 1.
        """
        self._check_steps("stream")
        plan = Plan(self.spec, T=1, N=whole("N", N, least=1), dtype=self.dtype)
        return Stream(plan, self._parameters.pack(), threads)

    def __repr__(self) -> str:
        order = "[N, T, I]" if self.batch_first else "[T, N, I]"
        notes = f", dropout {self.dropout}" * (self.dropout > 0) + ", frozen" * self.frozen
        return f"<{describe(self.spec)}, {self.dtype}, x {order}{notes}>"

    def __getstate__(self) -> dict[str, Any]:
        """What pickle and copy keep: weights and options, no plan and no packed weights."""
        options = {"batch_first": self.batch_first, "dropout": self.dropout, "seed": self.dropout_seed}
        return {"weights": self.to_weights(), "options": options, "offset": self.dropout_offset, "frozen": self.frozen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Layer.__init__(self, state["weights"], **state["options"])
        self.dropout_offset = state["offset"]
        if state["frozen"]:
            self.freeze()

    def _read(self, x: Any, lengths: Any, mask: Any, padding: str) -> tuple[Sequences | Packed, Array]:
        """How the caller gives sequences, and the engine's x [T, N, I]."""
        if isinstance(x, tuple):
            if lengths is not None or mask is not None or padding != "zero":
                raise ArgumentError("packed rows have no padding and lengths of their own: give no lengths or mask")
            rows = read_packed(x)
            packed = Packed(self.spec, rows, self.dtype)
            return packed, packed.enter(rows)
        x = read_sequence("x", x, "NTI" if self.batch_first else "TNI", self.spec, self.dtype)
        form = Sequences(self.spec, x, self.batch_first, lengths, mask, padding)
        return form, form.enter(x)

    def _plan_for(self, T: int, N: int, training: bool = False, recompute: bool = False) -> Plan:
        """The last plan, if it is for the same sizes and use."""
        key, plan = self._planned
        if plan is None or key != (T, N, training, recompute):
            plan = Plan(self.spec, T, N, training=training, dtype=self.dtype, recompute=recompute)
            self._planned = ((T, N, training, recompute), plan)
        return plan

    def _evaluate(self, plan: Plan, threads: int | None, **arrays: Any) -> None:
        with self._parameters.evaluated() as packed, borrowed(plan.workspace_nbytes) as (workspace,):
            plan.forward(**arrays, packed=packed, workspace=workspace, threads=threads)

    def _next_dropout(self) -> Dropout:
        """The dropout of a training call; the call after it drops others."""
        with self._counting:
            offset, self.dropout_offset = self.dropout_offset, (self.dropout_offset + 1) % 2**32
        return Dropout(p=self.dropout, seed=self.dropout_seed, offset=offset)

    def _check_steps(self, how: str) -> None:
        if self.spec.direction != "forward":
            raise ArgumentError(
                f"{how} runs forward in time, and this layer is {self.spec.direction}: its first output needs the last "
                "input. Run whole sequences: net(x)"
            )


def _state(h: Array, c: Array | None, batched: bool) -> State:
    h = h if batched else h[:, 0]
    return h if c is None else (h, c if batched else c[:, 0])
