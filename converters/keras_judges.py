"""Keras itself as the judge of a file's layer: the file's own arrays in a layer made from its settings, and run.

Arrays of cuDNN layers and of Keras 1 go through tf_keras's own loader. Imports a Keras only when it judges.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Judge, JudgeTask
from rnnbridge.convention import Convention
from rnnbridge.converters.keras_blocks import Block, numbers
from rnnbridge.converters.keras_constructor import arguments, merge_mode
from rnnbridge.converters.keras_memory import Memory
from rnnbridge.converters.keras_rows import LAYER_ROWS, keras_class
from rnnbridge.converters.keras_source import contents, open_file
from rnnbridge.errors import Incompatible
from rnnbridge.spec import RNNSpec

Array = NDArray[Any]
_ONLY_TF_KERAS = "Keras 3 has no loader for the arrays of {}, so tf_keras judges them"


def row_of(spec: RNNSpec, version: int) -> Convention:
    """The row of the layer that has exactly this spec in Keras of a major version.

    Raises:
        Incompatible: it has no such activation.
    """
    rows = (row for row in LAYER_ROWS[version] if row.cell == spec.cell and spec.reset in (row.reset or (None,)))
    row = next(rows)
    missing = [
        f"Keras {version} has no activation {one}"
        for one, allowed in zip(spec.activations, row.activations, strict=True)
        if str(one) not in allowed
    ]
    if missing:
        raise Incompatible(f"Keras {version} cannot run this layer", missing)
    return row


def make_layer(keras: Any, row: Convention, spec: RNNSpec, **more: Any) -> Any:
    """A layer of Keras, not built yet; a stack becomes RNN over its cells."""
    given = arguments(row, spec) | more
    if spec.num_layers == 1:
        layer = getattr(keras.layers, keras_class(row))(**given)
    else:
        outer = {name: given.pop(name) for name in _OF_THE_LAYER if name in given}
        cell = getattr(keras.layers, f"{keras_class(row)}Cell")
        layer = keras.layers.RNN([cell(**given) for _ in range(spec.num_layers)], **outer)
    if spec.num_directions == 1:
        return layer
    return keras.layers.Bidirectional(layer, merge_mode=merge_mode(spec))


_OF_THE_LAYER = ("return_sequences", "return_state", "go_backwards")


def _judge(package: str, version: int) -> Callable[[JudgeTask], dict[str, Array]]:
    def run(task: JudgeTask) -> dict[str, Array]:
        spec = task.weights.spec
        row = row_of(spec, version)
        blocks = _blocks(task)
        keras = importlib.import_module(package)
        layer = make_layer(keras, row, spec, return_state=True, dtype=str(task.weights.dtype))
        layer.build((task.x.shape[1], None, spec.input_size))
        layer.set_weights(_loaded(layer, blocks, task, version))
        return _run(keras, layer, task, row.state_order.split())

    return run


def _blocks(task: JudgeTask) -> tuple[Block, ...]:
    """The layer's arrays as they lie in the file."""
    file, root = open_file(task.path)
    return contents(file, task.settings, Memory(root)).carried.blocks(task.layer)


def _loaded(layer: Any, blocks: Sequence[Block], task: JudgeTask, version: int) -> list[Array]:
    kind = task.weights.origin.convention.removeprefix("keras.")
    arrays = [numbers(array, name) for block in blocks for name, array in block.arrays.items()]
    keras1 = blocks[0].is_keras1
    if not keras1 and not kind.startswith("CuDNN"):
        return arrays
    if version >= 3:
        raise Incompatible("Keras 3 cannot load this layer", [_ONLY_TF_KERAS.format(kind)])
    from tf_keras.src.saving.legacy.hdf5_format import preprocess_weights_for_loading

    loaded: list[Array] = preprocess_weights_for_loading(layer, arrays, "1" if keras1 else "2.3.1", "tensorflow")
    return loaded


def _run(keras: Any, layer: Any, task: JudgeTask, order: Sequence[str]) -> dict[str, Array]:
    spec, steps = task.weights.spec, len(task.x)
    lengths = np.full(task.x.shape[1], steps) if task.lengths is None else np.asarray(task.lengths)
    valid = np.arange(steps) < lengths[:, None]  # [N, T]
    mask = None if task.lengths is None else _tensor(keras, valid)
    answer = layer(_tensor(keras, task.x.transpose(1, 0, 2)), initial_state=_states(keras, task, order), mask=mask)
    outputs = [_numpy(keras, one) for one in _flat(answer)]
    count = 2 if spec.num_directions == 2 and spec.merge == "none" else 1
    y, states = np.concatenate(outputs[:count], axis=-1), outputs[count:]
    y = y * (valid[:, ::-1] if spec.output_order == "processing" else valid)[..., None]
    return {"y": y.transpose(1, 0, 2), **{name: np.stack(states[k :: len(order)]) for k, name in enumerate(order)}}


def _states(keras: Any, task: JudgeTask, order: Sequence[str]) -> list[Any]:
    """[h_forward, c_forward, h_backward, c_backward], or [h, c] of every cell of a stack, in the row's order."""
    given: dict[str, Any] = {"h": task.h0, "c": task.c0}
    pairs = [[_tensor(keras, given[name][k]) for name in order] for k in range(len(task.h0))]
    if task.weights.spec.num_layers > 1:
        return [pair if len(pair) > 1 else pair[0] for pair in pairs]
    return [state for pair in pairs for state in pair]


def _tensor(keras: Any, array: Array) -> Any:
    if hasattr(keras, "ops"):
        return keras.ops.convert_to_tensor(np.ascontiguousarray(array))
    return keras.backend.constant(array, dtype=str(array.dtype))


def _numpy(keras: Any, tensor: Any) -> Array:
    return np.asarray(keras.ops.convert_to_numpy(tensor) if hasattr(keras, "ops") else tensor)


def _flat(answer: Any) -> list[Any]:
    if isinstance(answer, (list, tuple)):
        return [one for part in answer for one in _flat(part)]
    return [answer]


JUDGES = (Judge("tf_keras", "tf_keras", _judge("tf_keras", 2)), Judge("Keras 3", "keras", _judge("keras", 3)))
