"""What a graph says of its recurrent cells that no checkpoint holds: the forget bias, the clips, the activation.

A cell is found by what it computes, whatever its scope is called: a kernel that is multiplied and split into four.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rnnbridge.converters.tensorflow_graph import Graph, Node, read_meta, read_saved_model

SAVED = "saved_model.pb"
_BLOCKS = {"LSTMBlockCell": ("block", 3), "BlockLSTM": ("fused", 4), "BlockLSTMV2": ("ifco", 4)}  # the kernel's place
_SUMS = ("BiasAdd", "Add", "AddV2")
# The defaults of the operations, which a graph may leave out.
_BLOCK_FORGET_BIAS, _BLOCK_CLIP = 1.0, 3.0
_ACTIVATIONS = {
    "Tanh": "tanh", "Relu": "relu", "Sigmoid": "sigmoid", "Softsign": "softsign", "Softplus": "softplus",
    "Elu": "elu(1.0)", "Selu": "selu",
}  # fmt: skip
_CANDIDATE = "/candidate/kernel"


@dataclass(frozen=True)
class Facts:
    """What a graph says of one cell.

    Args:
        kind: "split" of tf.nn.rnn_cell's LSTMs, "block", "fused", "ifco" of BlockLSTMV2, or "" of other cells.
        forget_bias: None where the graph does not show it.
        cell_clip, proj_clip: None for none.
        activation: its name; the operation's where it is none that is known; None where the graph does not show it.
    """

    kind: str = ""
    forget_bias: float | None = None
    cell_clip: float | None = None
    proj_clip: float | None = None
    activation: str | None = None


def facts_of(graph: Graph) -> dict[str, set[Facts]]:
    """Scope of a cell -> what is said of it: more than one thing where the graph has it more than once, and unlike."""
    found: dict[str, set[Facts]] = {}
    for scope, facts in _all_facts(graph):
        found.setdefault(scope, set()).add(facts)
    return found


def index_of(saved: Path) -> Path:
    """The index of a SavedModel's variables."""
    return saved.parent / "variables" / "variables.index"


def facts_beside(path: Path) -> Mapping[str, set[Facts]] | None:
    """What the graph says that lies where TensorFlow puts it beside an index, or is saved_model.pb itself; None where
    there is none.
    """
    meta = path.with_name(f"{path.name.removesuffix('.index')}.meta")
    saved = path if path.suffix == ".pb" else path.parent.parent / SAVED
    if path.suffix != ".pb" and meta.is_file():
        return facts_of(read_meta(meta))
    if saved.is_file() and path in (saved, index_of(saved)):
        return facts_of(read_saved_model(saved))
    return None


def _all_facts(graph: Graph) -> Iterator[tuple[str, Facts]]:
    scopes: dict[str, list[Node]] = {}
    for node in graph.nodes.values():
        if node.op == "Minimum":
            scopes.setdefault(_parent(_parent(node.name)), []).append(node)
    for node in graph.nodes.values():
        if node.op in _BLOCKS:
            kind, place = _BLOCKS[node.op]
            scope = _cell_scope(graph.variable(node, place))
            yield from _of_a_block(node, kind, scope)
        elif node.op == "Split" and node.number("num_split") == 4:
            yield from _of_a_split(graph, node, scopes.get(_parent(node.name), []))
        elif node.op == "MatMul":
            yield from _of_a_product(graph, node)


def _of_a_block(node: Node, kind: str, scope: str) -> Iterator[tuple[str, Facts]]:
    if scope:
        clip = node.real("cell_clip", 0.0 if kind == "ifco" else _BLOCK_CLIP)
        bias = 0.0 if kind == "ifco" else node.real("forget_bias", _BLOCK_FORGET_BIAS)
        yield scope, Facts(kind, bias, clip if clip > 0 else None, None, "tanh")


def _of_a_split(graph: Graph, split: Node, clips: list[Node]) -> Iterator[tuple[str, Facts]]:
    biased = graph.behind(split, 1)
    product = graph.behind(biased, 0) if biased is not None and biased.op in _SUMS else None
    scope = _cell_scope(graph.variable(product, 1)) if product is not None and product.op == "MatMul" else ""
    if not scope or not all(_is_gate(graph, split, place) for place in (0, 3)):
        return  # other products are split into four, too
    added = [
        graph.scalar(graph.behind(node, place))
        for node in graph.readers.get((split.name, 2), [])
        if node.op in _SUMS
        for place in (0, 1)
    ]
    forget = [number for number in added if number is not None]
    bounds = {
        (given.op if given is not None else ""): _clip(graph.scalar(graph.behind(node, 1)))
        for node in clips
        for given in [graph.behind(node, 0)]
    }
    cell_clip = next((bounds[op] for op in _SUMS if op in bounds), None)
    candidate = [node.op for node in graph.readers.get((split.name, 1), []) if "Grad" not in node.op]
    yield scope, Facts("split", forget[0] if forget else None, cell_clip, bounds.get("MatMul"), _activation(candidate))


def _is_gate(graph: Graph, split: Node, place: int) -> bool:
    """Whether a sigmoid is taken of a part of a split, or of its sum with a peephole's."""
    readers = graph.readers.get((split.name, place), [])
    sums = [after for node in readers if node.op in _SUMS for after in graph.readers.get((node.name, 0), [])]
    return any(node.op == "Sigmoid" for node in (*readers, *sums))


def _of_a_product(graph: Graph, product: Node) -> Iterator[tuple[str, Facts]]:
    """A GRU's candidate, or a plain RNN: a product, a bias, and the activation of that."""
    variable = graph.variable(product, 1)
    scope = variable.removesuffix(_CANDIDATE) if variable.endswith(_CANDIDATE) else _cell_scope(variable)
    sums = [node for node in graph.readers.get((product.name, 0), []) if node.op in _SUMS]
    after = [node.op for one in sums[:1] for node in graph.readers.get((one.name, 0), []) if "Grad" not in node.op]
    if scope and after and after[0] not in ("Split", "Sigmoid"):
        yield scope, Facts(activation=_activation(after))


def _clip(number: float | None) -> float:
    """A clip that is no constant is none that a layer can have, and not none."""
    return math.nan if number is None else number


def _activation(operations: list[str]) -> str | None:
    return _ACTIVATIONS.get(operations[0], operations[0]) if operations else None


def _cell_scope(variable: str) -> str:
    return variable.removesuffix("/kernel") if variable.endswith("/kernel") else ""


def _parent(name: str) -> str:
    return name.rpartition("/")[0]
