"""Recurrent layers as variables of TensorFlow 1's cells, and the lines that make the cells. Writes no file."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.activation import Activation
from rnnbridge.catalogue import WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.converters.tensorflow_names import UNNAMED, structural
from rnnbridge.converters.tensorflow_rows import WRITTEN
from rnnbridge.errors import ArgumentError, Incompatible
from rnnbridge.files.narrow import narrowed
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]
_HOMES = {"CudnnCompatibleGRUCell": "tf.contrib.cudnn_rnn"}
_FUNCTIONS = {"elu(1.0)": "elu"}
_UNSAFE = re.compile(r"[^\w./-]")  # of what a scope may be called


def written_arrays(bundle: Bundle, options: WriteOptions) -> tuple[dict[str, Array], Written]:
    """Name -> array of every layer, and what was done.

    Raises:
        Incompatible: with every reason.
        ArgumentError: a forget bias that is no number.
    """
    arrays: dict[str, Array] = {}
    layers: list[WrittenLayer] = []
    for name, weights in bundle.layers.items():
        rows = tuple(_with_forget_bias(row, name, options) for row in WRITTEN)
        plan = _plan(name, weights, rows)
        ready = plan.apply(weights)
        # TensorFlow has float16; bfloat16 is written as the float32 it was widened to
        storage = "float16" if ready.origin.storage_dtype == "float16" else ""
        _, own = narrowed(plan.row.write(ready.arrays, ready.spec), storage)
        scope = _scope(name, {layer.target for layer in layers})
        both = plan.spec.num_directions == 2
        names = {key: key if both else key.replace("/fw/", "//", 1) for key in own}
        arrays |= {structural(scope, plan.row.name, plan.spec.num_layers, names[key]): own[key] for key in own}
        order = weights.origin.order(options.batch_first)
        line = _constructor(plan.row, plan.spec, scope, order)
        layers.append(WrittenLayer(name, scope, plan, line, _to_read_back(plan.row, plan.spec, order)))
    return arrays, Written(tuple(layers), not_converted=tuple(bundle.tensors))


def _plan(name: str, weights: RNNWeights, rows: tuple[Convention, ...]) -> rewrite.Plan:
    try:
        return rewrite.plan(weights, rows)
    except Incompatible as error:
        raise Incompatible(f"layer {name!r}: TensorFlow 1 cannot hold it", error.reasons) from error


def _with_forget_bias(row: Convention, name: str, options: WriteOptions) -> Convention:
    """LSTMs are written for forget_bias=0, which keeps the bits, unless another is set."""
    if row.cell != "lstm":
        return row
    said = options.settings.get("forget_bias", name) or "0"
    try:
        number = float(said)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(f"setting forget_bias={said!r}; it is a number")
    return replace(row, forget_bias=number)


def _scope(name: str, taken: set[str]) -> str:
    safe = _UNSAFE.sub("_", name).strip("/_-") or UNNAMED
    while safe in taken:
        safe += "1"
    return safe


def _constructor(row: Convention, spec: RNNSpec, scope: str, batch_first: bool | None) -> str:
    words = [str(spec.hidden_size)]
    words += ["use_peepholes=True"] if spec.peephole else []
    words += [f"num_proj={spec.proj_size}"] if spec.proj_size else []
    words += [f"{key}={getattr(spec, key)}" for key in ("cell_clip", "proj_clip") if getattr(spec, key)]
    words += [f"forget_bias={row.forget_bias}"] if spec.cell == "lstm" else []
    words += [f"activation=tf.nn.{_function(spec.activations[-1])}"] if str(spec.activations[-1]) != "tanh" else []
    cell = f"{_HOMES.get(row.layer, 'tf.nn.rnn_cell')}.{row.layer}({', '.join(words)})"
    many, both = spec.num_layers > 1, spec.num_directions == 2
    cells = f"[{cell} for _ in range({spec.num_layers})]" if many else cell
    rest = f"x, dtype=tf.float32, {'time_major=True, ' * (batch_first is False)}scope={scope!r})"
    if both:
        call = "tf.contrib.rnn.stack_bidirectional_dynamic_rnn" if many else "tf.nn.bidirectional_dynamic_rnn"
        return f"{call}({cells}, {cells}, {rest}"
    return f"tf.nn.dynamic_rnn({f'tf.nn.rnn_cell.MultiRNNCell({cells})' if many else cells}, {rest}"


def _function(activation: Activation) -> str:
    return _FUNCTIONS.get(str(activation), str(activation))


def _to_read_back(row: Convention, spec: RNNSpec, batch_first: bool | None) -> dict[str, str]:
    """What a checkpoint cannot say."""
    said = {"forget_bias": repr(row.forget_bias)} if spec.cell == "lstm" else {}
    said |= {key: repr(getattr(spec, key)) for key in ("cell_clip", "proj_clip") if getattr(spec, key)}
    activation = str(spec.activations[-1])
    said |= {"activation": activation} if activation != "tanh" else {}
    return said | ({} if batch_first is None else {"batch_first": str(batch_first).lower()})
