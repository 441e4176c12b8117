"""Where a recurrent node's output goes: followed through nodes that only rearrange it, to tell a stack, a merge of the
two directions and a flip of time from anything else. Knows no weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rnnbridge.converters.onnx_axes import Axes, Tracker
from rnnbridge.converters.onnx_graph import Scope, attribute_of, input_of
from rnnbridge.converters.onnx_node import is_recurrent
from rnnbridge.spec import Merge, OutputOrder, RNNSpec

_REDUCTIONS: dict[str, Merge] = {"ReduceSum": "sum", "ReduceProd": "mul", "ReduceMean": "ave"}
_START, _END = np.iinfo(np.int32).max, np.iinfo(np.int32).min  # and beyond: exporters write int64's bounds as well


@dataclass(frozen=True)
class Path:
    """How far the output was followed.

    Args:
        tensors: the last tensor, or the two that the directions were taken apart into.
        axes: of each of them, see onnx_axes.py.
        merge: None where nothing was seen that joins the directions, or there is one only.
        order: "processing" where the whole time axis was flipped.
        nodes: those passed.
        next: the recurrent node that reads the last tensor, and nothing else of it, as the next layer of a stack.
    """

    tensors: tuple[str, ...]
    axes: Axes
    merge: Merge | None = None
    order: OutputOrder = "input"
    nodes: tuple[Any, ...] = ()
    next: Any = None


def follow(node: Any, scope: Scope, spec: RNNSpec, batch_first: bool) -> Path:
    """Follow the output Y of a recurrent node.

    Args:
        spec: its layer's; only its sizes and direction matter.
        batch_first: the node has layout=1.
    """
    across = "D" if spec.num_directions == 2 else ""
    axes: Axes = ("N", "T", across, "H") if batch_first else ("T", across, "N", "H")
    tracker = Tracker(scope, {"D": 2, "H": spec.hidden_size, **_fixed(node, scope, batch_first)})
    path = Path((node.output[0] if node.output else "",), axes)
    while True:
        further = _further(path, scope, tracker, spec.direction == "reverse")
        if further is None:
            joined = spec.num_directions == 2 and path.merge is None and "DH" in path.axes
            return replace(path, merge="concat" if joined else path.merge)
        path = further


def _fixed(node: Any, scope: Scope, batch_first: bool) -> dict[str, int]:
    """T and N where the model's input has a fixed number of them."""
    extents = scope.extents(input_of(node, 0))[:2]
    return {label: extent for label, extent in zip("NT" if batch_first else "TN", extents, strict=False) if extent}


def _further(path: Path, scope: Scope, tracker: Tracker, reverse: bool) -> Path | None:
    """The path one step on, None at its end."""
    if len(path.tensors) == 2 or path.next is not None:
        return None
    (tensor,) = path.tensors
    tracker.axes[tensor] = path.axes
    readers = [one for one in scope.consumers.get(tensor, ()) if one.op_type != "Shape"]
    known = all(one.domain in ("", "ai.onnx") and one.output for one in readers)
    if tensor in scope.outputs or not readers or not known:
        return None
    if "D" in path.axes and (apart := _taken_apart(path, readers, scope)) is not None:
        return apart
    reader = readers[0]
    if len(readers) > 1 or list(reader.input).count(tensor) != 1 or input_of(reader, 0) != tensor:
        return None
    if is_recurrent(reader):
        return replace(path, next=reader) if _is_fed(path, reader) else None
    return _passed(path, reader, tracker, reverse)


def _is_fed(path: Path, reader: Any) -> bool:
    """Whether the axes are those of the next layer's X."""
    time_and_batch = ("N", "T") if attribute_of(reader, "layout", 0) else ("T", "N")
    return path.order == "input" and path.axes[:2] == time_and_batch and path.axes[2:] in (("H",), ("DH",))


def _passed(path: Path, node: Any, tracker: Tracker, reverse: bool) -> Path | None:
    axes, order, merge = path.axes, path.order, path.merge
    if node.op_type in _REDUCTIONS:
        places = tracker.places(node, len(axes))
        if [axes[place] for place in places] != ["D"]:
            return None
        kept = [""] if attribute_of(node, "keepdims", 1) else []
        merge, place = _REDUCTIONS[node.op_type], axes.index("D")
        axes = (*axes[:place], *kept, *axes[place + 1 :])
    elif node.op_type == "Slice":
        if not reverse or not _flips_time(axes, node, tracker.scope):
            return None
        order = "processing"
    else:
        rearranged = tracker.after(node)
        if rearranged is None:
            return None
        axes = rearranged
    return Path((str(node.output[0]),), axes, merge, order, (*path.nodes, node))


def _taken_apart(path: Path, readers: list[Any], scope: Scope) -> Path | None:
    """The two directions as two tensors: by one Split, or by a Gather for each."""
    place, rank = path.axes.index("D"), len(path.axes)
    before, behind = path.axes[:place], path.axes[place + 1 :]
    if any(one.op_type not in ("Split", "Gather") or attribute_of(one, "axis", 0) % rank != place for one in readers):
        return None
    if len(readers) == 1 and readers[0].op_type == "Split" and len(readers[0].output) == 2:
        forward, backward = map(str, readers[0].output)
        return Path((forward, backward), (*before, "", *behind), "none", path.order, (*path.nodes, *readers))
    indices = [scope.constant_or_none(input_of(one, 1)) for one in readers]
    by_index = {int(i): one for i, one in zip(indices, readers, strict=True) if i is not None and i.shape == ()}
    if len(readers) == 2 and set(by_index) == {0, 1}:
        names = (str(by_index[0].output[0]), str(by_index[1].output[0]))
        return Path(names, before + behind, "none", path.order, (*path.nodes, *readers))
    return None


def _flips_time(axes: Axes, node: Any, scope: Scope) -> bool:
    given = [scope.constant_or_none(name) for name in node.input[1:]]
    values = [int(one.ravel()[0]) for one in given if one is not None and one.size == 1]
    if len(given) != 4 or len(values) != 4:
        return False
    start, end, axis, step = values
    return step == -1 and (start == -1 or start >= _START) and end <= _END and axes[axis % len(axes)] == "T"
