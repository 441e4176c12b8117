"""The recurrent layers of an ONNX model: its nodes, and the stacks that they form. Knows no file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Settings
from rnnbridge.converters.onnx_graph import Scope, attribute_of, input_of, main_scope
from rnnbridge.converters.onnx_node import is_recurrent, read_node
from rnnbridge.converters.onnx_path import Path, follow
from rnnbridge.converters.onnx_rows import CLIP_OF_LSTM, INPUTS, ROWS
from rnnbridge.errors import ArgumentError, FormatError
from rnnbridge.spec import Merge
from rnnbridge.weights import Assumption, Bundle, RNNWeights, stack, stacking_obstacles

Array = NDArray[Any]
_LENGTHS = INPUTS.index("sequence_lens")
_STATES = {name: INPUTS.index(name) for name in ("initial_h", "initial_c")}


@dataclass(frozen=True)
class Entry:
    """One layer or stack of a model.

    Args:
        name: as in the bundle.
        weights: the layer.
        scope: the graph that its nodes are in.
        nodes: its recurrent nodes, lowest first.
        paths: where each one's output goes.
    """

    name: str
    weights: RNNWeights
    scope: Scope
    nodes: tuple[Any, ...]
    paths: tuple[Path, ...]


def read_entries(scope: Scope, settings: Settings) -> list[Entry]:
    """Every recurrent layer of a model, in its order; what joined them is in the paths.

    Raises:
        FormatError: a recurrent node that cannot be read, by name.
    """
    singles: list[Entry] = []
    for at, node in scope.walk():
        if is_recurrent(node):
            name = _unique(at.path + (node.name or _weights_prefix(node, len(singles))), [one.name for one in singles])
            what = f"{scope.where}: {node.op_type} node {name!r}"
            weights = read_node(node, at, what)
            try:
                path = follow(node, at, weights.spec, bool(weights.origin.batch_first))
                weights = _in_its_graph(weights, path, at, node, name, settings)
            except FormatError as error:
                raise FormatError(f"{what} cannot be placed in its graph: {error}") from error
            singles.append(Entry(name, weights, at, (node,), (path,)))
    return [_joined(chain) for chain in _chains(singles)]


def read_bundle(model: Any, where: str, settings: Settings) -> Bundle:
    """The layers of a ModelProto, and every other stored array."""
    scope = main_scope(model, where)
    entries = read_entries(scope, settings)
    written_by = f"{model.producer_name} {model.producer_version}".strip()
    layers = {one.name: one.weights.with_origin(version=written_by) for one in entries}
    notices = (*_passed_over(scope), *(notice for one in entries for notice in _notices(one)))
    return Bundle(layers, dict(_others(scope, model)), format="onnx", notices=notices)


def _in_its_graph(
    weights: RNNWeights, path: Path, scope: Scope, node: Any, name: str, settings: Settings
) -> RNNWeights:
    """The layer with what its surroundings say: the merge, the order of its output and of sequences."""
    origin, merge = replace(weights.origin, name=name), path.merge or "concat"
    if weights.spec.num_directions == 2 and path.merge is None:
        merge = _assumed_merge(settings, name)
        because = "nothing in the graph that joins the output's two directions was recognised"
        origin = replace(origin, assumptions=(Assumption("merge", merge, because),))
    first = scope.producers.get(input_of(node, 0))
    evidence = list(origin.evidence)
    if first is not None and first.op_type == "Transpose" and attribute_of(first, "perm", []) == [1, 0, 2]:
        origin = replace(origin, batch_first=not origin.batch_first)
        evidence.append("a Transpose(1, 0, 2) turns its sequences round first")
    evidence += [f"its directions are joined by {merge}"] if path.merge else []
    evidence += ["a Slice flips its output's time axis"] if path.order == "processing" else []
    spec = weights.spec.replace(merge=merge, output_order=path.order)
    return RNNWeights(spec, weights.arrays, replace(origin, evidence=tuple(evidence)))


def _assumed_merge(settings: Settings, name: str) -> Merge:
    merge = settings.get("merge", name) or "concat"
    if merge not in get_args(Merge):
        raise ArgumentError(f"setting merge={merge!r}; it is one of {', '.join(get_args(Merge))}")
    return merge  # type: ignore[return-value]


def _chains(singles: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Nodes that form one stack together, in the order of their first ones."""
    above = {index: _next(singles, index) for index in range(len(singles))}
    for index in sorted(set(above) - set(above.values())):
        chain, place = [], index
        while place >= 0:
            chain.append(singles[place])
            place = above.pop(place, -1)
        yield chain


