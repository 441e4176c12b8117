"""Our layers inside PyTorch, called as PyTorch's own are."""

from __future__ import annotations

from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.peers.pytorch import run_module
from rnnbridge.bench.problem import Problem


def prepare(problem: Problem) -> Prepared:
    """A layer of rnnbridge.adapters.pytorch with these weights."""
    import torch

    from rnnbridge.adapters.pytorch import GRU, LSTM, RNN

    case = problem.case
    sizes = {"num_layers": case.layers, "bidirectional": case.bidirectional, "dtype": getattr(torch, case.dtype)}
    module: torch.nn.Module
    if case.cell in ("gru", "gru-before"):
        module = GRU(case.I, case.H, reset="before" if case.cell == "gru-before" else "after", **sizes)
    else:
        module = {"lstm": LSTM, "rnn": RNN}[case.cell](case.I, case.H, **sizes)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in problem.weights.items()})
    return run_module(module, problem)
