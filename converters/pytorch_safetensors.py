"""state_dicts in `.safetensors` files, with what a state_dict cannot say in the metadata. Needs no torch.

The metadata entry "rnnbridge" is JSON: {"version": 1, "layers": {entry name: {"spec": RNNSpec, "batch_first": ...}}}.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge.catalogue import Format, Judge, JudgeTask, Settings, WriteOptions, Written
from rnnbridge.converters.pytorch_judge import run_module
from rnnbridge.converters.pytorch_names import Said, State
from rnnbridge.converters.pytorch_rows import MODULES
from rnnbridge.converters.pytorch_states import StoredLayer, bundle_of, stored_layers, written
from rnnbridge.errors import FormatError, Incompatible, SpecError
from rnnbridge.files.narrow import widened
from rnnbridge.files.safetensors_file import Tensor, looks_like_safetensors, read_safetensors, safetensors_bytes
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle

Array = NDArray[Any]
_KEY, _VERSION = "rnnbridge", 1


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file begins as the format does."""
    return looks_like_safetensors(head)


def read(path: Path, settings: Settings) -> Bundle:
    """Read the recurrent layers among a file's tensors; our metadata, where there are any, are checked and used."""
    contents = read_safetensors(path)
    state = State(
        {name: widened(tensor.array, tensor.dtype) for name, tensor in contents.tensors.items()},
        {name: t.dtype for name, t in contents.tensors.items() if t.dtype in ("float16", "bfloat16")},
        contents.unreadable,
    )
    return bundle_of(state, path, "safetensors", settings, _said(path, contents.metadata))


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write all layers as one state_dict, with their specs in the metadata."""
    layers = stored_layers(bundle, options, metadata=True)
    tensors = {
        layer.prefix + name: Tensor(layer.dtype, array) for layer in layers for name, array in layer.arrays.items()
    }
    path.write_bytes(safetensors_bytes(tensors, {"format": "pt", _KEY: _told(layers)}))
    return written(bundle, layers)


def _judge(task: JudgeTask) -> dict[str, Array]:
    try:
        from safetensors.torch import load_file
    except ImportError:
        reason = "safetensors is not installed: pip install 'rnnbridge[pytorch]'"
        raise Incompatible("PyTorch cannot open a .safetensors file", [reason]) from None
    return run_module(task, load_file(task.path))


FORMATS = (
    Format(
        name="safetensors",
        framework="pytorch",
        suffixes=(".safetensors",),
        reads="state_dicts with any prefixes; rnnbridge's own metadata",
        writes="a state_dict for module.load_state_dict, with the layers' specs in the metadata",
        sniff=sniff,
        read=read,
        write=write,
        rows=MODULES,
        judges=(Judge("PyTorch", "torch", _judge),),
    ),
)


def _told(layers: list[StoredLayer]) -> str:
    entries = {
        layer.written.target: {"spec": layer.plan.spec.to_dict(), "batch_first": layer.batch_first} for layer in layers
    }
    return json.dumps({"version": _VERSION, "layers": entries}, separators=(",", ":"))


def _said(path: Path, metadata: dict[str, str]) -> dict[str, Said]:
    if _KEY not in metadata:
        return {}
    try:
        ours = json.loads(metadata[_KEY])
        if ours["version"] != _VERSION:
            raise FormatError(f"{path}: its metadata are of version {ours['version']}; {_VERSION} is read")
        return {name: _said_of(entry) for name, entry in ours["layers"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: damaged metadata {_KEY!r}: {error}") from error


def _said_of(entry: dict[str, Any]) -> Said:
    batch_first = entry["batch_first"]
    if batch_first not in (None, True, False):
        raise SpecError(f"batch_first is {batch_first!r}")
    return Said(batch_first, RNNSpec.from_dict(entry["spec"]))
