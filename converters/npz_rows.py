"""The canonical form itself as rows: what our own `.npz` files hold. Every field of a spec, nothing moved.

A cell has two rows, because a row has one bias form beside none.
"""

from __future__ import annotations

from dataclasses import replace

from rnnbridge.activation import CONSTANTS
from rnnbridge.convention import Convention
from rnnbridge.slot import Slot
from rnnbridge.spec import ACTIVATION_SLOTS, GATES, Cell

_SUFFIX = "_l{layer}{direction}"
_LSTM_ONLY = (
    Slot(f"weight_hr{_SUFFIX}", "weight_hr", "p o", optional=True),
    Slot(f"peephole{_SUFFIX}", "peephole", "g o", gates="ifo", optional=True),
)


def _slots(rows: str) -> tuple[Slot, ...]:
    return (
        Slot(f"weight_ih{_SUFFIX}", "weight_ih", f"{rows} i"),
        Slot(f"weight_hh{_SUFFIX}", "weight_hh", f"{rows} i"),
        Slot(f"bias_ih{_SUFFIX}", "bias_ih", rows, optional=True),
        Slot(f"bias_hh{_SUFFIX}", "bias_hh", rows, optional=True),
    )


def _row(cell: Cell) -> Convention:
    is_lstm = cell == "lstm"
    return Convention(
        name=f"npz.{cell.upper()}",
        cell=cell,
        gates=GATES[cell],
        slots=(*_slots("o" if cell == "rnn" else "(g o)"), *(_LSTM_ONLY if is_lstm else ())),
        source="the canonical form, rnnbridge/spec.py: these files are its own",
        reset=("after", "before") if cell == "gru" else (),
        state_order="h c" if is_lstm else "h",
        directions=("forward", "reverse", "bidirectional"),
        many_layers=True,
        activations=(tuple(CONSTANTS),) * len(ACTIVATION_SLOTS[cell]),
        extras=("clip", *(("proj_size", "peephole", "cell_clip", "proj_clip", "coupled") if is_lstm else ())),
        merges=("concat", "sum", "mul", "ave", "none"),
        output_orders=("input", "processing"),
    )


def _with_one_bias(row: Convention) -> Convention:
    slots = tuple(slot for slot in row.slots if slot.holds != "bias_hh")
    return replace(row, name=f"{row.name} with one bias", slots=slots)


_TWO_BIASES = (_row("lstm"), _row("gru"), _row("rnn"))
CONVENTIONS = _TWO_BIASES + tuple(_with_one_bias(row) for row in _TWO_BIASES)
