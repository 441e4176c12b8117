"""From what an operator is given to the engine's plan, and what sizes its results have. Knows no autograd."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch

from rnnbridge.engine import Plan, get_num_threads
from rnnbridge.spec import RNNSpec

# The operators' names of what a cell computes.
CELLS: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm"},
    "gru_after": {"cell": "gru", "reset": "after"},
    "gru_before": {"cell": "gru", "reset": "before"},
    "rnn_tanh": {"cell": "rnn", "activations": ("tanh",)},
    "rnn_relu": {"cell": "rnn", "activations": ("relu",)},
}


class Form(NamedTuple):
    """What an operator is told beside its tensors.

    Args:
        cell: a name of `CELLS`.
        num_layers, bidirectional: of the stack.
        batch_first: whether x and y are [N, T, .].
    """

    cell: str
    num_layers: int
    bidirectional: bool
    batch_first: bool


class Sizes(NamedTuple):
    """A call's sizes; any of them may be symbolic while a graph is traced."""

    T: Any
    N: Any
    H: Any
    form: Form

    @property
    def D(self) -> int:
        return 2 if self.form.bidirectional else 1

    @property
    def y(self) -> tuple[Any, ...]:
        T, N = (self.N, self.T) if self.form.batch_first else (self.T, self.N)
        return (T, N, self.D * self.H)

    @property
    def state(self) -> tuple[Any, ...]:
        return (self.form.num_layers * self.D, self.N, self.H)

    @property
    def c(self) -> tuple[Any, ...]:
        """The cell state; empty where the cell has none."""
        return self.state if self.form.cell == "lstm" else (0,)

    def tape(self, itemsize: int) -> Any:
        """`Plan.tape_nbytes` (rnb_sizes in rnnbridge.h), also for symbolic sizes."""
        slots = {"lstm": 5, "gru_after": 4, "gru_before": 3}.get(self.form.cell, 0)  # S, and the LSTM's cell states
        line = 64 // itemsize
        hidden, inner = _round(self.H, line), _round(self.D * self.H, line)
        L = self.form.num_layers
        places = itemsize * self.T * self.N
        return 64 + _round(8 * self.N, 64) + places * (L * self.D * slots * hidden + (L - 1) * inner)


def sizes_of(x: Any, weights: list[Any], form: Form) -> Sizes:
    """Of x in the form's order and weights as PyTorch has them."""
    T, N = (x.shape[1], x.shape[0]) if form.batch_first else (x.shape[0], x.shape[1])
    return Sizes(T, N, weights[1].shape[1], form)


def plan_of(x: Any, weights: list[Any], form: Form, training: bool) -> Plan:
    """The engine's plan for these tensors, from the last ones if it is there."""
    sizes = sizes_of(x, weights, form)
    biases = len(weights) > 2 * form.num_layers * sizes.D
    return _plan(form._replace(batch_first=False), x.shape[2], *sizes[:3], biases, training, str(x.dtype)[6:])


def threads() -> int | None:
    """torch.get_num_threads(), or None where the engine would take as many by itself, or fewer for little work."""
    wanted: int = torch.get_num_threads()
    return None if wanted == get_num_threads() else wanted


@lru_cache(maxsize=64)
def _plan(form: Form, I: int, T: int, N: int, H: int, biases: bool, training: bool, dtype: str) -> Plan:
    spec = RNNSpec(
        input_size=I,
        hidden_size=H,
        num_layers=form.num_layers,
        direction="bidirectional" if form.bidirectional else "forward",
        bias="double" if biases else "none",
        **CELLS[form.cell],
    )
    return Plan(spec, T, N, training=training, dtype=dtype)


def _round(number: Any, step: int) -> Any:
    return (number + step - 1) // step * step
