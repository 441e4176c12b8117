"""`LSTM`, `GRU` and `RNN`: PyTorch's own modules with another forward. Knows the operator, no plan."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from rnnbridge.adapters.pytorch.errors import check_tensors, notice, refuse_transforms, under_vmap, unsupported
from rnnbridge.adapters.pytorch.ops import rnn
from rnnbridge.errors import ArgumentError, SpecError


class OnEngine:
    """What a module of ours has in place of PyTorch's: how it runs, and what it cannot become.

    Stands before the PyTorch class that gives parameters, constructor and checks.
    """

    _has_cell_state = False
    dropout = 0.0  # a cell has none

    @property
    def _cell(self) -> str:
        """A name of `problem.CELLS`."""
        raise NotImplementedError

    def __prepare_scriptable__(self) -> Any:
        raise unsupported(self, "torch.jit.script compiles PyTorch's own module")

    @property
    def qconfig(self) -> Any:
        raise AttributeError("qconfig")

    @qconfig.setter
    def qconfig(self, value: Any) -> None:
        raise unsupported(self, "Quantisation (quantize_dynamic) replaces PyTorch's own module")

    def _states(self, hx: Any) -> tuple[Any, ...]:
        if hx is None:
            return ()
        states = tuple(hx) if self._has_cell_state else (hx,)
        if len(states) != 1 + self._has_cell_state:
            raise RuntimeError("lstm expects two hidden states")
        return states

    def _hx(self, states: tuple[Any, ...]) -> Any:
        return states if self._has_cell_state else states[0]

    def _operate(self, x: Any, states: tuple[Any, ...], weights: list[Any], lengths: Any, form: tuple[Any, ...]) -> Any:
        """y and the final states; form is `problem.Form`'s fields."""
        x, states = _cast(x, states, weights[0].dtype)
        check_tensors(self, x, states, weights)
        refuse_transforms(self, (x, *states, *weights))
        h0, c0 = (*states, None, None)[:2]
        drops = self.training and self.dropout > 0 and form[1] > 1  # type: ignore[attr-defined]
        seed = torch.randint(2**62, (2,)) if drops else None
        hidden = under_vmap()  # a tensor does not say there whether it wants a gradient
        learns = torch.is_grad_enabled() and (hidden or any(one.requires_grad for one in (x, *states, *weights)))
        y, hn, cn, _ = rnn(x, h0, c0, weights, lengths, seed, self.dropout, learns or drops, *form)
        return y, (hn, cn) if form[0] == "lstm" else (hn,)


