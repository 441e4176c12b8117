"""Layers that run on the engine. Know the canonical form only: no framework, no convention."""

from rnnbridge.layers.cells import GRU, LSTM, RNN, layer
from rnnbridge.layers.layer import Layer
from rnnbridge.layers.stream import Stream

__all__ = ["GRU", "LSTM", "RNN", "Layer", "Stream", "layer"]
