"""The format "onnx": model files. What is in them is read and written elsewhere."""

from __future__ import annotations

from pathlib import Path

from rnnbridge.catalogue import Format, Judge, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.converters.onnx_bytes import is_model, read_model
from rnnbridge.converters.onnx_judge import run_in_onnxruntime
from rnnbridge.converters.onnx_read import read_bundle
from rnnbridge.converters.onnx_rows import CLIP_OF_LSTM, ROWS, decimal
from rnnbridge.converters.onnx_write import build_model
from rnnbridge.errors import ArgumentError
from rnnbridge.rewrite import plan
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle, RNNWeights


def read(path: Path, settings: Settings) -> Bundle:
    """The layers of a model file."""
    bundle = read_bundle(read_model(path), str(path), settings)
    bundle.path = path
    return bundle


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """A model of the one layer or stack of a bundle."""
    if len(bundle.layers) > 1:
        raise ArgumentError(
            f"an ONNX model is written of one layer or stack, and there are {len(bundle.layers)}: "
            f"{', '.join(bundle.layers)}; choose with --layer NAME, or join those that follow each other with rb.stack"
        )
    ((name, weights),) = bundle.layers.items()
    found = plan(weights, ROWS.values())
    ready = found.apply(weights)
    inputs = {key: options.settings.flag(key) is not False for key in ("lengths", "initial_state")}
    batch_first = bool(weights.origin.order(options.batch_first))
    model = build_model(ready, found.row, name, batch_first=batch_first, **inputs)
    path.write_bytes(model.SerializeToString(deterministic=True))
    layer = WrittenLayer(name, name, found, _constructor(path.name, ready.spec, inputs))
    return Written((layer,), tuple(bundle.tensors), tuple(_notices(name, ready)))


def _constructor(file: str, spec: RNNSpec, inputs: dict[str, bool]) -> str:
    states = {"initial_h": "h0"} | ({"initial_c": "c0"} if spec.has_cell_state else {})
    feeds = {
        "x": "x",
        **(states if inputs["initial_state"] else {}),
        **({"lengths": "lengths"} if inputs["lengths"] else {}),
    }
    given = ", ".join(f'"{name}": {value}' for name, value in feeds.items())
    return f'onnxruntime.InferenceSession("{file}").run(None, {{{given}}})'


def _notices(name: str, ready: RNNWeights) -> list[str]:
    notices = []
    storage = ready.origin.storage_dtype or str(ready.dtype)
    if storage in ("float64", "bfloat16"):
        notices.append(
            f"{name}: ONNX Runtime has no {storage} {ready.spec.cell.upper()} on the CPU; the model is valid ONNX"
        )
    if ready.spec.cell == "lstm" and ready.spec.clip is not None:
        notices.append(f"{name}: {CLIP_OF_LSTM}")
    constants = [ready.spec.clip, *(value for one in ready.spec.activations for value in (one.alpha, one.beta))]
    if rounded := [value for value in constants if value is not None and decimal(value) != value]:
        notices.append(f"{name}: ONNX holds constants in float32, so {', '.join(map(repr, rounded))} are rounded")
    return notices


FORMATS = (
    Format(
        name="onnx",
        framework="onnx",
        suffixes=(".onnx",),
        reads="LSTM, GRU and RNN nodes of a model and its subgraphs; nodes that follow each other as one stack",
        writes="one layer or stack as a model with symbolic T and N, optional states and lengths",
        sniff=lambda path, head: is_model(head),
        read=read,
        write=write,
        judges=(Judge("ONNX Runtime", "onnxruntime", run_in_onnxruntime),),
        extra="onnx",
    ),
)
