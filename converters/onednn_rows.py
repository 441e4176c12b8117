"""oneDNN's (MKL-DNN's) recurrent primitives as rows: the memories that one of them is given, in their plain layouts.

The letters of a layout's name are oneDNN's own: l layers, d directions, i inputs, g gates, o outputs. A row is one of
the layers: what is behind the axis l.
"""

from __future__ import annotations

from dataclasses import replace

from rnnbridge.convention import Convention
from rnnbridge.slot import Slot

_SOURCE = (
    "doc/primitives/rnn.md, include/oneapi/dnnl/dnnl_types.h (ldigo, ldgoi, ldgo, ldio), src/cpu/rnn/ref_postgemm_*; "
    "measured with oneDNN 3.2"
)
_OLD_SOURCE = (
    "MKL-DNN v0.14 to v0.16: src/cpu/ref_rnn.cpp, include/mkldnn_types.h (gates f i o c). Its order of gates is read "
    "in source; its layouts and equations are those measured with oneDNN 3.2"
)
TAGS = {"ldigo": "d i g o", "ldgoi": "d g o i"}
PROJECTION_TAGS = {"ldigo": ("ldio", "d o p"), "ldgoi": ("ldoi", "d p o")}
BIAS = "bias_ldgo"
# An LBR-GRU's bias has a fourth row, the candidate's inside the reset.
BIAS_OF_GATES, BIAS_INSIDE = f"{BIAS}[:3]", f"{BIAS}[3]"


def _matrices(tag: str) -> tuple[Slot, ...]:
    axes = TAGS[tag]
    return Slot(f"weights_layer_{tag}", "weight_ih", axes), Slot(f"weights_iter_{tag}", "weight_hh", axes)


def _lstm(tag: str) -> Convention:
    name, axes = PROJECTION_TAGS[tag]
    return Convention(
        name=f"onednn.lstm {tag}",
        cell="lstm",
        gates="ifco",
        letters={"c": "g"},
        slots=(
            *_matrices(tag),
            Slot(BIAS, "bias_ih", "d g o"),
            Slot("weights_peephole_ldgo", "peephole", "d g o", "ifo", optional=True),
            Slot(f"weights_projection_{name}", "weight_hr", axes, optional=True),
        ),
        source=_SOURCE,
        state_order="h c",
        directions=("forward", "reverse", "bidirectional"),
        merges=("concat", "sum"),
        extras=("peephole", "proj_size"),
    )


def _old_lstm(row: Convention) -> Convention:
    slots = tuple(slot for slot in row.slots if not slot.optional)
    return replace(
        row, name=row.name.replace("lstm", "lstm@0.14"), gates="fioc", slots=slots, source=_OLD_SOURCE, extras=()
    )


def _gru(tag: str) -> Convention:
    return Convention(
        name=f"onednn.gru {tag}",
        cell="gru",
        gates="uro",
        letters={"u": "z", "o": "n"},
        slots=(*_matrices(tag), Slot(BIAS, "bias_ih", "d g o")),
        source=_SOURCE,
        reset=("before",),
        directions=("forward", "reverse", "bidirectional"),
        merges=("concat", "sum"),
    )


def _lbr_gru(row: Convention) -> Convention:
    bias = Slot(BIAS_OF_GATES, "bias_ih", "d g o"), Slot(BIAS_INSIDE, "bias_hh", "d o", "o")
    return replace(
        row, name=row.name.replace("gru", "lbr_gru"), slots=(*_matrices(row.name[-5:]), *bias), reset=("after",)
    )


def _vanilla_rnn(tag: str) -> Convention:
    return Convention(
        name=f"onednn.vanilla_rnn {tag}",
        cell="rnn",
        gates="n",
        slots=(*_matrices(tag), Slot(BIAS, "bias_ih", "d g o")),
        source=_SOURCE,
        directions=("forward", "reverse", "bidirectional"),
        merges=("concat", "sum"),
        activations=(("tanh", "relu", "sigmoid"),),
    )


LSTM = {tag: _lstm(tag) for tag in TAGS}
OLD_LSTM = {tag: _old_lstm(row) for tag, row in LSTM.items()}
GRU = {tag: _gru(tag) for tag in TAGS}
LBR_GRU = {tag: _lbr_gru(row) for tag, row in GRU.items()}
VANILLA_RNN = {tag: _vanilla_rnn(tag) for tag in TAGS}
CONVENTIONS = tuple(row for rows in (LSTM, OLD_LSTM, GRU, LBR_GRU, VANILLA_RNN) for row in rows.values())
