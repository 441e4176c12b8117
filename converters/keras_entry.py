"""A layer's entry in a config of Keras 3: its class, its name, a Sequential's input. Knows no arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rnnbridge.converters.keras_classes import KEYWORDS, LAMBDA_LEFT
from rnnbridge.converters.keras_config import is_keras_own

Entry = dict[str, Any]
_MODULES = {"Sequential": "keras", "Functional": "keras.src.models.functional"}  # as Keras 3 itself writes them
SAID_BY_MODULE = ("module", "registered_name", "build_config", "compile_config")


def with_module(entry: Entry) -> Entry:
    """An entry as `serialize_keras_object` of Keras 3 has it, which is what a layer within a layer must be."""
    if not is_keras_own(entry) or entry["class_name"] not in (*KEYWORDS, *_MODULES):
        return entry
    kind = entry["class_name"]
    rest = {key: value for key, value in entry.items() if key not in SAID_BY_MODULE}
    registered = kind if kind == "Functional" else None
    return {"module": _MODULES.get(kind, "keras.layers"), **rest, "registered_name": registered}


def lambda_entry(entry: Entry) -> Entry:
    """A Lambda as an archive has it; its code is carried as it is."""
    config = {key: value for key, value in entry["config"].items() if key not in LAMBDA_LEFT}
    if isinstance(code := config.get("function"), list) and len(code) == 3:
        parts = dict(zip(("code", "defaults", "closure"), code, strict=True))
        config["function"] = {"class_name": "__lambda__", "config": parts}
    return {"module": "keras.layers", **entry, "config": config, "registered_name": None}


def free_of_slashes(model: Entry) -> dict[str, str]:
    """New names for the layers whose names Keras 3 does not take."""
    names = list(_names(model))
    new: dict[str, str] = {}
    for name in names:
        if "/" in name and name not in new:
            free = name.replace("/", "_")
            while free in names or free in new.values():
                free += "_"
            new[name] = free
    return new


def _names(entry: Entry) -> Iterator[str]:
    config = entry.get("config")
    if isinstance(config, dict):
        if isinstance(config.get("name"), str):
            yield config["name"]
        below = config.get("layers", [config.get("layer")])
        for one in below if isinstance(below, list) else []:
            yield from _names(one) if isinstance(one, dict) else ()


def replaced(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [replaced(one, names) for one in value]
    return {key: replaced(one, names) for key, one in value.items()} if isinstance(value, dict) else value


def with_input(old: Sequence[Entry], entries: list[Entry]) -> list[Entry]:
    """The layers of a Sequential, whose shape older versions wrote into the first of them."""
    config = old[0].get("config", {}) if old else {}
    shape = config.get("batch_input_shape")
    if shape is None or old[0]["class_name"] == "InputLayer":
        return entries
    dtype = config.get("dtype", "float32")
    given = {"batch_shape": shape, "dtype": dtype if isinstance(dtype, str) else "float32"}
    first = {"class_name": "InputLayer", "config": {**given, "name": f"{config.get('name', 'first')}_input"}}
    return [with_module(first) if "module" in entries[0] else first, *entries]


def is_code(entry: Entry) -> bool:
    """Whether a layer is what its user defined, or code in the file."""
    return not is_keras_own(entry) or entry["class_name"] in ("Lambda", "TFOpLambda", "SlicingOpLambda")


def names_hard_sigmoid(config: Any) -> bool:
    """Whether a setting anywhere in a config is the activation of that name."""
    if isinstance(config, Mapping):
        named = (config.get(key) == "hard_sigmoid" for key in config if str(key).endswith("activation"))
        return any(named) or any(map(names_hard_sigmoid, config.values()))
    return isinstance(config, list) and any(map(names_hard_sigmoid, config))
