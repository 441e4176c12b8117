"""TensorFlow 1's recurrent cells as rows. Knows no file.

A cell has one kernel for the input and the state, [x; h] along its rows. LSTM gates are i j f o in tf.nn.rnn_cell and
i c f o, the same order, in the block cells; `forget_bias` is added at run time and stands in the graph alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rnnbridge.convention import Convention
from rnnbridge.slot import Slot

_CELLS = "tensorflow/python/ops/rnn_cell_impl.py, run in TensorFlow 1.15.5"
_BLOCKS = "tensorflow/contrib/rnn/python/ops/{lstm_ops,gru_ops}.py, run in TensorFlow 1.15.5"
_CUDNN = "tensorflow/contrib/cudnn_rnn/python/ops/cudnn_rnn_ops.py, run in TensorFlow 1.15.5"
_OPAQUE = (
    "CudnnParamsFormatConverter in tensorflow/contrib/cudnn_rnn/python/ops/cudnn_rnn_ops.py: the buffer is cuDNN's, "
    "which aten/src/ATen/native/cudnn/RNN.cpp lays out; read in source, not run: it takes a GPU"
)
_PLACE = "{layer}/{direction}/"
_STACK: dict[str, Any] = {
    "directions": ("forward", "bidirectional"),
    "direction_names": ("fw", "bw"),
    "many_layers": True,
    "batch_first": True,
}
# What tf.nn has for an `activation` and the canonical form too.
ACTIVATIONS = ("tanh", "relu", "sigmoid", "softsign", "softplus", "elu(1.0)", "selu")
_KERNEL = Slot(f"{_PLACE}kernel", "weight_ih weight_hh", "i (g o)")
_BIAS = Slot(f"{_PLACE}bias", "bias_ih", "(g o)")
_PEEPHOLES = tuple(Slot(f"{_PLACE}w_{gate}_diag", "peephole", "o", gate, optional=True) for gate in "ifo")
_PROJECTION = Slot(f"{_PLACE}projection/kernel", "weight_hr", "o p", optional=True)
_LSTM: dict[str, Any] = {"cell": "lstm", "state_order": "c h", **_STACK}
_GRU: dict[str, Any] = {"cell": "gru", "gates": "ruc", "letters": {"u": "z", "c": "n"}, **_STACK}


def _gru_slots(gates: str, gates_bias: str, candidate: str, candidate_bias: str) -> tuple[Slot, ...]:
    return (
        Slot(_PLACE + gates, "weight_ih weight_hh", "i (g o)", "ru"),
        Slot(_PLACE + gates_bias, "bias_ih", "(g o)", "ru"),
        Slot(_PLACE + candidate, "weight_ih weight_hh", "i o", "c"),
        Slot(_PLACE + candidate_bias, "bias_ih", "o", "c"),
    )


BASIC_LSTM = Convention(
    name="tensorflow.BasicLSTMCell",
    gates="ijfo",
    letters={"j": "g"},
    slots=(_KERNEL, _BIAS),
    forget_bias=1.0,
    activations=(("sigmoid",), ACTIVATIONS, ACTIVATIONS),
    one_activation=True,
    source=_CELLS,
    **_LSTM,
)
LSTM = replace(
    BASIC_LSTM,
    name="tensorflow.LSTMCell",
    slots=(_KERNEL, _BIAS, *_PEEPHOLES, _PROJECTION),
    extras=("proj_size", "peephole", "cell_clip", "proj_clip"),
)
BLOCK_LSTM = Convention(
    name="tensorflow.LSTMBlockCell",
    gates="icfo",
    letters={"c": "g"},
    slots=(_KERNEL, _BIAS, *_PEEPHOLES),
    forget_bias=1.0,
    extras=("peephole", "cell_clip"),
    source=_BLOCKS,
    **_LSTM,
)
FUSED_LSTM = replace(BLOCK_LSTM, name="tensorflow.LSTMBlockFusedCell", batch_first=False)
CUDNN_COMPATIBLE_LSTM = replace(
    BLOCK_LSTM,
    name="tensorflow.CudnnCompatibleLSTMCell",
    slots=(_KERNEL, _BIAS),
    forget_bias=0.0,
    extras=(),
    source=_CUDNN,
)
GRU = Convention(
    name="tensorflow.GRUCell",
    slots=_gru_slots("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"),
    reset=("before",),
    activations=(("sigmoid",), ACTIVATIONS),
    source=_CELLS,
    **_GRU,
)
BLOCK_GRU = Convention(
    name="tensorflow.GRUBlockCell",
    slots=_gru_slots("w_ru", "b_ru", "w_c", "b_c"),
    reset=("before",),
    source=_BLOCKS,
    **_GRU,
)
CUDNN_COMPATIBLE_GRU = Convention(
    name="tensorflow.CudnnCompatibleGRUCell",
    slots=(
        *_gru_slots("gates/kernel", "gates/bias", "", "")[:2],
        Slot(f"{_PLACE}candidate/input_projection/kernel", "weight_ih", "i o", "c"),
        Slot(f"{_PLACE}candidate/hidden_projection/kernel", "weight_hh", "i o", "c"),
        Slot(f"{_PLACE}candidate/input_projection/bias", "bias_ih", "o", "c"),
        Slot(f"{_PLACE}candidate/hidden_projection/bias", "bias_hh", "o", "c"),
    ),
    reset=("after",),
    source=_CUDNN,
    **_GRU,
)
RNN = Convention(
    name="tensorflow.BasicRNNCell",
    cell="rnn",
    gates="n",
    slots=(Slot(f"{_PLACE}kernel", "weight_ih weight_hh", "i o"), Slot(f"{_PLACE}bias", "bias_ih", "o")),
    activations=(ACTIVATIONS,),
    source=_CELLS,
    **_STACK,
)


def _opaque(name: str, rows: str, **facts: Any) -> Convention:
    """The matrices and biases that an `opaque_kernel` is made of."""
    slots = tuple(
        Slot(f"{_PLACE}{name}", holds, axes)
        for name, holds, axes in (
            ("input_kernel", "weight_ih", f"{rows} i"),
            ("recurrent_kernel", "weight_hh", f"{rows} i"),
            ("input_bias", "bias_ih", rows),
            ("recurrent_bias", "bias_hh", rows),
        )
    )
    stack = {**_STACK, "batch_first": False}
    return Convention(name=f"tensorflow.{name}", slots=slots, zero_length="refused", source=_OPAQUE, **stack, **facts)


CELLS = (
    BASIC_LSTM, LSTM, BLOCK_LSTM, FUSED_LSTM, CUDNN_COMPATIBLE_LSTM, GRU, BLOCK_GRU, CUDNN_COMPATIBLE_GRU, RNN,
)  # fmt: skip
OPAQUE = (
    _opaque("CudnnLSTM", "(g o)", cell="lstm", gates="ifco", letters={"c": "g"}, state_order="h c"),
    _opaque("CudnnGRU", "(g o)", cell="gru", gates="ruc", letters={"u": "z", "c": "n"}, reset=("after",)),
    _opaque("CudnnRNN", "o", cell="rnn", gates="n", activations=(("tanh", "relu"),)),
)
CONVENTIONS = (*CELLS, *OPAQUE)
# What is written: the cells that anybody has, with nothing to be added at run time, so that the bits stay.
WRITTEN = (replace(LSTM, forget_bias=0.0), GRU, CUDNN_COMPATIBLE_GRU, RNN)


def row_named(name: str) -> Convention:
    """A row by its name, "tensorflow.GRUCell"."""
    return next(row for row in CONVENTIONS if row.name == name)