def _next(singles: Sequence[Entry], index: int) -> int:
    lower = singles[index]
    for place in range(index + 1, len(singles)):
        upper = singles[place]
        if upper.scope is lower.scope and upper.nodes[0] is lower.paths[0].next:
            same_lengths = input_of(lower.nodes[0], _LENGTHS) == input_of(upper.nodes[0], _LENGTHS)
            return place if same_lengths and not stacking_obstacles(lower.weights, upper.weights) else -1
    return -1


def _joined(chain: Sequence[Entry]) -> Entry:
    first = chain[0]
    if len(chain) == 1:
        return first
    weights = stack([one.weights for one in chain])
    numbered = [f"{first.name.removesuffix('_l0')}_l{layer}" for layer in range(len(chain))]
    name = first.name.removesuffix("_l0") if numbered == [one.name for one in chain] else first.name
    evidence = f"{len(chain)} nodes in a row are one stack: {', '.join(one.name for one in chain)}"
    weights = weights.with_origin(name=name, evidence=(*weights.origin.evidence, evidence))
    nodes = tuple(one.nodes[0] for one in chain)
    return Entry(name, weights, first.scope, nodes, tuple(one.paths[0] for one in chain))


def _weights_prefix(node: Any, count: int) -> str:
    """What a nodeless name makes of the weights' own: "encoder" from "encoder/W"; else one by number."""
    name = input_of(node, INPUTS.index("W"))
    cut = max(name.rfind(mark) for mark in "/.")
    return name[:cut] if cut > 0 else f"{node.op_type.lower()}_{count}"


def _unique(name: str, taken: Sequence[str]) -> str:
    numbered = (f"{name}_{count}" if count else name for count in range(len(taken) + 1))
    return next(one for one in numbered if one not in taken)


def _notices(entry: Entry) -> Iterator[str]:
    if entry.weights.spec.cell == "lstm" and entry.weights.spec.clip is not None:
        yield f"{entry.name}: {CLIP_OF_LSTM}"
    for node in entry.nodes:
        for what, place in _STATES.items():
            given = entry.scope.constant_or_none(input_of(node, place)) if input_of(node, place) else None
            if given is not None and np.any(given):
                yield f"{entry.name}: {what} is stored in the model and not zero; it is not part of the weights"
        lengths = input_of(node, _LENGTHS)
        if lengths and entry.scope.constant_or_none(lengths) is not None:
            yield f"{entry.name}: sequence_lens is stored in the model; it is not part of the weights"


def _passed_over(scope: Scope) -> Iterator[str]:
    for at, node in scope.walk():
        like = any(word in node.op_type.upper() for word in ROWS)
        if like and not is_recurrent(node):
            kind = f"{node.op_type} of {node.domain or 'ai.onnx'}"
            yield f"the node {at.path + node.name!r} is a {kind}, which is not read"


def _others(scope: Scope, model: Any) -> Iterator[tuple[str, Array]]:
    """The stored arrays that no recurrent node reads. Our own writer stores none but sizes and defaults of inputs."""
    seen: list[Scope] = []
    for at, _ in scope.walk() if model.producer_name != "rnnbridge" else ():
        if at not in seen:
            seen.append(at)
            yield from (
                (at.path + name, at.array(tensor))
                for name, tensor in at.initializers.items()
                if at.path + name not in scope.used
            )
