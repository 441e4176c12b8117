"""cuDNN's flat weight buffer in a one-dimensional `.npy` file. Imports no framework.

A buffer says nothing of itself: what the layer is has to be set, and the input size follows from the length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge import flat, rewrite
from rnnbridge.catalogue import Format, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.converters.cudnn_rows import ONE_BIAS, TWO_BIASES
from rnnbridge.errors import ArgumentError, FormatError, Incompatible
from rnnbridge.files.narrow import narrowed, widened
from rnnbridge.files.zip import npy_bytes, read_npy
from rnnbridge.spec import Bias, RNNSpec
from rnnbridge.weights import Assumption, Bundle, Origin, RNNWeights, describe

Array = NDArray[Any]
_NAME = "rnn"
_FLOATS = ("float16", "float32", "float64")
_ONE_DIMENSION = re.compile(rb"'shape': \(\d+,\)")
# cudnnRNNBiasMode_t, and which bias form a layer of that many numbers has.
_MODES: dict[str, Bias] = {"none": "none", "single_inp": "single", "single_rec": "single", "double": "double"}
_CONSTANTS = {
    "none": "CUDNN_RNN_NO_BIAS", "single_inp": "CUDNN_RNN_SINGLE_INP_BIAS",
    "single_rec": "CUDNN_RNN_SINGLE_REC_BIAS", "double": "CUDNN_RNN_DOUBLE_BIAS",
}  # fmt: skip
_USUAL = "double"


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file is a vector in NumPy's format."""
    return head.startswith(b"\x93NUMPY") and bool(_ONE_DIMENSION.search(head))


