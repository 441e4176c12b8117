"""Layers that run on the engine. Know the canonical form only: no framework, no convention."""

from rnnbridge.layers.cells import GRU, LSTM, RNN, layer
from rnnbridge.layers.gradients import Gradients
from rnnbridge.layers.layer import Layer
from rnnbridge.layers.packed import PackedRows
from rnnbridge.layers.stream import Stream
from rnnbridge.layers.tape import Tape

__all__ = ["GRU", "LSTM", "RNN", "Gradients", "Layer", "PackedRows", "Stream", "Tape", "layer"]
