"""`LSTMCell`, `GRUCell` and `RNNCell`: PyTorch's own cells with another forward. A step is a sequence of one."""

from __future__ import annotations

from typing import Any

import torch

from rnnbridge.adapters.pytorch.modules import OnEngine, WithNonlinearity, WithReset


class Cell(OnEngine):
    """One step of one layer."""

    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        """One step.

        Args:
            input: [N, I], or [I] without a batch.
            hx: h [N, H], or (h, c) of an LSTM, without N for an input without; None is zeros.

        Returns:
            The next state, in the form of hx.
        """
        states = self._states(hx)
        self._check(input, states)
        batched = input.dim() == 2
        x = (input if batched else input.unsqueeze(0)).unsqueeze(0)
        states = tuple((state if batched else state.unsqueeze(0)).unsqueeze(0) for state in states)
        weights = [self.weight_ih, self.weight_hh, *([self.bias_ih, self.bias_hh] if self.bias else [])]
        _, states = self._operate(x, states, weights, None, (self._cell, 1, False, False))
        states = tuple(state.squeeze(0) if batched else state.squeeze(0).squeeze(0) for state in states)
        return self._hx(states)

    def _check(self: Any, input: Any, states: tuple[Any, ...]) -> None:
        """PyTorch's words."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for index, state in enumerate(states):
            if state.dim() not in (1, 2):
                at = f"hx[{index}]" if self._has_cell_state else "hidden"
                raise ValueError(f"{name}: Expected {at} to be 1D or 2D, got {state.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        wanted = (*input.shape[:-1], self.hidden_size)
        for index, state in enumerate(states):
            if tuple(state.shape) != wanted:
                raise RuntimeError(
                    f"hidden{index} is {list(state.shape)} and input {list(input.shape)}: expected {wanted}"
                )


class LSTMCell(Cell, torch.nn.LSTMCell):
    """nn.LSTMCell on the engine: the same arguments, parameters, outputs and errors."""

    _cell = "lstm"
    _has_cell_state = True


class GRUCell(WithReset, Cell, torch.nn.GRUCell):
    """nn.GRUCell on the engine.

    Args:
        reset: as `GRU`'s.

    The other arguments are nn.GRUCell's.
    """


class RNNCell(WithNonlinearity, Cell, torch.nn.RNNCell):
    """nn.RNNCell on the engine: the same arguments, parameters, outputs and errors."""
