"""A 2-layer character language model in PyTorch, with its own layers and with ours: training, memory and serving.

    pip install '.[pytorch,plot]'
    python benchmarks/pytorch_language_model.py --out benchmarks/results

Both sides run in one process, round by round in turn, from the same weights on the same text; what is compared is their
ratio. Memory is measured in a process of its own for each side. Writes a page, its numbers and a picture.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import torch

from rnnbridge.adapters.pytorch import accelerate

EMBEDDING, H, LAYERS, DROPOUT = 128, 256, 2, 0.2
T, N = 64, 32
SIDES = ("PyTorch", "rnnbridge")
CLIENTS = (1, 2, 4)


class LanguageModel(torch.nn.Module):
    """The next character from those before it."""

    def __init__(self, cell: str, letters: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(letters, EMBEDDING)
        self.rnn = getattr(torch.nn, cell)(EMBEDDING, H, num_layers=LAYERS, dropout=DROPOUT)
        self.output = torch.nn.Linear(H, letters)

    def forward(self, text: Any, state: Any = None) -> tuple[Any, Any]:
        y, state = self.rnn(self.embedding(text), state)
        return self.output(y), state


def text_of() -> tuple[Any, int]:
    """Python's own help as numbers [T, N], and how many letters there are."""
    text = "".join(topics[name] for name in sorted(topics))
    letters, numbers = np.unique(np.array(list(text)), return_inverse=True)
    columns = len(text) // N
    return torch.from_numpy(numbers[: columns * N].reshape(N, columns).T.copy()), len(letters)


def model_of(cell: str, side: str, letters: int) -> Any:
    torch.manual_seed(0)
    model = LanguageModel(cell, letters)
    if side == "rnnbridge":
        accelerate(model)
    return model


class Training:
    """One side's training: truncated back-propagation over the text, with Adam."""

    def __init__(self, cell: str, side: str) -> None:
        self.text, letters = text_of()
        self.model = model_of(cell, side, letters)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        self.state, self.at, self.losses, self.seconds = None, 0, [], []

    def step(self) -> None:
        start = time.perf_counter()
        x, aim = self.text[self.at : self.at + T], self.text[self.at + 1 : self.at + T + 1]
        self.optimiser.zero_grad()
        scores, state = self.model(x, self.state)
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), aim.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.state = tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
        self.at = (self.at + T) % (len(self.text) - T - 1)
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - start)


def train(cell: str, steps: int) -> dict[str, Any]:
    """Tokens per second and losses of both sides, in turn."""
    sides = {side: Training(cell, side) for side in SIDES}
    for _ in range(steps):
        for training in sides.values():
            training.step()
    return {
        side: {
            "first_step_s": one.seconds[0],
            "tokens_per_s": T * N / statistics.median(one.seconds[1:]),
            "loss": statistics.mean(one.losses[-10:]),
            "losses": one.losses,
        }
        for side, one in sides.items()
    }


def _status(key: str) -> float:
    """A line of the process's status, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def peak_of_step(cell: str, side: str, answer: Any) -> None:
    """How far the third step's peak lies above what was there before the model ran at all, in MiB."""
    training = Training(cell, side)
    before = _status("VmRSS")
    for _ in range(3):
        training.step()
    answer.put(_status("VmHWM") - before)


def memory(cell: str, side: str) -> float:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=peak_of_step, args=(cell, side, answer))
    process.start()
    peak: float = answer.get(timeout=600)
    process.join()
    return peak


def serve(cell: str, side: str, seconds: float) -> dict[str, Any]:
    """Requests of one sequence [T, 1], on one thread each: first call, percentiles, and requests per second."""
    text, letters = text_of()
    model, x = model_of(cell, side, letters).eval(), text[:T, :1]

    @torch.inference_mode()
    def request() -> float:
        start = time.perf_counter()
        model(x)
        return time.perf_counter() - start

    first = request()
    times = timed(request, seconds)
    row = {"first_ms": 1e3 * first, "p50_ms": 1e3 * np.percentile(times, 50), "p99_ms": 1e3 * np.percentile(times, 99)}
    return {**row, **{f"per_s_{clients}": throughput(request, clients, seconds) for clients in CLIENTS}}


