"""The canonical form itself as rows: what our own `.npz` files hold. Every field of a spec, nothing moved.

A cell has two rows, because a row has one bias form beside none.
"""

from __future__ import annotations

from dataclasses import replace

from rnnbridge.activation import CONSTANTS
from rnnbridge.convention import Convention
from rnnbridge.slot import Slot
from rnnbridge.spec import GATES, Cell

_WEIGHTS = (
    Slot("weight_ih_l{layer}{direction}", "weight_ih", "(g o) i"),
    Slot("weight_hh_l{layer}{direction}", "weight_hh", "(g o) i"),
)
_BIASES = tuple(
    Slot(f"{name}_l{{layer}}{{direction}}", name, "(g o)", optional=True) for name in ("bias_ih", "bias_hh")
)
_LSTM_ONLY = (
    Slot("weight_hr_l{layer}{direction}", "weight_hr", "p o", optional=True),
    Slot("peephole_l{layer}{direction}", "peephole", "g o", gates="ifo", optional=True),
)
_SLOTS: dict[Cell, int] = {"lstm": 3, "gru": 2, "rnn": 1}


def _row(cell: Cell) -> Convention:
    is_lstm = cell == "lstm"
    return Convention(
        name=f"npz.{cell.upper()}",
        cell=cell,
        gates=GATES[cell],
        slots=(*_WEIGHTS, *_BIASES, *(_LSTM_ONLY if is_lstm else ())),
        source="the canonical form, rnnbridge/spec.py: these files are its own",
        reset=("after", "before") if cell == "gru" else (),
        state_order="h c" if is_lstm else "h",
        directions=("forward", "reverse", "bidirectional"),
        many_layers=True,
        activations=(tuple(CONSTANTS),) * _SLOTS[cell],
        extras=("clip", *(("proj_size", "peephole", "cell_clip", "proj_clip", "coupled") if is_lstm else ())),
        merges=("concat", "sum", "mul", "ave", "none"),
        output_orders=("input", "processing"),
    )


def _with_one_bias(row: Convention) -> Convention:
    slots = tuple(slot for slot in row.slots if slot.holds != "bias_hh")
    return replace(row, name=f"{row.name} with one bias", slots=slots)


_TWO_BIASES = tuple(_row(cell) for cell in _SLOTS)
CONVENTIONS = _TWO_BIASES + tuple(_with_one_bias(row) for row in _TWO_BIASES)
