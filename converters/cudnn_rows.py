"""cuDNN's layers as rows: the matrices and biases that its flat weight buffer is made of.

The buffer's gates are PyTorch's, whose module parameters on a GPU are views of it; NVIDIA calls the GRU's update gate i
and its candidate h'. cuDNN itself ran for none of this: it needs a GPU.
"""

from __future__ import annotations

from dataclasses import replace

from rnnbridge.convention import Convention
from rnnbridge.slot import Slot

_SOURCE = (
    "aten/src/ATen/native/cudnn/RNN.cpp (get_parameters, add_projection_weights, _cudnn_rnn_flatten_weight): gates "
    "lie side by side in the order of their linLayerID, a pseudo-layer for each layer and direction; all matrices "
    "before all biases: jax/experimental/rnn.py, and MXNet's src/operator/rnn-inl.h, which hands such a vector to "
    "cuDNN and checks its size; bias modes: cudnnRNNBiasMode_t. Read in source, not run: it takes a GPU; where the "
    "projection lies rests on MXNet"
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
    name="cudnn.LSTM",
    cell="lstm",
    gates="ifco",
    letters={"c": "g"},
    slots=(*_slots("(g o)"), Slot(f"weight_hr{_SUFFIX}", "weight_hr", "p o", optional=True)),
    source=_SOURCE,
    state_order="h c",
    zero_length="refused",
    batch_first=False,
    directions=("forward", "bidirectional"),
    many_layers=True,
    extras=("proj_size",),
)
GRU = Convention(
    name="cudnn.GRU",
    cell="gru",
    gates="rih",
    letters={"i": "z", "h": "n"},
    slots=_slots("(g o)"),
    source=_SOURCE,
    reset=("after",),
    zero_length="refused",
    batch_first=False,
    directions=("forward", "bidirectional"),
    many_layers=True,
)
RNN = Convention(
    name="cudnn.RNN",
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


def _with_input_bias(row: Convention) -> Convention:
    """The same in bias mode CUDNN_RNN_SINGLE_INP_BIAS."""
    slots = tuple(slot for slot in row.slots if slot.holds != "bias_hh")
    return replace(row, name=f"{row.name} with one bias", slots=slots)


TWO_BIASES = (LSTM, GRU, RNN)
ONE_BIAS = tuple(_with_input_bias(row) for row in TWO_BIASES)
CONVENTIONS = TWO_BIASES + ONE_BIAS
