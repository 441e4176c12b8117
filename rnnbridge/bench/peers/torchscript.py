"""PyTorch's layers, scripted and frozen, as they are deployed from C++."""

from __future__ import annotations

import warnings
from typing import Any

from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.peers.pytorch import run_module
from rnnbridge.bench.problem import Problem
from rnnbridge.bundle import to_framework
from rnnbridge.errors import Incompatible


def prepare(problem: Problem) -> Prepared:
    """The module frozen, its weights constants of the graph."""
    import torch

    if problem.case.cell == "gru-before":
        raise Incompatible("PyTorch's nn.GRU", ["it is reset-after only"])
    if problem.lengths is not None:
        raise Incompatible("TorchScript", ["a scripted module takes padded sequences only"])

    class Holder(torch.nn.Module):  # type: ignore[misc]  # nn.LSTM's own forward is overloaded: it cannot be the outermost
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> Any:
            return self.layer(x)

    module = Holder(to_framework(problem.to_weights(), "pytorch")).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is still what is deployed
        frozen = torch.jit.freeze(torch.jit.script(module))
    return run_module(frozen, problem)