def read(path: Path, settings: Settings) -> Bundle:
    """Read a buffer as the layer that the settings say it is."""
    vector = read_npy(path.read_bytes(), str(path))
    if vector.ndim != 1 or vector.dtype.name not in _FLOATS:
        raise FormatError(f"{path}: {vector.dtype} {list(vector.shape)}; a buffer is a vector of {', '.join(_FLOATS)}")
    mode = _mode(settings)
    said = flat.said_of(settings, _NAME, str(path), vector.size, _MODES[mode or _USUAL])
    row = _row(said.spec, _MODES[mode or _USUAL])
    batch_first = settings.flag("batch_first", _NAME)
    origin = Origin(
        framework=row.framework,
        convention=row.name,
        name=_NAME,
        batch_first=batch_first,
        padding=row.padding,
        storage_dtype="float16" if vector.dtype == np.float16 else "",
        evidence=(f"{vector.size} numbers are all matrices, then all biases, of a {describe(said.spec)}",),
        assumptions=(*said.assumptions, *_unsaid(mode, batch_first)),
    )
    wide = widened(vector.astype(vector.dtype.newbyteorder("=")), vector.dtype.name)
    spec, arrays = _apart(row, wide, said.spec, mode)
    return Bundle({_NAME: RNNWeights(spec, arrays, origin)}, format="cudnn", path=path)


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write one layer as a buffer, in the bias mode that is set, else in that of its own biases."""
    if len(bundle.layers) > 1:
        reason = f"a buffer holds one layer or stack; choose one of {', '.join(map(repr, bundle.layers))}"
        raise Incompatible("cuDNN's buffer cannot hold these", [reason])
    ((name, weights),) = bundle.layers.items()
    mode = _mode(options.settings)
    form = weights.spec.bias if mode is None else _MODES[mode]
    plan = rewrite.plan(weights, ONE_BIAS if form == "single" and mode != "single_rec" else TWO_BIASES)
    ready = plan.apply(weights)
    mode = mode or {"none": "none", "single": "single_inp", "double": "double"}[plan.spec.bias]
    arrays = plan.row.write(ready.arrays, ready.spec)
    storage = "float16" if ready.origin.storage_dtype == "float16" else ""
    _, stored = narrowed(_kept(name, arrays, mode), storage)
    path.write_bytes(npy_bytes(flat.together(plan.row, stored, plan.spec)))
    order = weights.origin.order(options.batch_first)
    layer = WrittenLayer(name, _NAME, plan, _constructor(plan.spec, mode), _to_read_back(plan.spec, mode, order))
    return Written((layer,), not_converted=tuple(bundle.tensors))


FORMATS = (
    Format(
        name="cudnn",
        framework="cudnn",
        suffixes=(".cudnn.npy",),
        reads="the flat weight buffer as a vector in a .npy file; cell, hidden_size ... are set",
        writes="the flat weight buffer, in every bias mode",
        sniff=sniff,
        read=read,
        write=write,
    ),
)


def _mode(settings: Settings) -> str | None:
    mode = settings.get("bias_mode", _NAME)
    if mode is not None and mode not in _MODES:
        raise ArgumentError(f"setting bias_mode={mode!r}; it is {', '.join(_MODES)}")
    return mode


def _row(spec: RNNSpec, bias: Bias) -> Convention:
    return next(row for row in (ONE_BIAS if bias == "single" else TWO_BIASES) if row.cell == spec.cell)


def _unsaid(mode: str | None, batch_first: bool | None) -> list[Assumption]:
    unsaid = [] if mode else [Assumption("bias_mode", _USUAL, "cuDNN's default, and the one that PyTorch sets")]
    return unsaid + (
        [] if batch_first is not None else [Assumption("batch_first", "false", "a buffer has no order of sequences")]
    )


def _apart(row: Convention, vector: Array, spec: RNNSpec, mode: str | None) -> tuple[RNNSpec, dict[str, Array]]:
    """The layer. A bias on the recurrent side alone has zeros on the input side."""
    arrays = row.read(flat.apart(row, vector, spec), spec)
    if mode != "single_rec":
        return spec, arrays
    recurrent = {name.replace("bias_ih", "bias_hh"): array for name, array in arrays.items()}
    zeros = {name: np.zeros_like(array) for name, array in arrays.items() if name.startswith("bias_ih")}
    return spec.replace(bias="double"), recurrent | zeros


def _kept(name: str, arrays: Mapping[str, Array], mode: str) -> dict[str, Array]:
    """The arrays that a bias mode has."""
    if mode != "single_rec":
        return dict(arrays)
    dropped = [key for key in arrays if key.startswith("bias_ih")]
    if held := [key for key in dropped if np.any(arrays[key])]:
        reason = f"bias mode single_rec has a bias on the recurrent side alone, and {', '.join(held)} is not zero"
        raise Incompatible(f"layer {name!r}: cuDNN cannot hold it so", [reason])
    return {key: array for key, array in arrays.items() if key not in dropped}


def _constructor(spec: RNNSpec, mode: str) -> str:
    """What cudnnSetRNNDescriptor_v8 is given."""
    kind = {"lstm": "CUDNN_LSTM", "gru": "CUDNN_GRU"}.get(spec.cell) or f"CUDNN_RNN_{str(spec.activations[0]).upper()}"
    direction = "CUDNN_BIDIRECTIONAL" if spec.num_directions == 2 else "CUDNN_UNIDIRECTIONAL"
    sizes = f"inputSize={spec.input_size}, hiddenSize={spec.hidden_size}, projSize={spec.state_size}"
    return f"{kind}, {_CONSTANTS[mode]}, {direction}, CUDNN_LINEAR_INPUT, {sizes}, numLayers={spec.num_layers}"


def _to_read_back(spec: RNNSpec, mode: str, batch_first: bool | None) -> dict[str, str]:
    """Everything that makes the layer out of the vector."""
    said = {
        "cell": spec.cell,
        "hidden_size": str(spec.hidden_size),
        "num_layers": str(spec.num_layers),
        "bidirectional": str(spec.num_directions == 2).lower(),
        "bias_mode": mode,
    }
    said |= {"proj_size": str(spec.proj_size)} if spec.proj_size else {}
    said |= {"activation": str(spec.activations[0])} if spec.cell == "rnn" else {}
    return said | ({} if batch_first is None else {"batch_first": str(batch_first).lower()})