def timed(request: Callable[[], float], seconds: float) -> list[float]:
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        times.append(request())
    return times


def throughput(request: Callable[[], float], clients: int, seconds: float) -> float:
    done: list[int] = []
    threads = [threading.Thread(target=lambda: done.append(len(timed(request, seconds)))) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - start)


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} CPUs, Python {platform.python_version()}, PyTorch {torch.__version__}"


def page(results: dict[str, Any]) -> str:
    lines = [
        "# A language model in PyTorch: its own layers and ours",
        "",
        f"{LAYERS} layers, H = {H}, embedding {EMBEDDING}, dropout {DROPOUT}, T = {T}, N = {N}, Adam, "
        f"{results['steps']} steps on Python's own help, {results['threads']} thread(s). {results['machine']}.",
        f"Both sides take turns, step by step. The load when it began was {results['load']:.1f}: where that is "
        "more than the CPUs, times say little, and only the ratio of two sides says something.",
        "",
        "| cell | side | tokens/s | first step, s | loss, last 10 steps | peak memory of a step, MiB |",
        "|---|---|---|---|---|---|",
    ]
    cells = results["cells"]
    for cell, side in ((cell, side) for cell in cells for side in SIDES):
        one, peak = cells[cell]["training"][side], cells[cell]["memory_mib"][side]
        speed = f"{one['tokens_per_s']:.0f} | {one['first_step_s']:.2f}"
        lines.append(f"| {cell} | {side} | {speed} | {one['loss']:.3f} | {peak:.0f} |")
    lines += ["", f"Serving, one sequence of {T} steps a request, one thread each:", ""]
    lines += ["| cell | side | first call, ms | p50, ms | p99, ms | requests/s, 1 client | 2 clients | 4 clients |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for cell, side in ((cell, side) for cell in cells for side in SIDES):
        one = cells[cell]["serving"][side]
        times = " | ".join(f"{one[name]:.2f}" for name in ("first_ms", "p50_ms", "p99_ms"))
        rates = " | ".join(f"{one[f'per_s_{clients}']:.0f}" for clients in CLIENTS)
        lines.append(f"| {cell} | {side} | {times} | {rates} |")
    return "\n".join([*lines, "", "![tokens per second and losses](pytorch_language_model.png)", ""])


def draw(results: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = results["cells"]
    figure, (speed, *losses) = pyplot.subplots(1, 1 + len(cells), figsize=(5 * (1 + len(cells)), 4))
    for place, side in enumerate(SIDES):
        rates = [cells[cell]["training"][side]["tokens_per_s"] for cell in cells]
        speed.bar(np.arange(len(cells)) + 0.4 * place, rates, 0.4, label=side)
    speed.set(xticks=np.arange(len(cells)) + 0.2, xticklabels=list(cells), title="training, tokens/s")
    speed.legend()
    for axes, cell in zip(losses, cells, strict=True):
        for side in SIDES:
            axes.plot(cells[cell]["training"][side]["losses"], label=side)
        axes.set(title=f"{cell}: loss (dropout is drawn apart)", xlabel="step", ylabel="nats per character")
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="training steps of each side")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each row of serving is measured")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of training")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args()
    results: dict[str, Any] = {"machine": machine(), "load": os.getloadavg()[0], "steps": given.steps}
    results |= {"threads": given.threads, "cells": {}}
    for cell in ("LSTM", "GRU"):
        print(cell, "training")
        torch.set_num_threads(given.threads)
        training = train(cell, given.steps)
        print(cell, "memory and serving")
        peaks = {side: memory(cell, side) for side in SIDES}
        torch.set_num_threads(1)
        serving = {side: serve(cell, side, given.seconds) for side in SIDES}
        results["cells"][cell] = {"training": training, "memory_mib": peaks, "serving": serving}
    given.out.mkdir(parents=True, exist_ok=True)
    name = given.out / "pytorch_language_model"
    name.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    name.with_suffix(".md").write_text(page(results))
    draw(results, name.with_suffix(".png"))
    print(page(results))


if __name__ == "__main__":
    main()
