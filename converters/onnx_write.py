"""A model written straight from weights, without tracing: symbolic T and N, optional states and lengths.

    x [T, N, I] or [N, T, I]        y [T, N, .] or [N, T, .]; y_forward and y_backward where directions stay apart
    initial_h [L*D, N, H]           h [L*D, N, H]
    initial_c [L*D, N, H], LSTM     c [L*D, N, H], LSTM
    lengths int32 [N]

All inputs but x have a default, an initialiser of the same name: states of zeros for one sequence, spread over the
batch, and the length -1, which stands for T. A length above T is an error of whoever runs the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.convention import Convention
from rnnbridge.converters.onnx_builder import Builder
from rnnbridge.converters.onnx_rows import INPUTS, spelt
from rnnbridge.files.narrow import narrowed
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights, describe

Array = NDArray[Any]
_REDUCTIONS = {"sum": ("ReduceSum", 13), "mul": ("ReduceProd", 18), "ave": ("ReduceMean", 18)}  # axes an input since
_WHOLE = -1


def build_model(
    weights: RNNWeights,
    row: Convention,
    name: str,
    *,
    batch_first: bool,
    lengths: bool = True,
    initial_state: bool = True,
) -> Any:
    """The ModelProto of a layer or stack.

    Args:
        weights: as the row holds them.
        row: of ONNX's rows, the layer's.
        name: the nodes' name; those of a stack are `name_l0`, `name_l1` ...
        batch_first: x and y are [N, T, .].
        lengths, initial_state: whether the model has these inputs.
    """
    storage, _ = narrowed(weights.arrays, weights.origin.storage_dtype)  # of all layers or of none
    narrow = "" if storage == str(weights.dtype) else storage
    graph = Builder(storage)
    graph.input("x", [*(["N", "T"] if batch_first else ["T", "N"]), weights.spec.input_size])
    x = graph.add("Transpose", ["x"], perm=[1, 0, 2]) if batch_first else "x"
    shared = _OptionalInputs(graph, weights.spec, x, lengths, initial_state)
    finals: dict[str, list[str]] = {"h": [], "c": []}
    stack = weights.spec.num_layers > 1
    for layer, single in enumerate(weights.split()):
        spec, node = single.spec, f"{name}_l{layer}" if stack else name
        stored = row.write(narrowed(single.arrays, narrow)[1], spec)
        y = _recurrent(graph, row.layer, spec, node, stored, shared.of_layer(x, layer), finals)
        x = _joined(graph, y, spec) if spec.merge != "none" else y
    _outputs(graph, x, weights.spec, batch_first)
    for state, made in finals.items():
        if made:
            graph.add("Concat", made, [state], axis=0)
            graph.output(state, [len(made) * weights.spec.num_directions, "N", weights.spec.hidden_size])
    return graph.model(weights.spec, f"{describe(weights.spec)}; a length of {_WHOLE} stands for T")


class _OptionalInputs:
    """The inputs beside x, spread over the batch, and each layer's share of them."""

    def __init__(self, graph: Builder, spec: RNNSpec, x: str, lengths: bool, initial_state: bool) -> None:
        self._graph, self._spec = graph, spec
        self._whole: dict[str, str] = {}
        self.lengths = ""
        if not (lengths or initial_state):
            return
        shape = graph.add("Shape", [x])
        batch = graph.add("Gather", [shape, graph.constant([1])], axis=0)
        if lengths:
            given = graph.input("lengths", ["N_or_1"], np.array([_WHOLE], np.int32))
            spread = graph.add("Expand", [given, batch])
            steps = graph.add("Gather", [shape, graph.constant([0])], axis=0)
            steps = graph.add("Cast", [steps], to=6)
            whole = graph.add("Equal", [spread, graph.constant([_WHOLE], np.int32)])
            self.lengths = graph.add("Where", [whole, steps, spread])
        if initial_state:
            one = graph.constant([1])
            target = graph.add("Concat", [one, batch, one], axis=0)
            states = spec.num_layers * spec.num_directions
            for name in ("initial_h", "initial_c")[: 1 + spec.has_cell_state]:
                zeros = graph.zeros((states, 1, spec.hidden_size))
                given = graph.input(name, [states, "N_or_1", spec.hidden_size], zeros)
                self._whole[name] = graph.add("Expand", [given, target])

    def of_layer(self, x: str, layer: int) -> dict[str, str]:
        """The inputs of one layer's node but for its weights."""
        own = {"X": x, "sequence_lens": self.lengths}
        first, count = layer * self._spec.num_directions, self._spec.num_directions
        for name, whole in self._whole.items():
            share = self._graph.constant(list(range(first, first + count)))
            own[name] = self._graph.add("Gather", [whole, share], axis=0) if self._spec.num_layers > 1 else whole
        return own