class Stack(OnEngine):
    """A module of several layers and directions."""

    def forward(self: Any, input: Any, hx: Any = None, lengths: Any = None) -> Any:
        """As PyTorch's module, and with lengths.

        Args:
            input: [T, N, I], [N, T, I] if batch_first, [T, I] without a batch, or a PackedSequence.
            hx: h [L*D, N, H], or (h, c) of an LSTM; without N for an input without; None is zeros.
            lengths: whole numbers [N], each 0..T, in any order, beside a padded input: outputs are zero past them, the
                final state is the one at a sequence's last step, and nothing past it is read.

        Returns:
            y, in the form of input, and the final state, in the form of hx.
        """
        if self.proj_size > 0:
            return self._by_pytorch(input, hx, lengths)
        if isinstance(input, PackedSequence):
            return self._packed(input, hx, lengths)
        self._check_dimensions(input, hx)
        batch_axis, batched = 0 if self.batch_first else 1, input.dim() == 3
        states = self._states(hx)
        if not batched:
            input, states = input.unsqueeze(batch_axis), tuple(state.unsqueeze(1) for state in states)
        self._check(input, states, None)
        if input.shape[1 - batch_axis] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        y, states = self._run(input, states, _read_lengths(lengths, input.shape[batch_axis]), self.batch_first)
        if not batched:
            y, states = y.squeeze(batch_axis), tuple(state.squeeze(1) for state in states)
        return y, self._hx(states)

    def _packed(self: Any, input: PackedSequence, hx: Any, lengths: Any) -> Any:
        """Rows in the order of falling lengths, laid out as [T, N, .] for the engine."""
        if lengths is not None:
            raise ArgumentError("lengths was given with a PackedSequence, which has its own; give a padded input")
        data, sizes, order, back = input
        states = () if hx is None else self._states(self.permute_hidden(hx, order))
        self._check(data, states, sizes)
        padded, lengths = pad_packed_sequence(PackedSequence(data, sizes))
        y, states = self._run(padded, states, lengths, False)
        rows = pack_padded_sequence(y, lengths)
        return PackedSequence(rows.data, sizes, order, back), self.permute_hidden(self._hx(states), back)

    def _run(self: Any, input: Any, states: tuple[Any, ...], lengths: Any, batch_first: bool) -> Any:
        weights = [getattr(self, name) for name in self._flat_weights_names]
        form = (self._cell, self.num_layers, self.bidirectional, batch_first)
        return self._operate(input, states, weights, lengths, form)

    def _check(self: Any, input: Any, states: tuple[Any, ...], batch_sizes: Any) -> None:
        """PyTorch's own checks."""
        if states:
            self.check_forward_args(input, self._hx(states), batch_sizes)
        else:
            self.check_input(input, batch_sizes)

    def _by_pytorch(self: Any, input: Any, hx: Any, lengths: Any) -> Any:
        if lengths is not None:
            raise unsupported(
                self, "lengths= runs on the engine; PyTorch's packed sequences run a projection (proj_size)"
            )
        notice("rnnbridge runs no projection yet: an LSTM with proj_size runs as PyTorch's own")
        return super().forward(input, hx)  # type: ignore[misc]

    def _check_dimensions(self: Any, input: Any, hx: Any) -> None:
        """PyTorch's words for what it looks at before anything else."""
        name = self.mode.split("_")[0]
        if input.dim() not in (2, 3):
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        wanted, form = input.dim(), f"For {'' if input.dim() == 3 else 'un'}batched {input.dim()}-D input"
        if hx is None:
            return
        if self._has_cell_state and (hx[0].dim() != wanted or hx[1].dim() != wanted):
            raise RuntimeError(
                f"{form}, hx and cx should also be {wanted}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        if not self._has_cell_state and hx.dim() != wanted:
            raise RuntimeError(f"{form}, hx should also be {wanted}-D but got {hx.dim()}-D tensor")


class LSTM(Stack, torch.nn.LSTM):
    """nn.LSTM on the engine: the same arguments, parameters, outputs and errors."""

    _cell = "lstm"
    _has_cell_state = True


class WithReset:
    """A GRU's formula: an argument more than PyTorch's constructor has, which repr shows where it is not PyTorch's."""

    reset = "after"

    def __init__(self, *args: Any, reset: str = "after", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if reset not in ("after", "before"):
            raise SpecError(f'reset is {reset!r}; it is "after" (r * (U h + b), as nn.GRU) or "before" (U (r * h))')
        self.reset = reset

    @property
    def _cell(self) -> str:
        return f"gru_{self.reset}"

    def extra_repr(self) -> str:
        text: str = super().extra_repr()  # type: ignore[misc]
        return text if self.reset == "after" else f"{text}, reset={self.reset!r}"


class WithNonlinearity:
    """A plain RNN's activation, under PyTorch's name for it."""

    nonlinearity: str

    @property
    def _cell(self) -> str:
        return f"rnn_{self.nonlinearity}"


class GRU(WithReset, Stack, torch.nn.GRU):
    """nn.GRU on the engine.

    Args:
        reset: "after" computes n from r * (U h + b_hn), as nn.GRU does; "before" from U (r * h), the original formula,
            which PyTorch lacks. They are different functions of the same weights.

    The other arguments are nn.GRU's.
    """


class RNN(WithNonlinearity, Stack, torch.nn.RNN):
    """nn.RNN on the engine: the same arguments, parameters, outputs and errors."""


def _cast(x: Any, states: tuple[Any, ...], dtype: Any) -> tuple[Any, tuple[Any, ...]]:
    """Inputs in the weights' dtype where autocast made them narrower."""
    if not torch.is_autocast_enabled("cpu"):
        return x, states
    notice("rnnbridge runs in float32 under autocast too: inputs are widened, outputs are float32")
    return x.to(dtype), tuple(state.to(dtype) for state in states)


def _read_lengths(lengths: Any, N: Any) -> Any:
    """int64 [N] on the CPU; the engine checks their range."""
    if lengths is None:
        return None
    try:
        given = torch.as_tensor(lengths)
    except (RuntimeError, TypeError, ValueError):
        raise ArgumentError(f"lengths is {lengths!r}; it is one whole number per sequence, [{N}], each 0..T") from None
    if given.dim() != 1 or given.shape[0] != N or given.is_floating_point() or given.dtype == torch.bool:
        raise ArgumentError(
            f"lengths is {given.dtype} {list(given.shape)}; it is one whole number per sequence, [{N}], each 0..T"
        )
    return given.to("cpu", torch.int64)
