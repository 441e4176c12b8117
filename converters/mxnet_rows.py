"""MXNet 1.x's recurrent layers as rows: gluon.rnn's layers and cells, and symbol cells unpacked gate by gate.

MXNet's gates, their order and both formulas are PyTorch's; its candidate gate is called c in an LSTM, o in a GRU.
"""

from __future__ import annotations

from dataclasses import replace

from rnnbridge.convention import Convention
from rnnbridge.slot import Slot

_SOURCE = (
    "python/mxnet/gluon/rnn/rnn_layer.py (_RNNLayer.__init__), rnn_cell.py, python/mxnet/rnn/rnn_cell.py "
    "(FusedRNNCell._slice_weights), src/operator/rnn-inl.h; measured with MXNet 1.9.1"
)
_PLACE = "{direction}{layer}_"


def _slots(place: str, rows: str, gates: str = "") -> tuple[Slot, ...]:
    """The arrays of a layer, or of one gate of it."""
    gate = f"_{gates}" if gates else ""
    return (
        Slot(f"{place}i2h{gate}_weight", "weight_ih", f"{rows} i", gates),
        Slot(f"{place}h2h{gate}_weight", "weight_hh", f"{rows} i", gates),
        Slot(f"{place}i2h{gate}_bias", "bias_ih", rows, gates),
        Slot(f"{place}h2h{gate}_bias", "bias_hh", rows, gates),
    )


def _projection(place: str, *, optional: bool) -> Slot:
    return Slot(f"{place}h2r_weight", "weight_hr", "p o", optional=optional)


LSTM = Convention(
    name="mxnet.LSTM",
    cell="lstm",
    gates="ifco",
    letters={"c": "g"},
    slots=(*_slots(_PLACE, "(g o)"), _projection(_PLACE, optional=True)),
    source=_SOURCE,
    state_order="h c",
    batch_first=False,
    directions=("forward", "bidirectional"),
    direction_names=("l", "r"),
    many_layers=True,
    activations=(("sigmoid",), ("tanh",), ("tanh",)),
    extras=("proj_size",),
)
GRU = Convention(
    name="mxnet.GRU",
    cell="gru",
    gates="rzo",
    letters={"o": "n"},
    slots=_slots(_PLACE, "(g o)"),
    source=_SOURCE,
    reset=("after",),
    batch_first=False,
    directions=("forward", "bidirectional"),
    direction_names=("l", "r"),
    many_layers=True,
)
RNN = Convention(
    name="mxnet.RNN",
    cell="rnn",
    gates="n",
    slots=_slots(_PLACE, "o"),
    source=_SOURCE,
    batch_first=False,
    directions=("forward", "bidirectional"),
    direction_names=("l", "r"),
    many_layers=True,
    activations=(("relu", "tanh"),),
)


def _cell_of(row: Convention, name: str, slots: tuple[Slot, ...]) -> Convention:
    """One step, so no layers, directions or order of sequences."""
    return replace(row, name=name, slots=slots, directions=("forward",), many_layers=False, batch_first=None, extras=())


def _unpacked_of(row: Convention) -> Convention:
    """The arrays of `FusedRNNCell.unpack_weights`: one for each gate."""
    slots = tuple(slot for gate in row.gates for slot in _slots(_PLACE, "o", gate))
    return replace(row, name=f"{row.name} unpacked", slots=slots, extras=())


LAYERS = (LSTM, GRU, RNN)
CELLS = (
    _cell_of(LSTM, "mxnet.LSTMCell", _slots("", "(g o)")),
    _cell_of(GRU, "mxnet.GRUCell", _slots("", "(g o)")),
    _cell_of(RNN, "mxnet.RNNCell", _slots("", "o")),
)
LSTMP_CELL = replace(
    _cell_of(LSTM, "mxnet.LSTMPCell", (*_slots("", "(g o)"), _projection("", optional=False))), extras=("proj_size",)
)
UNPACKED = tuple(_unpacked_of(row) for row in (LSTM, GRU))
CONVENTIONS = (*LAYERS, *CELLS, LSTMP_CELL, *UNPACKED)