def _recurrent(
    graph: Builder,
    operator: str,
    spec: RNNSpec,
    name: str,
    stored: dict[str, Array],
    inputs: dict[str, str],
    finals: dict[str, list[str]],
) -> str:
    """One LSTM, GRU or RNN node; adds its final states to `finals` and gives its Y [T, D, N, H]."""
    given = inputs | {slot: graph.store(f"{name}/{slot}", array) for slot, array in stored.items()}
    names = [given.get(place, "") for place in INPUTS]
    while not names[-1]:
        names.pop()
    made = [f"{name}/{output}" for output in ("Y", "h", "c")[: 2 + spec.has_cell_state]]
    for state, tensor in zip(("h", "c"), made[1:], strict=False):
        finals[state].append(tensor)
    return graph.add(operator, names, made, name, **dict(_attributes(spec)))


def _attributes(spec: RNNSpec) -> Iterator[tuple[str, Any]]:
    """The node's attributes, those only that differ from ONNX's defaults, activations always."""
    yield "hidden_size", spec.hidden_size
    yield "direction", spec.direction
    for name, values in spelt(spec.activations).items():
        yield name, values * spec.num_directions
    if spec.reset == "after":
        yield "linear_before_reset", 1
    if spec.coupled:
        yield "input_forget", 1
    if spec.clip is not None:
        yield "clip", spec.clip


def _joined(graph: Builder, y: str, spec: RNNSpec) -> str:
    """Y [T, D, N, H] as [T, N, .]."""
    if spec.merge in _REDUCTIONS:
        operator, axes_are_input_since = _REDUCTIONS[spec.merge]
        if graph.opset < axes_are_input_since:
            return graph.add(operator, [y], axes=[1], keepdims=0)
        return graph.add(operator, [y, graph.constant([1])], keepdims=0)
    turned = graph.add("Transpose", [y], perm=[0, 2, 1, 3])
    return graph.add("Reshape", [turned, graph.constant([0, 0, spec.output_size])])


def _outputs(graph: Builder, y: str, spec: RNNSpec, batch_first: bool) -> None:
    axes: list[int | str] = ["N", "T"] if batch_first else ["T", "N"]
    if spec.output_order == "processing":
        least = np.iinfo(np.int64).min
        y = graph.add("Slice", [y, *(graph.constant([value]) for value in (-1, least, 0, -1))])
    if spec.merge != "none":
        _named(graph, y, "y", batch_first)
        graph.output("y", [*axes, spec.output_size])
        return
    for index, name in enumerate(("y_forward", "y_backward")):
        one = graph.add("Gather", [y, graph.constant(index)], axis=1)
        _named(graph, one, name, batch_first)
        graph.output(name, [*axes, spec.hidden_size])


def _named(graph: Builder, y: str, name: str, batch_first: bool) -> None:
    if batch_first:
        graph.add("Transpose", [y], [name], perm=[1, 0, 2])
    else:
        graph.add("Identity", [y], [name])
