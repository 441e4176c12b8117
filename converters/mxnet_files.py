"""MXNet 1.x's `.params` files, read and written without MXNet.

What is written has the names of `Block.save_parameters`, so that `load_parameters` of a gluon.rnn layer, or of a model
that has one under the same name, takes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.catalogue import Format, Judge, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.converters.mxnet_judge import run_layer
from rnnbridge.converters.mxnet_layer import Reader
from rnnbridge.converters.mxnet_names import groups_of, structural
from rnnbridge.converters.mxnet_params import looks_like_params, params_bytes, read_params
from rnnbridge.converters.mxnet_rows import CELLS, LAYERS, LSTMP_CELL
from rnnbridge.errors import Incompatible
from rnnbridge.files.narrow import narrowed
from rnnbridge.prefix import UNNAMED, prefix_of
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]
_CELLS = (*CELLS, LSTMP_CELL)
_CELL_NAMES = {row.name for row in _CELLS}
_LENGTHS = "MXNet on a CPU ignores sequence lengths without a word (measured with 1.9.1): mask its outputs yourself"
_DIGITS = 10  # gluon's own names have one digit for the layer: with 11 it raises AttributeError


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file begins as the format does."""
    return looks_like_params(head)


def read(path: Path, settings: Settings) -> Bundle:
    """Read the recurrent layers among a file's arrays: layers, cells, unpacked gates, packed vectors."""
    held = read_params(path)
    groups = groups_of(held)
    layers = {
        name: Reader(group, f"{path}: layer {name!r}", name, settings).weights(held) for name, group in groups.items()
    }
    used = {full for group in groups.values() for full in group.names.values()}
    return Bundle(layers, {name: held[name] for name in held if name not in used}, format="mxnet", path=path)


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write every layer under its name."""
    arrays: dict[str, Array] = {}
    layers: list[WrittenLayer] = []
    for name, weights in bundle.layers.items():
        prefix = prefix_of(bundle, name, {layer.target for layer in layers})
        plan = plan_for(name, weights)
        ready = plan.apply(weights)
        stored, own = narrowed(plan.row.write(ready.arrays, ready.spec), _storage(ready))
        both = plan.spec.num_directions == 2
        arrays |= {prefix + structural(key, both): array for key, array in own.items()}
        order = None if plan.row.batch_first is None else weights.origin.order(options.batch_first)
        line = _constructor(plan.row, plan.spec, order, stored)
        target = prefix.rstrip(".") or UNNAMED
        layers.append(WrittenLayer(name, target, plan, line, _to_read_back(plan.row, plan.spec, order)))
    path.write_bytes(params_bytes(arrays))
    notices = (_LENGTHS,) if any(layer.plan.row in LAYERS for layer in layers) else ()
    return Written(tuple(layers), not_converted=tuple(bundle.tensors), notices=notices)


def plan_for(name: str, weights: RNNWeights, rows: tuple[Convention, ...] = ()) -> rewrite.Plan:
    """How MXNet holds a layer; a layer that came from a cell becomes a cell again.

    Raises:
        Incompatible: with every reason.
    """
    if weights.spec.num_layers > _DIGITS:
        raise Incompatible(
            f"layer {name!r}: MXNet cannot hold it", [f"a gluon.rnn layer has at most {_DIGITS} layers; split it"]
        )
    try:
        return rewrite.plan(weights, rows or (_CELLS if weights.origin.convention in _CELL_NAMES else LAYERS))
    except Incompatible as error:
        raise Incompatible(f"layer {name!r}: MXNet cannot hold it", error.reasons) from error


FORMATS = (
    Format(
        name="mxnet",
        framework="mxnet",
        suffixes=(".params",),
        reads="MXNet 1.x parameters, oldest magic to newest: gluon layers and cells, symbols packed or unpacked",
        writes="parameters under the names of Block.save_parameters, for load_parameters",
        sniff=sniff,
        read=read,
        write=write,
        rows=LAYERS,
        judges=(Judge("MXNet", "mxnet", run_layer),),
    ),
)


def _storage(weights: RNNWeights) -> str:
    """MXNet has float16; bfloat16 is written as the float32 it was widened to."""
    return "float16" if weights.origin.storage_dtype == "float16" else ""


def _constructor(row: Convention, spec: RNNSpec, batch_first: bool | None, dtype: str) -> str:
    home = "mx.gluon.contrib.rnn" if row is LSTMP_CELL else "mx.gluon.rnn"
    words = [str(spec.hidden_size)]
    if row in LAYERS:
        words += [f"num_layers={spec.num_layers}"] if spec.num_layers > 1 else []
        words += ["layout='NTC'"] if batch_first else []
        words += ["bidirectional=True"] if spec.num_directions == 2 else []
    words += [f"projection_size={spec.proj_size}"] if spec.proj_size else []
    words += [f"activation={str(spec.activations[0])!r}"] if row.cell == "rnn" else []
    words += [f"input_size={spec.input_size}"]
    words += [f"dtype={dtype!r}"] if dtype != "float32" and row in LAYERS else []
    return f"{home}.{row.layer}({', '.join(words)})"


def _to_read_back(row: Convention, spec: RNNSpec, batch_first: bool | None) -> dict[str, str]:
    """What the file cannot say."""
    settings = {"activation": str(spec.activations[0])} if row.cell == "rnn" else {}
    return settings | ({} if batch_first is None else {"batch_first": str(batch_first).lower()})
