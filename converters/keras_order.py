"""Layers that Keras 3 might take in another order than their file has them, so that their arrays would change places.

Keras finds arrays by the order of a model's layers, and orders a graph's layers by how far they are from its outputs
(map_graph in keras/src/ops/function.py). In Keras 3 what computes a mask is a part of the graph too, so that layers
whose outputs masks are computed from move away from the outputs. Knows calls and which tensors are masked, no arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from rnnbridge.converters.keras_calls import Call, Graph, Key
from rnnbridge.converters.keras_classes import CONTAINERS, KEYWORDS, OWN_ARRAYS, RENAMED_CLASSES

_WITH_ARRAYS = (
    *OWN_ARRAYS, *CONTAINERS, "LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "TimeDistributed", "Attention",
    "AdditiveAttention",
)  # fmt: skip


def order_differences(graph: Graph, masked: Collection[Key], *, of_one_class: bool) -> Iterator[tuple[str, str]]:
    """Pairs of layers with arrays, the first of which might come after the second in Keras 3.

    Args:
        graph: of a functional model.
        masked: the tensors that have a mask.
        of_one_class: whether only layers of one class are counted together, as in an archive.
    """
    bits = {(call.name, call.number): 1 << place for place, call in enumerate(graph.calls)}
    before: dict[tuple[str, int], int] = {}
    for call in graph.calls:
        before[call.name, call.number] = _together(
            bits[key[:2]] | before[key[:2]] for key in call.needs if key[:2] in bits
        )
    moved = dict.fromkeys(bits, frozenset[object]())
    for moving, reason in _moving(graph, masked, bits, before):
        moved |= {one: moved[one] | {reason} for one, bit in bits.items() if bit & moving}
    names = [name for name in graph.names if any(one == name for one, _ in bits)]
    kinds = {call.name: _kind(call) for call in graph.calls}
    ranks: dict[str, tuple[int, int, frozenset[object]]] = {}
    for (name, number), bit in bits.items():
        own, behind, reasons = ranks.get(name, (0, 0, frozenset()))
        ranks[name] = own | bit, behind | before[name, number], reasons | moved[name, number]
    with_arrays = [name for name in names if kinds[name] in _WITH_ARRAYS or kinds[name] not in KEYWORDS]
    for place, first in enumerate(with_arrays):
        for second in with_arrays[place + 1 :]:
            if (of_one_class and kinds[first] != kinds[second]) or ranks[second][2] <= ranks[first][2]:
                continue
            if not (ranks[second][1] & ranks[first][0]):
                yield first, second


def _moving(
    graph: Graph, masked: Collection[Key], bits: Mapping[tuple[str, int], int], before: Mapping[tuple[str, int], int]
) -> Iterator[tuple[int, object]]:
    """What masks are computed from: the calls, and by which layer and how."""
    for call in graph.calls:
        joins = call.entry["class_name"] in ("Concatenate", "Merge") and any(key in masked for key in call.takes)
        if joins or call.entry["class_name"] == "Masking":
            for key in call.takes:
                if key[:2] in bits:
                    yield bits[key[:2]] | before[key[:2]], (call.name, call.number, key in masked)


def _together(values: Iterator[int]) -> int:
    out = 0
    for value in values:
        out |= value
    return out


def _kind(call: Call) -> str:
    kind = str(call.entry["class_name"])
    return RENAMED_CLASSES.get(kind, kind)
