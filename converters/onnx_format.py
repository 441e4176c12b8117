"""The format "onnx": model files. What is in them is read and written elsewhere."""

from __future__ import annotations

from pathlib import Path

from rnnbridge.catalogue import Format, Judge, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.converters.onnx_bytes import is_model, onnx_package, read_model
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
    onnx_package()
    if len(bundle.layers) > 1:
        raise ArgumentError(
            f"an ONNX model is written of one layer or stack, and there are {len(bundle.layers)}: "
            f"{', '.join(bundle.layers)}; choose one with --layer NAME (in Python layers=, or rb.stack to join them)"
        )
    ((name, weights),) = bundle.layers.items()
    found = plan(weights, ROWS.values())
    ready = found.apply(weights)
    inputs = {key: options.settings.flag(key) is not False for key in ("lengths", "initial_state")}
    batch_first = bool(weights.origin.order(options.batch_first))
    model = build_model(ready, found.row, name, batch_first=batch_first, **inputs)
    path.write_bytes(model.SerializeToString(deterministic=True))
    layer = WrittenLayer(name, name, found, _constructor(path.name, ready.spec, inputs, batch_first))
    notices = _notices(name, ready)
    if any(inputs.values()):
        notices.append(
            "ONNX Runtime warns that inputs which have defaults are no constants, as they should not be; "
            "--set lengths=false and --set initial_state=false leave them out"
        )
    return Written((layer,), tuple(bundle.tensors), tuple(notices))


def _constructor(file: str, spec: RNNSpec, inputs: dict[str, bool], batch_first: bool) -> str:
    states = ["initial_h", *(["initial_c"] if spec.has_cell_state else [])]
    optional = [*(states if inputs["initial_state"] else []), *(["lengths"] if inputs["lengths"] else [])]
    shape = f"x [{'N, T' if batch_first else 'T, N'}, {spec.input_size}]"
    told = f"{shape}; optional: {', '.join(optional)}" if optional else shape
    return f'onnxruntime.InferenceSession("{file}").run(None, {{"x": x}})  # {told}'


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
