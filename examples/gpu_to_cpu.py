"""A Keras model trained on a GPU, converted to Keras weights, PyTorch and ONNX, and run by all of them on this CPU.

The model (CuDNN layers between an Embedding and a Dense) says what kind of field a short text is. Keras itself gave the
expected outputs beside it; here its recurrent layers are converted, proven, and put back into the whole model.

    python examples/gpu_to_cpu.py [FOLDER]      # the converted files stay in FOLDER if one is given
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rnnbridge as rb

HERE = Path(__file__).parent
MODEL = HERE / "gpu_model.h5"
LAYERS = ("both_ways", "context", "summary")
Run = Callable[[np.ndarray], np.ndarray]  # [N, T, I] -> [N, T, .]


def convert_all(folder: Path) -> list[rb.proof.Report]:
    """Weights for Keras, a state_dict for PyTorch, an ONNX model a layer; each is proven before it is there."""
    reports = [rb.convert(MODEL, folder / "cpu.h5"), rb.convert(MODEL, folder / "cpu.pt")]
    return reports + [rb.convert(MODEL, folder / f"{name}.onnx", layers=[name]) for name in LAYERS]


def on_engine(path: Path) -> dict[str, Run]:
    """rnnbridge's own engine, from any of the files."""

    def runner(weights: rb.RNNWeights) -> Run:
        net = rb.layer(weights, batch_first=True)
        return lambda x: net(x)[0]

    return {name: runner(weights) for name, weights in rb.load(path).layers.items()}


def in_pytorch(path: Path) -> dict[str, Run]:
    """torch.nn modules filled from the state_dict file."""
    import torch

    def runner(weights: rb.RNNWeights) -> Run:
        module = rb.to_framework(weights, "pytorch", batch_first=True)

        def run(x: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return np.asarray(module(torch.from_numpy(x))[0])

        return run

    return {name: runner(weights) for name, weights in rb.load(path).layers.items()}


def in_onnxruntime(folder: Path) -> dict[str, Run]:
    """ONNX Runtime on the written models: x alone is fed, lengths and states have defaults."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it would warn that inputs with defaults are no constants, which is their purpose

    def runner(name: str) -> Run:
        path = str(folder / f"{name}.onnx")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda x: np.asarray(session.run(["y"], {"x": x})[0])

    return {name: runner(name) for name in LAYERS}


def whole_model(run: dict[str, Run], tensors: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """Embedding, three recurrent layers, Dense with softmax: tokens [N, T] -> probabilities [N, kinds]."""
    embedding, kernel, bias = (
        next(array for name, array in tensors.items() if f"/{ending}" in name)
        for ending in ("embeddings", "kernel", "bias")
    )
    features = embedding[tokens]
    for name in LAYERS:
        features = run[name](features)
    scores = features[:, -1] @ kernel + bias
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def main() -> int:
    """Convert, run, compare with what Keras gave. Returns 0 if every number agrees."""
    console = Console(width=100 if not sys.stdout.isatty() else None)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else scratch)
        for stale in [folder / name for name in ("cpu.h5", "cpu.pt", *(f"{name}.onnx" for name in LAYERS))]:
            stale.unlink(missing_ok=True)
        console.print(f"[bold]{MODEL.name}[/], as Keras saved it after training on a GPU:\n")
        console.print(rb.inspect(MODEL))
        reports = convert_all(folder)
        runners: dict[str, Callable[[], dict[str, Run]]] = {
            "rnnbridge engine, gpu_model.h5": lambda: on_engine(MODEL),
            "rnnbridge engine, cpu.h5": lambda: on_engine(folder / "cpu.h5"),
            "PyTorch, cpu.pt": lambda: in_pytorch(folder / "cpu.pt"),
            "ONNX Runtime, *.onnx": lambda: in_onnxruntime(folder),
        }
        right = print_conversions(console, reports) & print_runs(console, runners)
    return 0 if right else 1


def print_conversions(console: Console, reports: list[rb.proof.Report]) -> bool:
    """The proof of every file, as `rnnbridge convert` found it."""
    table = Table(title="\nConverted and proven: largest error over outputs, states and lengths")
    for column in ("file", "judged by", "error", "tolerance"):
        table.add_column(column)
    for report in reports:
        judges = ", ".join(report.judges) or "rnnbridge alone"
        table.add_row(Path(report.target).name, judges, f"{report.max_abs_error:.1e}", f"{report.tolerance:.1e}")
    console.print(table)
    return all(reports)


def print_runs(console: Console, runners: dict[str, Any]) -> bool:
    """Every runner against Keras's own outputs: each layer by itself, then the whole model."""
    expected = np.load(HERE / "gpu_model.expected.npz")
    tensors = rb.load(MODEL).tensors
    table = Table(title="\nAgainst Keras's own outputs: largest error")
    for column in ("run by", *LAYERS, "whole model", "texts right"):
        table.add_column(column)
    right = True
    for name, make in runners.items():
        run = make()
        errors = [np.abs(run[one](expected[f"{one}|x"]) - expected[f"{one}|y"]).max() for one in LAYERS]
        answer = whole_model(run, tensors, expected["model|x"])
        errors.append(np.abs(answer - expected["model|y"]).max())
        hits = int((answer.argmax(axis=1) == expected["model|kind"]).sum())
        table.add_row(name, *(f"{error:.1e}" for error in errors), f"{hits} of {len(answer)}")
        right &= max(errors) < 100 * np.finfo(np.float32).eps
    console.print(table)
    return right


if __name__ == "__main__":
    sys.exit(main())
