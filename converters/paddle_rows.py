"""PaddlePaddle's recurrent layers as rows: nn's layers and cells, and the operators of Paddle 1 (`fluid`).

nn's gates, their order and both formulas are PyTorch's; a projection is transposed. The operators are others: their
input product comes from an `fc` before them, a GRU's reset gate acts before the product, and its update gate takes.
"""

from __future__ import annotations

from dataclasses import replace

from rnnbridge.convention import Convention
from rnnbridge.slot import Slot

_SOURCE = (
    "python/paddle/nn/layer/rnn.py (LSTMCell, GRUCell, SimpleRNNCell, RNNBase: names, shapes, equations); measured "
    "with PaddlePaddle 3.3.1"
)
_OPERATORS = (
    "paddle/phi/kernels/funcs/detail/lstm_cpu_kernel.h, gru_kernel.h, python/paddle/fluid/layers/nn.py (dynamic_lstm, "
    "dynamic_gru); measured by the operators lstm and gru of PaddlePaddle 3.3.1"
)
_PLACE = "{layer}.{direction}."
DIRECTIONS = ("cell_fw", "cell_bw")


def _slots(place: str, rows: str) -> tuple[Slot, ...]:
    """The arrays of a layer. A bias that is switched off is there all the same, and zero."""
    return (
        Slot(f"{place}weight_ih", "weight_ih", f"{rows} i"),
        Slot(f"{place}weight_hh", "weight_hh", f"{rows} i"),
        Slot(f"{place}bias_ih", "bias_ih", rows),
        Slot(f"{place}bias_hh", "bias_hh", rows),
    )


def _projection(place: str) -> Slot:
    return Slot(f"{place}weight_ho", "weight_hr", "o p", optional=True)


LSTM = Convention(
    name="paddle.LSTM",
    cell="lstm",
    gates="ifgo",
    slots=(*_slots(_PLACE, "(g o)"), _projection(_PLACE)),
    source=_SOURCE,
    state_order="h c",
    batch_first=True,
    directions=("forward", "bidirectional"),
    direction_names=DIRECTIONS,
    many_layers=True,
    extras=("proj_size<hidden_size",),
)
GRU = Convention(
    name="paddle.GRU",
    cell="gru",
    gates="rzc",
    letters={"c": "n"},
    slots=_slots(_PLACE, "(g o)"),
    source=_SOURCE,
    reset=("after",),
    batch_first=True,
    directions=("forward", "bidirectional"),
    direction_names=DIRECTIONS,
    many_layers=True,
)
SIMPLE_RNN = Convention(
    name="paddle.SimpleRNN",
    cell="rnn",
    gates="n",
    slots=_slots(_PLACE, "o"),
    source=_SOURCE,
    batch_first=True,
    directions=("forward", "bidirectional"),
    direction_names=DIRECTIONS,
    many_layers=True,
    activations=(("tanh", "relu"),),
)


def _cell_of(row: Convention, slots: tuple[Slot, ...]) -> Convention:
    """One step, so no layers, directions or order of sequences."""
    return replace(
        row, name=f"{row.name}Cell", slots=slots, directions=("forward",), many_layers=False, batch_first=None
    )


LAYERS = (LSTM, GRU, SIMPLE_RNN)
CELLS = (
    _cell_of(LSTM, (*_slots("", "(g o)"), _projection(""))),
    _cell_of(GRU, _slots("", "(g o)")),
    _cell_of(SIMPLE_RNN, _slots("", "o")),
)

# An operator's sequences lie end to end and have no axes T and N. A file of its own holds each of fc.w_0, fc.b_0, w_0
# and b_0; what is in brackets is a part of one: a GRU's w_0, said to be [H, 3H], is a matrix [H, 2H] and one [H, H]
# behind it, and the peepholes follow an LSTM's bias.
DYNAMIC_LSTM = Convention(
    name="paddle.dynamic_lstm",
    cell="lstm",
    gates="cifo",
    letters={"c": "g"},
    slots=(
        Slot("fc.w_0", "weight_ih", "i (g o)"),
        Slot("w_0", "weight_hh", "i (g o)"),
        Slot("b_0[gates]", "bias_ih", "(g o)", optional=True),
        Slot("b_0[peepholes]", "peephole", "(g o)", "ifo", optional=True),
    ),
    source=_OPERATORS,
    state_order="h c",
    directions=("forward", "reverse"),
    extras=("peephole",),
)
DYNAMIC_GRU = Convention(
    name="paddle.dynamic_gru",
    cell="gru",
    gates="urc",
    letters={"u": "z", "c": "n"},
    slots=(
        Slot("fc.w_0", "weight_ih", "i (g o)"),
        Slot("w_0[gates]", "weight_hh", "i (g o)", "ur"),
        Slot("w_0[candidate]", "weight_hh", "i o", "c"),
        Slot("b_0[gates]", "bias_ih", "(g o)", optional=True),
    ),
    source=_OPERATORS,
    reset=("before",),
    z="takes",
    directions=("forward", "reverse"),
)
ORIGIN_MODE = replace(DYNAMIC_GRU, name="paddle.dynamic_gru origin_mode", z="keeps")


def _with_bias_of_fc(row: Convention) -> Convention:
    """The same where the fc has a bias as well: both are added to one sum."""
    others = tuple(slot if slot.holds != "bias_ih" else replace(slot, holds="bias_hh") for slot in row.slots)
    slots = (*others, Slot("fc.b_0", "bias_ih", "(g o)", optional=True))
    return replace(row, name=f"{row.name} after a biased fc", slots=slots)


ONE_BIAS = (DYNAMIC_LSTM, DYNAMIC_GRU, ORIGIN_MODE)
TWO_BIASES = tuple(_with_bias_of_fc(row) for row in ONE_BIAS)
CONVENTIONS = (*LAYERS, *CELLS, *ONE_BIAS, *TWO_BIASES)
