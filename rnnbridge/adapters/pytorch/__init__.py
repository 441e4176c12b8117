"""The engine inside PyTorch: nn.LSTM, nn.GRU, nn.RNN and their cells, drop-in, and `accelerate` for a whole model.

    from rnnbridge.adapters.pytorch import LSTM, accelerate
    net = LSTM(64, 128, num_layers=2, batch_first=True)  # everything that nn.LSTM takes, and lengths= in a call
    record = accelerate(model)                           # or every nn.LSTM, nn.GRU, nn.RNN of a model, in place
    record.undo()

Needs PyTorch 2.5 or later.
"""

from __future__ import annotations

from rnnbridge.errors import MissingExtraError

try:
    import torch._dynamo.config
except ImportError as error:
    raise MissingExtraError("rnnbridge.adapters.pytorch", "torch", "pytorch") from error

from rnnbridge.adapters.pytorch.accelerate import Accelerated, accelerate
from rnnbridge.adapters.pytorch.cells import GRUCell, LSTMCell, RNNCell
from rnnbridge.adapters.pytorch.errors import UnsupportedError
from rnnbridge.adapters.pytorch.modules import GRU, LSTM, RNN

# torch.compile leaves its graph at anything that is an nn.LSTM, nn.GRU or nn.RNN, before it looks at what that does;
# ours are, and are one operator each.
torch._dynamo.config.allow_rnn = True

__all__ = ["GRU", "LSTM", "RNN", "Accelerated", "GRUCell", "LSTMCell", "RNNCell", "UnsupportedError", "accelerate"]
