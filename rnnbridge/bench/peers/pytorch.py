"""PyTorch's own layers. Sequences of unequal length are packed outside the timed call, which is in PyTorch's favour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.problem import Problem
from rnnbridge.bundle import to_framework
from rnnbridge.errors import Incompatible

Array = NDArray[Any]


def prepare(problem: Problem) -> Prepared:
    """nn.LSTM, nn.GRU or nn.RNN with these weights."""
    if problem.case.cell == "gru-before":
        raise Incompatible("PyTorch's nn.GRU", ["it is reset-after only"])
    return run_module(to_framework(problem.to_weights(), "pytorch"), problem)


def run_module(module: Any, problem: Problem) -> Prepared:
    """Run anything that is called as nn.LSTM is."""
    import torch

    torch.set_num_threads(problem.case.threads)
    run = ModuleRun(module, problem)
    calls: dict[str, Callable[[], None]] = {"inference": run.infer, "forward": run.forward, "training": run.train}
    return Prepared(calls[problem.case.mode], run.outputs, f"{torch.get_num_threads()} threads")


class ModuleRun:
    """A module and its sequences, padded or packed."""

    def __init__(self, module: Any, problem: Problem) -> None:
        import torch

        self._torch, self._problem = torch, problem
        self._trains = problem.case.mode != "inference"
        self._module = module
        if self._trains:
            module.train()
        self._x, self._dy = (self._enter(array) for array in (problem.x, problem.dy))
        if problem.case.mode == "training":
            self._leaf().requires_grad_()
        self._y: Any = None
        self._state: Any = None

    def infer(self) -> None:
        with self._torch.inference_mode():
            self.forward()

    def forward(self) -> None:
        self._y, self._state = self._module(self._x)

    def train(self) -> None:
        self._module.zero_grad(set_to_none=True)
        self._leaf().grad = None
        self.forward()
        dy = self._dy
        if self._problem.lengths is None:
            self._y.backward(dy)
        else:
            self._y.data.backward(dy.data)

    def outputs(self) -> dict[str, Array]:
        states = self._state if isinstance(self._state, tuple) else (self._state,)
        found = {"y": self._leave(self._y), **{k: _array(v) for k, v in zip("hc", states, strict=False)}}
        if self._problem.case.mode == "training":
            found["dx"] = self._leave(self._x, gradient=True)
            found |= {f"d{name}": _array(p.grad) for name, p in self._module.named_parameters()}
        return found

    def _leaf(self) -> Any:
        return self._x if self._problem.lengths is None else self._x.data

    def _enter(self, array: Array) -> Any:
        tensor = self._torch.from_numpy(array)
        if self._problem.lengths is None:
            return tensor
        lengths = self._torch.from_numpy(self._problem.lengths)
        return self._torch.nn.utils.rnn.pack_padded_sequence(tensor, lengths, enforce_sorted=False)

    def _leave(self, what: Any, gradient: bool = False) -> Array:
        if self._problem.lengths is None:
            return _array(what.grad if gradient else what)
        packed = what._replace(data=what.data.grad if gradient else what.data.detach())
        padded, _ = self._torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=self._problem.case.T)
        return _array(padded)


def _array(tensor: Any) -> Array:
    return np.array(tensor.detach())
