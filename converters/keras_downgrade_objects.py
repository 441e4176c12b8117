"""An entry of a config, and the objects in it, as Keras 2 has them. Knows no layer and no arrays."""

from __future__ import annotations

from typing import Any

from rnnbridge.converters.keras_downgrade_facts import INITIALIZERS, REGULARIZERS

Entry = dict[str, Any]


def bare(entry: Entry, kind: str, config: Entry) -> Entry:
    """An entry with what Keras 2 has around a config."""
    around: Entry = {key: entry[key] for key in ("name", "inbound_nodes") if key in entry}
    return {"class_name": kind, "config": config, **around}


def old_object(value: Any) -> Any:
    """An object in a config under the name and with the settings that Keras 2 has; a dtype's policy by its name."""
    if isinstance(value, list):
        return [old_object(one) for one in value]
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    kind, config = value["class_name"], value.get("config")
    if not isinstance(config, dict):
        return config if kind == "function" else value
    if kind == "DTypePolicy":
        return config.get("name", "float32")
    config = {key: one for key, one in config.items() if key not in ("input_axes", "output_axes")}
    if kind in INITIALIZERS:
        kind, config = "VarianceScaling", {**INITIALIZERS[kind], "seed": config.get("seed")}
    if kind in REGULARIZERS:
        kind, config = "L1L2", {**REGULARIZERS[kind], **config}
    return bare(value, kind, config)


def old_lambda(entry: Entry) -> Entry:
    """A Lambda of Keras 3 as Keras 2 says it; its code is carried as it is and never run."""
    config = {key: old_object(value) for key, value in entry["config"].items()}
    function, kind = config.get("function"), "function"
    if isinstance(function, dict) and function.get("class_name") == "__lambda__":
        code = function["config"]
        function, kind = [code.get(key) for key in ("code", "defaults", "closure")], "lambda"
    shape = {"output_shape": config.get("output_shape"), "output_shape_type": "raw"}
    return bare(entry, "Lambda", {**config, "function": function, "function_type": kind, **shape})
