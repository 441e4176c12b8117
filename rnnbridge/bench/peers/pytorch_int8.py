"""PyTorch's dynamic quantisation: weights of 8 bits, activations quantised in every call."""

from __future__ import annotations

import warnings

from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.peers.pytorch import run_module
from rnnbridge.bench.problem import Problem
from rnnbridge.bundle import to_framework
from rnnbridge.errors import Incompatible


def prepare(problem: Problem) -> Prepared:
    """The layer that quantize_dynamic makes of nn.LSTM or nn.GRU."""
    import torch

    if problem.case.cell in ("gru-before", "rnn"):
        raise Incompatible("quantize_dynamic", ["it has nn.LSTM and nn.GRU only"])
    if problem.case.dtype != "float32":
        raise Incompatible("quantize_dynamic", ["it takes float32 only"])
    module = to_framework(problem.to_weights(), "pytorch").eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is still what is used
        warnings.simplefilter("ignore", UserWarning)
        holder = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(module), {type(module)}, torch.qint8)
    prepared = run_module(holder[0], problem)
    return prepared._replace(flags=f"{prepared.flags}, {torch.backends.quantized.engine}")
