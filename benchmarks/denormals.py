"""What a state that fades away costs: a training step on numbers below the normal ones beside one on ordinary numbers.

    python benchmarks/denormals.py

PyTorch, where it is installed, runs the same weights and input in the same process, one thread each.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import rnnbridge as rb

T, N, H, REPEATS = 200, 32, 128, 9
SCALES = {"ordinary": 1.0, "denormal": 1e-40}


def weights() -> rb.RNNWeights:
    """An LSTM without biases: where x, h and c are small, everything behind them is."""
    return rb.LSTM(H, H, bias="none", seed=0).to_weights()


def engine_step() -> Callable[[np.ndarray], None]:
    net = rb.layer(weights())

    def step(x: np.ndarray) -> None:
        tape = net.forward(x, training=True, threads=1)[2]
        net.backward(tape, x, threads=1)

    return step


def torch_step() -> Callable[[np.ndarray], None]:
    import torch

    torch.set_num_threads(1)
    module = rb.to_framework(weights(), "pytorch")

    def step(x: np.ndarray) -> None:
        given = torch.from_numpy(x).requires_grad_()
        module(given)[0].backward(torch.from_numpy(x))

    return step


def milliseconds(step: Callable[[np.ndarray], None], scale: float) -> float:
    """The median of REPEATS."""
    x = (np.random.default_rng(0).standard_normal((T, N, H)) * scale).astype(np.float32)
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        step(x)
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times[1:]))


if __name__ == "__main__":
    steps = {"rnnbridge": engine_step()} | ({"PyTorch": torch_step()} if importlib.util.find_spec("torch") else {})
    table = Table(
        "", *(f"{name} ms" for name in SCALES), "ratio", title=f"LSTM T={T} N={N} H={H}, forward and backward"
    )
    for name, step in steps.items():
        times = [milliseconds(step, scale) for scale in SCALES.values()]
        table.add_row(name, *(f"{one:.1f}" for one in times), f"{times[1] / times[0]:.2f}")
    Console().print(table)
