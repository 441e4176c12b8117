"""Paddle's `.pdparams` files, the state_dict of a layer or model, read and written without Paddle.

Written are the names under the cells, which set_state_dict takes; see paddle_names.py for the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.catalogue import Format, Judge, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.converters.paddle_faults import notices
from rnnbridge.converters.paddle_judge import run_layer
from rnnbridge.converters.paddle_layer import Reader
from rnnbridge.converters.paddle_names import groups_of, only_second_names, second_names, structural
from rnnbridge.converters.paddle_pickle import looks_like_params, params_bytes, read_params
from rnnbridge.converters.paddle_rows import CELLS, CONVENTIONS, LAYERS
from rnnbridge.errors import FormatError, Incompatible
from rnnbridge.files.narrow import narrowed
from rnnbridge.prefix import UNNAMED, prefix_of
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]
_CELL_NAMES = {row.name for row in CELLS}
_SECOND_NAMES = (
    "set_state_dict warns of names such as weight_ih_l0 that are not in the file: second names of the parameters that "
    "it loads"
)


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file begins as the format does."""
    return looks_like_params(head)


def read(path: Path, settings: Settings) -> Bundle:
    """Read the recurrent layers among a file's arrays: layers, cells, and what nn.RNN and nn.BiRNN run."""
    held = read_params(path)
    groups = groups_of(held)
    if not groups and (shifted := only_second_names(held)):
        raise FormatError(
            f"{path}: {shifted[0]} and the like are second names, which Paddle shifts where there is a projection; "
            "save the layer's whole state_dict, which has 0.cell.weight_ih and the like as well"
        )
    layers = {
        name: Reader(group, f"{path}: layer {name!r}", name, settings).weights(held) for name, group in groups.items()
    }
    used = {full for group in groups.values() for full in group.names.values()}
    used |= set(second_names(held, groups.values()))
    others = {name: held[name] for name in held if name not in used}
    return Bundle(layers, others, format="paddle", path=path, notices=notices(_rows_of(layers)))


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write every layer under its name."""
    arrays: dict[str, Array] = {}
    layers: list[WrittenLayer] = []
    for name, weights in bundle.layers.items():
        prefix = prefix_of(bundle, name, {layer.target for layer in layers})
        plan = plan_for(name, weights)
        ready = plan.apply(weights)
        stored, own = narrowed(plan.row.write(ready.arrays, ready.spec), ready.origin.storage_dtype)
        both = plan.spec.num_directions == 2
        arrays |= {prefix + structural(key, both): array for key, array in own.items()}
        order = None if plan.row.batch_first is None else weights.origin.order(options.batch_first)
        line = _constructor(plan.row, plan.spec, order, stored)
        target = prefix.rstrip(".") or UNNAMED
        layers.append(WrittenLayer(name, target, plan, line, _to_read_back(plan.row, plan.spec, order)))
    path.write_bytes(params_bytes(arrays))
    rows = [(layer.plan.row, bundle.layers[layer.source]) for layer in layers]
    second = (_SECOND_NAMES,) * any(row in LAYERS for row, _ in rows)
    return Written(tuple(layers), not_converted=tuple(bundle.tensors), notices=(*notices(rows), *second))


def plan_for(name: str, weights: RNNWeights, rows: tuple[Convention, ...] = ()) -> rewrite.Plan:
    """How Paddle's nn holds a layer; a layer that came from a cell becomes a cell again.

    Raises:
        Incompatible: with every reason.
    """
    try:
        return rewrite.plan(weights, rows or (CELLS if weights.origin.convention in _CELL_NAMES else LAYERS))
    except Incompatible as error:
        raise Incompatible(f"layer {name!r}: Paddle cannot hold it", error.reasons) from error


FORMATS = (
    Format(
        name="paddle",
        framework="paddle",
        suffixes=(".pdparams",),
        reads="a state_dict by paddle.save: nn's layers and cells by the names of their cells; no code in it is run",
        writes="a state_dict for set_state_dict",
        sniff=sniff,
        read=read,
        write=write,
        rows=LAYERS,
        judges=(Judge("PaddlePaddle", "paddle", run_layer),),
    ),
)


def _rows_of(layers: dict[str, RNNWeights]) -> list[tuple[Convention, RNNWeights]]:
    rows = {row.name: row for row in CONVENTIONS}
    return [(rows[weights.origin.convention], weights) for weights in layers.values()]


def _constructor(row: Convention, spec: RNNSpec, batch_first: bool | None, dtype: str) -> str:
    """The line that makes the layer."""
    words = [str(spec.input_size), str(spec.hidden_size)]
    if row in LAYERS:
        words += [f"num_layers={spec.num_layers}"] if spec.num_layers > 1 else []
        words += ["direction='bidirect'"] if spec.num_directions == 2 else []
        words += ["time_major=True"] if batch_first is False else []
    words += [f"activation={str(spec.activations[0])!r}"] if spec.cell == "rnn" else []
    words += [f"proj_size={spec.proj_size}"] if spec.proj_size else []
    made = f"paddle.nn.{row.layer}({', '.join(words)})"
    return made if dtype != "float64" else f"{made}.to(dtype='float64')"


def _to_read_back(row: Convention, spec: RNNSpec, batch_first: bool | None) -> dict[str, str]:
    """What the file cannot say."""
    settings = {"activation": str(spec.activations[0])} if row.cell == "rnn" else {}
    return settings | ({} if batch_first is None else {"batch_first": str(batch_first).lower()})
