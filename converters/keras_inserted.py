"""A layer put before another in an upgraded config, where Keras 3 has what the other does under another scale alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rnnbridge.converters.keras_entry import Entry, with_module


def with_rescaling(config: Mapping[str, Any], names: Collection[str], scale: float, *, modules: bool) -> Entry:
    """A container's config with a Rescaling before each layer of these names; what they are called with goes there.

    Args:
        config: of a Sequential or a functional model, with its calls as Keras 3 reads them.
        names: of layers with one input.
        scale: by which the input is multiplied.
        modules: whether every class says its module.
    """
    layers: list[Entry] = []
    taken = {_name(entry) for entry in config["layers"]}
    for entry in config["layers"]:
        if _name(entry) not in names:
            layers.append(entry)
            continue
        new = f"{_name(entry)}_scaled"
        while new in taken:
            new += "_"
        given = {"name": new, "scale": scale, "offset": 0.0, "dtype": entry["config"].get("dtype", "float32")}
        before: Entry = {"class_name": "Rescaling", "config": given}
        if "inbound_nodes" in entry:
            calls = entry["inbound_nodes"]
            before |= {"name": new, "inbound_nodes": calls}
            entry = {**entry, "inbound_nodes": [[[new, number, 0, {}]] for number in range(len(calls))]}
        layers += [with_module(before) if modules else before, entry]
        taken.add(new)
    return {**config, "layers": layers}


def _name(entry: Mapping[str, Any]) -> Any:
    return entry["config"].get("name") if isinstance(entry["config"], Mapping) else entry.get("name")
