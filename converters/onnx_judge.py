"""ONNX Runtime as a judge: it runs the file's own nodes and stored arrays, not what rnnbridge read.

A file of our writer's form is run as it is. Of any other, the layer's nodes and what lies between them are put into a
model of their own, unchanged but for the inputs that a judge must set: X, sequence_lens and the initial states. Arrays
that are not float32 pass through a Cast, since ONNX Runtime lacks the operators in other types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import JudgeTask
from rnnbridge.converters.onnx_bytes import read_model
from rnnbridge.converters.onnx_extract import FLOAT, INT32, STATES, Extract
from rnnbridge.converters.onnx_graph import Scope, attribute_of, main_scope
from rnnbridge.converters.onnx_read import Entry, read_entries
from rnnbridge.errors import Incompatible, MissingExtraError

Array = NDArray[Any]


def run_in_onnxruntime(task: JudgeTask) -> dict[str, Array]:
    """Run one layer of a file.

    ONNX Runtime gives zero as the final state of an empty sequence; in its place stands the initial state, as
    everywhere in rnnbridge.

    Returns:
        y [T, N, .], h [L*D, N, H] and, for an LSTM, c [L*D, N, H].

    Raises:
        Incompatible: something that ONNX Runtime lacks or does otherwise than ONNX says.
    """
    scope = main_scope(read_model(task.path), str(task.path))
    entry = next(one for one in read_entries(scope, task.settings) if one.name == task.layer)
    _refuse(entry)
    steps, batch = task.x.shape[:2]
    lengths = np.full(batch, steps) if task.lengths is None else task.lengths
    feeds = {
        "x": task.x.astype(np.float32),
        "lengths": lengths.astype(np.int32),
        "initial_h": task.h0.astype(np.float32),
    }
    if task.c0 is not None:
        feeds["initial_c"] = task.c0.astype(np.float32)
    got = _run_file(task, entry, feeds) if _is_our_form(scope, entry) else _run_nodes(scope, entry, feeds)
    empty = lengths == 0
    for state, initial in (("h", task.h0), ("c", task.c0)):
        if initial is not None:
            got[state] = np.where(empty[:, None], initial, got[state])
    return got


def _refuse(entry: Entry) -> None:
    reasons = []
    if any(attribute_of(node, "layout", 0) for node in entry.nodes):
        reasons.append("it rejects layout=1")
    if entry.paths[-1].merge is None and entry.weights.spec.merge not in ("concat", "none"):
        reasons.append(f"the file does not say that the directions are joined by {entry.weights.spec.merge}")
    if reasons:
        raise Incompatible("ONNX Runtime cannot judge this layer", reasons)


def _is_our_form(scope: Scope, entry: Entry) -> bool:
    names = {"x", "lengths", "initial_h", *(["initial_c"] if entry.weights.spec.has_cell_state else [])}
    floats = {value.type.tensor_type.elem_type for value in scope.graph.input if value.name != "lengths"}
    return {value.name for value in scope.graph.input} == names and floats == {1} and entry.scope is scope


def _run_file(task: JudgeTask, entry: Entry, feeds: dict[str, Array]) -> dict[str, Array]:
    order = (1, 0, 2) if entry.weights.origin.batch_first else (0, 1, 2)
    outputs = _run(task.path.read_bytes(), feeds | {"x": feeds["x"].transpose(order)})
    ys = [outputs.pop(name).transpose(order) for name in list(outputs) if name.startswith("y")]
    return {"y": np.concatenate(ys, axis=2), **outputs}


def _run_nodes(scope: Scope, entry: Entry, feeds: dict[str, Array]) -> dict[str, Array]:
    spec, extract = entry.weights.spec, Extract(entry.scope)
    fed = {extract.input("x", FLOAT): feeds["x"], extract.input("lengths", INT32): feeds["lengths"]}
    finals: dict[str, list[str]] = {"h": [], "c": []}
    for layer, (node, path) in enumerate(zip(entry.nodes, entry.paths, strict=True)):
        share = slice(layer * spec.num_directions, (layer + 1) * spec.num_directions)
        states = {extract.input(f"{name}_{layer}", FLOAT): feeds[name][share] for name in STATES if name in feeds}
        fed |= states
        below = entry.paths[layer - 1].tensors[0] if layer else extract.named("x")
        for state, name in extract.recurrent(node, below, extract.named("lengths"), list(states)).items():
            finals[state].append(name)
        for step in path.nodes:
            extract.take(step)
    ends = [name or extract.output_of(entry.nodes[-1]) for name in entry.paths[-1].tensors]
    outputs = _run(extract.model([*ends, *finals["h"], *finals["c"]]), fed)
    sizes = dict(zip("TN", feeds["x"].shape[:2], strict=True)) | {"D": spec.num_directions, "H": spec.hidden_size}
    ys = [_arranged(outputs[name], entry.paths[-1].axes, sizes) for name in ends]
    got = {state: np.concatenate([outputs[name] for name in names]) for state, names in finals.items() if names}
    return {"y": np.concatenate(ys, axis=2), **got}


def _arranged(array: Array, axes: tuple[str, ...], sizes: dict[str, int]) -> Array:
    labels = "".join(axes)
    apart = array.reshape([sizes[label] for label in labels])
    order = [labels.index(label) for label in "TNDH" if label in labels]
    return apart.transpose(order).reshape(sizes["T"], sizes["N"], -1)


def _run(model: bytes, feeds: dict[str, Array]) -> dict[str, Array]:
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as errors
    except ImportError as error:
        raise MissingExtraError("judging ONNX models", "onnxruntime", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, feeds), strict=True))
    except errors.NotImplemented as error:
        raise Incompatible("ONNX Runtime cannot judge this layer", [str(error)]) from error
