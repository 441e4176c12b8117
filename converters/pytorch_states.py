"""A whole state_dict to a bundle and back, whatever file it is in. Imports neither torch nor files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge.catalogue import Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.converters.pytorch_layer import Reader
from rnnbridge.converters.pytorch_modules import constructor, order_of, plan_for
from rnnbridge.converters.pytorch_names import UNNAMED, Said, State, groups_of, neighbours, without_drop
from rnnbridge.errors import Incompatible
from rnnbridge.files.narrow import narrowed
from rnnbridge.rewrite import Plan
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]


def bundle_of(
    state: State, path: Path, format_name: str, settings: Settings, said: Mapping[str, Said] | None = None
) -> Bundle:
    """Every recurrent layer of a state_dict, and its other arrays.

    Args:
        said: entry name -> what the file says beside the arrays.

    Raises:
        FormatError: an array that is missing, left over or of a wrong shape, or metadata that the arrays contradict.
    """
    state, of_drop = without_drop(state)
    groups = groups_of(state)
    said = said or {}
    layers = {
        name: Reader(state, group, f"{path}: layer {name!r}", name, settings, said.get(name)).weights()
        for name, group in groups.items()
    }
    used = {full for group in groups.values() for full in group.names.values()}
    notices = [
        *of_drop,
        *(f"the metadata describe {name!r}, whose arrays are not there" for name in said if name not in groups),
    ]
    notices += [
        f"{name}: beside its arrays lie {', '.join(others)}, which no layer of torch.nn has and which were not read"
        for name, group in groups.items()
        if (others := neighbours(state, group))
    ]
    notices += [f"{name} is {dtype}, which NumPy has no numbers for" for name, dtype in state.unreadable.items()]
    tensors = {name: array for name, array in state.arrays.items() if name not in used}
    return Bundle(layers, tensors, format=format_name, path=path, notices=tuple(notices))


@dataclass(frozen=True)
class StoredLayer:
    """One layer ready to be written: its prefix, its arrays without it, and what these are stored as."""

    plan: Plan
    prefix: str
    dtype: str
    arrays: Mapping[str, Array]
    batch_first: bool | None
    written: WrittenLayer


def stored_layers(bundle: Bundle, options: WriteOptions, *, metadata: bool) -> list[StoredLayer]:
    """Every layer of a bundle as PyTorch names and lays it out.

    A layer's name in its source is the prefix of its arrays; a single one without a name has none.

    Args:
        metadata: whether the file says what a state_dict cannot.

    Raises:
        Incompatible: PyTorch cannot hold a layer.
    """
    prefixes = _prefixes(bundle)
    return [_stored(name, weights, prefixes[name], options, metadata) for name, weights in bundle.layers.items()]


def written(bundle: Bundle, layers: list[StoredLayer]) -> Written:
    """What a writer reports of these."""
    notices = tuple(
        f"the names of the arrays begin with {layer.prefix!r}: take that off for module.load_state_dict"
        for layer in layers
        if layer.prefix and len(layers) == 1
    )
    return Written(tuple(layer.written for layer in layers), not_converted=tuple(bundle.tensors), notices=notices)


def _stored(name: str, weights: RNNWeights, prefix: str, options: WriteOptions, metadata: bool) -> StoredLayer:
    try:
        plan = plan_for(weights)
    except Incompatible as error:
        raise Incompatible(f"layer {name!r}: PyTorch cannot hold it", error.reasons) from error
    ready = plan.apply(weights)
    dtype, arrays = narrowed(plan.row.write(ready.arrays, ready.spec), ready.origin.storage_dtype)
    batch_first = order_of(plan, weights, options.batch_first)
    line = constructor(plan.row, plan.spec, batch_first, weights.dtype)
    target = prefix.removesuffix(".") or UNNAMED
    said_outside = {} if metadata else _to_read_back(plan, batch_first)
    return StoredLayer(plan, prefix, dtype, arrays, batch_first, WrittenLayer(name, target, plan, line, said_outside))


def _to_read_back(plan: Plan, batch_first: bool | None) -> dict[str, str]:
    """What a state_dict cannot say."""
    settings = {"nonlinearity": str(plan.spec.activations[0])} if plan.row.cell == "rnn" else {}
    if batch_first is not None:
        settings["batch_first"] = str(batch_first).lower()
    return settings


def _prefixes(bundle: Bundle) -> dict[str, str]:
    if list(bundle.layers) == [UNNAMED]:
        return {UNNAMED: ""}
    taken: dict[str, str] = {}
    for name, weights in bundle.layers.items():
        safe = _module_path(name, weights)
        while f"{safe}." in taken.values():
            safe += "_"
        taken[name] = f"{safe}."
    return taken


def _module_path(name: str, weights: RNNWeights) -> str:
    """A name that a module can have. PyTorch's own dots lead into submodules and stay; other names have none."""
    allowed = r"[^\w.]" if weights.origin.framework == "pytorch" else r"\W"
    return re.sub(allowed, "_", name).strip(".") or UNNAMED
