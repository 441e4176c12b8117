"""Masks that Keras 2 makes, joins or fills otherwise than Keras 3: what heeds or ignores them would come out different.

A mask is known by what computes it, so two inputs with one mask are no obstacle; a nested model is walked for every
call of it. Knows configs of Keras 2, no arrays.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rnnbridge.converters.keras_calls import Call, graph_of, name_of_entry, settings_of_entry
from rnnbridge.converters.keras_classes import CONTAINERS, KEYWORDS
from rnnbridge.converters.keras_given_masks import Givers
from rnnbridge.converters.keras_mask_facts import (
    ATTENTION,
    HEEDS,
    MERGES,
    PASS,
    RECURRENT,
    SELECTIVE,
    gives_sequences,
    is_step_by_step,
    makes_masks,
    mask_can_be_computed,
    on_gpu,
)
from rnnbridge.converters.keras_one import of_keras_1
from rnnbridge.converters.keras_order import order_differences

_UNEQUAL = "its mask is joined of unequal ones in {0!r}, by all in Keras 2 and by any in Keras 3"
_ONE_SIDED = (
    "its mask comes out of {0!r}, where a masked tensor meets one without a mask: Keras 2 keeps the mask and Keras 3 "
    "drops it"
)
_NOT_REDUCED = "its mask comes out of TimeDistributed {0!r}, one for each step in Keras 2 and within each in Keras 3"

_ORDER = (
    "in Keras 3 it might come before layer {0!r}, since what computes a mask is a part of the graph there, and the two "
    "would take each other's arrays"
)
_WITH_STATES = "it takes initial states, and to such a call Keras 3 gives no mask"


@dataclass(frozen=True)
class Flow:
    """What is known of a tensor.

    Args:
        mask: a number for what computes it, None where there is no mask.
        differs: why its mask is another in Keras 3, "" where it is the same.
        deep: whether it is also of another shape there, so that it cannot be joined with others.
        past: whose numbers past a mask are others in Keras 3, and how; "" where they are the same.
    """

    mask: int | None = None
    differs: str = ""
    deep: bool = False
    past: str = ""


def mask_differences(
    model: Mapping[str, Any], repeats: bool, archive: bool | None = None
) -> tuple[list[str], list[str]]:
    """What in a model of Keras 2 would see another mask, or other numbers past one, in Keras 3.

    Args:
        model: {"class_name": ..., "config": ...} of a functional model or a Sequential.
        repeats: whether its Bidirectional gives its last output again past a mask, where that of Keras 3 gives zeros.
        archive: whether it becomes an archive, where layers are counted by class; None leaves their order alone,
            and their calls, to which no mask is given then.

    Returns:
        What makes other outputs, and what makes them only where the mask is not heeded; one sentence each.
    """
    walk = _Walk(repeats, archive)
    walk.container(model, "", [], [])
    return list(walk.refused), list(walk.told)


def masks_to_give(model: Mapping[str, Any]) -> Givers:
    """Which calls of a model of Keras 2 take initial states and a mask, and which layer makes the mask."""
    walk = _Walk(False, False)
    walk.container(model, "", [], [])
    return walk.givers


def past_matters(model: Mapping[str, Any]) -> bool:
    """Whether what a Bidirectional gives past a mask shows in a model of Keras 2: it is read, or given out."""

    def shown(repeats: bool) -> tuple[list[str], list[str]]:
        walk = _Walk(repeats, None)
        given_out = walk.container(model, "", [], [])
        return [flow.past for flow in given_out], list(walk.refused)

    return shown(True) != shown(False)


def masked_on_gpu(model: Mapping[str, Any]) -> list[str]:
    """Which cuDNN layers of a model of Keras 2 a mask reaches, one sentence each. They take none."""
    walk = _Walk(False, None)
    walk.container(model, "", [], [])
    return list(walk.on_gpu)


class _Walk:
    """One pass over a model, layer by layer in the order of computation."""

    def __init__(self, repeats: bool, archive: bool | None) -> None:
        self.repeats, self.archive = repeats, archive
        self.refused: dict[str, None] = {}
        self.told: dict[str, None] = {}
        self.on_gpu: dict[str, None] = {}
        self.givers: dict[str, dict[tuple[str, int], tuple[str, int]]] = {}
        self._makers: dict[int, tuple[str, int]] = {}  # a mask's number -> the call of the layer that makes it
        self._numbers: dict[Hashable, int] = {}
        self._done: dict[Hashable, list[Flow]] = {}

    def container(
        self, entry: Mapping[str, Any], path: str, flows: Sequence[Flow], keys: Sequence[Hashable]
    ) -> list[Flow]:
        """A nested model's outputs. Calls whose masks are alike are walked once, so that depth costs no time."""
        given = list(dict.fromkeys(flow.mask for flow in flows if flow.mask is not None))
        alike = tuple(flow if flow.mask is None else replace(flow, mask=-1 - given.index(flow.mask)) for flow in flows)
        if (id(entry), alike) not in self._done:
            self._done[id(entry), alike] = self._outputs(entry, path, alike)
        out = []
        for flow in self._done[id(entry), alike]:
            if flow.mask is not None:
                own = flow.mask < 0
                number = given[-1 - flow.mask] if own else self._number((id(entry), flow.mask, *keys, *given))
                flow = replace(flow, mask=number)
            out.append(flow)
        return out

    def _outputs(self, entry: Mapping[str, Any], path: str, given: Sequence[Flow]) -> list[Flow]:
        graph = graph_of(entry)
        flows = dict(zip(graph.inputs, given, strict=False))
        entries = {call.name: call.entry for call in graph.calls}
        for call in graph.calls:
            if (call.name, call.number, 0) in flows:
                continue  # an input, whose mask is known from outside
            taken = [flows.get(key, Flow()) for key in call.takes]
            if call.mask and taken:
                taken[0] = replace(taken[0], mask=self._number(("given", call.mask)))
            elif call.entry["class_name"] in RECURRENT and (call.states or len(taken) > 1):
                taken[0] = self._with_states(call, path, taken[0])
            name = path + name_of_entry(call.entry)
            for number, flow in enumerate(self._layer(call.entry, name, taken, [id(entry), *call.takes])):
                flows[call.name, call.number, number] = flow
                if flow.mask is not None and mask_can_be_computed(call, entries):
                    self._makers.setdefault(flow.mask, (call.name, call.number))
        masked = {key for key, flow in flows.items() if flow.mask is not None}
        if masked and self.archive is not None and "output_layers" in settings_of_entry(entry):
            for first, second in order_differences(graph, masked, of_one_class=self.archive):
                self._refuse(path + second, _ORDER.format(path + first))
        return [flows.get(key, Flow()) for key in graph.outputs]

    def _with_states(self, call: Call, path: str, flow: Flow) -> Flow:
        """The input of a recurrent layer that is called with initial states."""
        if flow.mask is not None and (self.archive is None or flow.mask not in self._makers):
            return replace(flow, differs=flow.differs or _WITH_STATES)
        if flow.mask is not None:
            self.givers.setdefault(path, {})[call.name, call.number] = self._makers[flow.mask]
        return flow

    def _layer(
        self, entry: Mapping[str, Any], name: str, flows: Sequence[Flow], keys: Sequence[Hashable]
    ) -> list[Flow]:
        """What comes out of a layer, its first tensor first; those after the last are neither masked nor different."""
        if entry["class_name"] == "Merge":
            entry = of_keras_1(entry)[0]
        kind = entry["class_name"]
        if kind in CONTAINERS:
            return self.container(entry, f"{name}/", flows, keys)
        if kind == "TimeDistributed":
            return [self._time_distributed(entry, name, flows[0] if flows else Flow(), keys)]
        self._check(kind, entry, name, flows)
        after = self._after(kind, settings_of_entry(entry), name, flows, keys)
        both = kind == "Bidirectional" and settings_of_entry(entry).get("merge_mode", "concat") is None
        return [after] * (2 if both else 1)

    def _time_distributed(self, entry: Mapping[str, Any], name: str, flow: Flow, keys: Sequence[Hashable]) -> Flow:
        inner = settings_of_entry(entry).get("layer")
        if not isinstance(inner, Mapping) or "class_name" not in inner:
            return Flow()
        if makes_masks(inner):
            self._refuse(name, "TimeDistributed hands on its own layer's mask in Keras 2, and does not in Keras 3")
        after = (self._layer(inner, name, [flow], keys) or [Flow()])[0]
        if flow.mask is None or after.mask == flow.mask:
            return after if flow.mask is not None else Flow()
        return Flow(self._number((name, flow.mask)), _NOT_REDUCED.format(name), deep=True)

    def _check(self, kind: str, entry: Mapping[str, Any], name: str, flows: Sequence[Flow]) -> None:
        if kind == "Softmax" and any(flow.mask is not None for flow in flows):
            self._refuse(name, "Softmax leaves masked steps out in Keras 3, and does not look at masks in Keras 2")
        if on_gpu(kind, entry) and any(flow.mask is not None for flow in flows):
            self.on_gpu[f"layer {name!r}: a mask reaches it, and the cuDNN layers of Keras 2 take none"] = None
        heeds = kind in HEEDS or kind not in KEYWORDS  # a class that is not known may
        for flow in flows:
            if flow.differs and (heeds or (flow.deep and kind in MERGES)):
                self._refuse(name, flow.differs)
            if flow.past and kind not in HEEDS and not is_step_by_step(kind, entry):
                self._refuse(name, f"it reads what {flow.past}")

    def _after(
        self, kind: str, config: Mapping[str, Any], name: str, flows: Sequence[Flow], keys: Sequence[Hashable]
    ) -> Flow:
        first = flows[0] if flows else Flow()
        if kind == "Masking":
            return Flow(self._number((kind, *keys, repr(config.get("mask_value")))))
        if kind == "Embedding":
            return Flow(self._number((kind, *keys)) if config.get("mask_zero") else None)
        if kind in MERGES:
            return self._joined(kind, config, name, flows)
        if kind in PASS:
            return first
        if kind in ATTENTION:
            return Flow(first.mask)
        if kind not in RECURRENT or not gives_sequences(config):
            return Flow()
        filled = self.repeats and kind == "Bidirectional" and first.mask is not None
        past = f"{name!r} gives past a mask, its last output again in this Keras and zeros in Keras 3"
        return Flow(first.mask, past=past if filled else "")

    def _joined(self, kind: str, config: Mapping[str, Any], name: str, flows: Sequence[Flow]) -> Flow:
        masks = [flow.mask for flow in flows]
        past = next((flow.past for flow in flows if flow.past), "")
        if all(mask is None for mask in masks):
            return Flow(past=past)
        if kind in SELECTIVE:
            past = past or f"{name!r} gives past a mask, where {kind} of Keras 3 leaves the masked input out"
            self.told[
                f"{name}: where an input of it is masked, {kind} of Keras 3 leaves that input out: the same for layers "
                "that heed the mask, not for others"
            ] = None
        differs = next((flow.differs for flow in flows if flow.differs), "")
        if all(mask == masks[0] for mask in masks):
            return Flow(masks[0], differs, past=past)
        if not (kind == "Concatenate" and config.get("axis", -1) in (1, -2)):  # over time they are put end to end
            differs = (_ONE_SIDED if None in masks else _UNEQUAL).format(name)
        return Flow(self._number((name, *masks)), differs, past=past)

    def _refuse(self, name: str, why: str) -> None:
        self.refused[f"layer {name!r}: {why}"] = None

    def _number(self, what: Hashable) -> int:
        return self._numbers.setdefault(what, len(self._numbers))
