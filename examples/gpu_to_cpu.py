"""A Keras model trained on a GPU, converted to Keras weights, PyTorch and ONNX, and run by all of them on this CPU.

The model (CuDNN layers between an Embedding and a Dense) says what kind of field a short text is. Keras itself gave the
expected outputs beside it; here its recurrent layers are converted, proven, and put back into the whole model.

    python examples/gpu_to_cpu.py [FOLDER]      # the converted files stay in FOLDER if one is given
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rnnbridge as rb
from rnnbridge.proof.tolerance import tolerance_between
from rnnbridge.reference import forward

MODEL = Path(__file__).with_name("gpu_model.h5")
LAYERS = ("both_ways", "context", "summary")
FILES = {"cpu.h5": None, "cpu.pt": None} | {f"{name}.onnx": name for name in LAYERS}  # an ONNX model holds one layer
Run = Callable[[np.ndarray], np.ndarray]  # [N, T, I] -> [N, T, .], or what NumPy makes an array of


def each_layer(path: Path, make: Callable[[rb.RNNWeights], Any]) -> dict[str, Run]:
    """Every recurrent layer of a file, made into something that is called with x and gives (y, state)."""
    made = {name: make(weights) for name, weights in rb.load(path).layers.items()}
    return {name: lambda x, call=call: call(x)[0] for name, call in made.items()}


def on_engine(path: Path) -> dict[str, Run]:
    """rnnbridge's own engine, from any of the files."""
    return each_layer(path, partial(rb.layer, batch_first=True))


def reference(dtype: type, w: rb.RNNWeights) -> Any:
    """Plain NumPy: in float64 the exact answer, in float32 that with the usual rounding."""
    return lambda x: [forward(w.spec, w.arrays, x.swapaxes(0, 1), dtype=dtype).y.swapaxes(0, 1)]


def in_keras(path: Path) -> dict[str, Run]:
    """The model in Keras without a GPU; Keras loads the file itself."""
    import keras
    from keras import layers

    model = keras.Sequential([
        layers.Input((None,)), layers.Embedding(42, 13), layers.Bidirectional(layers.LSTM(24, return_sequences=True)),
        layers.GRU(31, return_sequences=True, reset_after=True), layers.LSTM(19, return_sequences=True),
        layers.Dense(6),
    ])  # fmt: skip
    model.load_weights(str(path))
    return dict(zip(LAYERS, model.layers[1:4], strict=True))


def in_pytorch(path: Path) -> dict[str, Run]:
    """torch.nn modules filled from the state_dict file."""
    import torch

    def make(weights: rb.RNNWeights) -> Any:
        module = rb.to_framework(weights, "pytorch", batch_first=True).requires_grad_(False)
        return lambda x: module(torch.from_numpy(x))

    return each_layer(path, make)


def in_onnxruntime(pattern: Path) -> dict[str, Run]:
    """ONNX Runtime on the written models: x alone is fed, lengths and states have defaults."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it would warn that inputs with defaults are no constants, which is their purpose

    made = {name: onnxruntime.InferenceSession(pattern.with_stem(name), options) for name in LAYERS}
    return {name: lambda x, session=session: session.run(["y"], {"x": x})[0] for name, session in made.items()}


def whole_model(run: dict[str, Run], tensors: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """Embedding, three recurrent layers, Dense with softmax: tokens [N, T] -> probabilities [N, kinds]."""
    ends = ("embeddings", "kernel", "bias")
    embedding, kernel, bias = (next(a for name, a in tensors.items() if f"/{end}" in name) for end in ends)
    features = embedding[tokens]
    for name in LAYERS:
        features = np.asarray(run[name](features))
    shares = np.exp(features[:, -1] @ kernel + bias)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def compare(console: Console, folder: Path) -> bool:
    """Every file in its frameworks against Keras's own outputs, each layer by itself and the whole model."""
    expected, tensors = np.load(MODEL.with_name("gpu_model.expected.npz")), rb.load(MODEL).tensors

    def outputs(run: dict[str, Run]) -> list[np.ndarray]:
        layers = [np.asarray(run[name](expected[f"{name}|x"])) for name in LAYERS]
        return [*layers, whole_model(run, tensors, expected["model|x"])]

    table = Table(
        "file", "run by", *LAYERS, "whole model", "texts right", title="\nLargest error against Keras's outputs"
    )
    # Keras's outputs and a runner's are both float32: each may lie one tolerance from the exact answer.
    exact, rough = (outputs(each_layer(MODEL, partial(reference, dtype))) for dtype in (np.float64, np.float32))
    allowed = [2 * tolerance_between(*pair) for pair in zip(exact, rough, strict=True)]
    table.add_row("", "allowed", *(f"{one:.1e}" for one in allowed), style="dim", end_section=True)
    right = True
    for path, who, make in (
        (MODEL, "rnnbridge engine", on_engine),
        (folder / "cpu.h5", "rnnbridge engine", on_engine),
        (folder / "cpu.h5", "Keras", in_keras),
        (folder / "cpu.pt", "PyTorch", in_pytorch),
        (folder / "*.onnx", "ONNX Runtime", in_onnxruntime),
    ):
        if not any(path.parent.glob(path.name)):
            table.add_row(path.name, who, "not written", style="dim")
            continue
        try:
            got = outputs(make(path))
        except (ImportError, rb.NativeError):  # a framework that is not here, or the engine where nothing was compiled
            table.add_row(path.name, who, "not installed", style="dim")
            continue
        errors = [np.abs(one - expected[f"{name}|y"]).max() for name, one in zip((*LAYERS, "model"), got, strict=True)]
        hits = int((got[-1].argmax(axis=1) == expected["model|kind"]).sum())
        table.add_row(path.name, who, *(f"{error:.1e}" for error in errors), f"{hits} of {len(got[-1])}")
        right &= all(error <= limit for error, limit in zip(errors, allowed, strict=True))
    console.print(table)
    return right


def main() -> int:
    """Convert, run, compare with what Keras gave. Returns 0 if every number agrees."""
    console = Console(width=110 if not sys.stdout.isatty() else None, highlight=False)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else scratch)
        folder.mkdir(parents=True, exist_ok=True)
        console.print(f"[bold]{MODEL.name}[/], as Keras saved it after training on a GPU:")
        for layer in rb.inspect(MODEL).layers:
            console.print(f"  {layer.name}: {layer.row}, {layer.description}")
        console.print("\nConverted, and proven over outputs, states and lengths (largest error of what is allowed):")
        for name, layers in FILES.items():
            try:
                report = rb.convert(MODEL, folder / name, layers=layers, overwrite=True)
            except rb.MissingExtraError as error:
                console.print(f"  {name}: left out; {error}", markup=False, soft_wrap=True)
                continue
            judges = ", ".join(report.judges) or "rnnbridge alone"
            console.print(f"  {name}: error {report.max_abs_error:.1e} of {report.tolerance:.1e}, judged by {judges}")
        return 0 if compare(console, folder) else 1


if __name__ == "__main__":
    sys.exit(main())
