"""PyTorch's recurrent layers as rows: torch.nn.LSTM, GRU, RNN and their cells.

The canonical form has PyTorch's names, gate order and update gate, so these rows move nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rnnbridge.convention import Convention
from rnnbridge.slot import Slot
from rnnbridge.spec import RNNSpec

_SOURCE = (
    "torch/nn/modules/rnn.py, RNNBase.__init__ and the equations in the class docstrings; aten/src/ATen/native/RNN.cpp "
    "(GRUCell, PackedLayer); measured with torch 2.13.0"
)
_SUFFIX = "_l{layer}{direction}"


def _slots(rows: str) -> tuple[Slot, ...]:
    return (
        Slot(f"weight_ih{_SUFFIX}", "weight_ih", f"{rows} i"),
        Slot(f"weight_hh{_SUFFIX}", "weight_hh", f"{rows} i"),
        Slot(f"bias_ih{_SUFFIX}", "bias_ih", rows, optional=True),
        Slot(f"bias_hh{_SUFFIX}", "bias_hh", rows, optional=True),
    )


LSTM = Convention(
    name="pytorch.LSTM",
    cell="lstm",
    gates="ifgo",
    slots=(*_slots("(g o)"), Slot(f"weight_hr{_SUFFIX}", "weight_hr", "p o", optional=True)),
    source=_SOURCE,
    state_order="h c",
    zero_length="refused",
    batch_first=False,
    directions=("forward", "bidirectional"),
    many_layers=True,
    activations=(("sigmoid",), ("tanh",), ("tanh",)),
    extras=("proj_size<hidden_size",),
)
GRU = Convention(
    name="pytorch.GRU",
    cell="gru",
    gates="rzn",
    slots=_slots("(g o)"),
    source=_SOURCE,
    reset=("after",),
    zero_length="refused",
    batch_first=False,
    directions=("forward", "bidirectional"),
    many_layers=True,
    activations=(("sigmoid",), ("tanh",)),
)
RNN = Convention(
    name="pytorch.RNN",
    cell="rnn",
    gates="n",
    slots=_slots("o"),
    source=_SOURCE,
    zero_length="refused",
    batch_first=False,
    directions=("forward", "bidirectional"),
    many_layers=True,
    activations=(("tanh", "relu"),),
)


def _cell_of(row: Convention) -> Convention:
    """The row of torch.nn.LSTMCell for that of torch.nn.LSTM: one step, so no layers, directions, lengths or order."""
    slots = (replace(slot, name=slot.name.removesuffix(_SUFFIX)) for slot in row.slots if slot.holds != "weight_hr")
    return replace(
        row,
        name=f"{row.name}Cell",
        slots=tuple(slots),
        directions=("forward",),
        many_layers=False,
        batch_first=None,
        zero_length="initial",
        extras=(),
    )


MODULES = (LSTM, GRU, RNN)
CELLS = tuple(_cell_of(row) for row in MODULES)
CONVENTIONS = MODULES + CELLS
CELL_NAMES = frozenset(row.name for row in CELLS)


def array_names(row: Convention, spec: RNNSpec) -> Iterator[str]:
    """The name of every array that a layer has."""
    for layer, direction, _ in spec.positions():
        for slot in row.slots:
            if set(slot.tensors) <= spec.tensor_shapes(layer).keys():
                yield row.array_name(slot, layer, direction)
