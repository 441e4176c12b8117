"""Values of settings that Keras 3 reads otherwise than older versions, or not at all. Knows one layer's config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INITIALIZERS = {"recurrent_identity": "identity", "RecurrentIdentity": "identity"}
"""What Keras 2.3.1 calls the identity of each gate, a function of its own. Arrays that are there are not drawn."""
_DOT = "dot"  # an `.h5` file's loader of Keras 3 takes this name of a score for its function of that name


def modern_values(config: dict[str, Any], kind: str) -> list[str]:
    """Give the settings of a layer the values that Keras 3 takes.

    Returns:
        What was changed, one sentence each.
    """
    changes = []
    for key, value in config.items():
        if key.endswith("_initializer"):
            config[key] = _initializer(value)
            if config[key] != value and not isinstance(config[key], dict):
                changes.append(f"{key}={config[key]} set: Keras 3 has no recurrent_identity, and the arrays are there")
    if isinstance(config.get("dtype"), dict) and "config" in config["dtype"]:
        config["dtype"] = config["dtype"]["config"].get("name", "float32")  # a policy, by its name
    if isinstance(axis := config.get("axis"), list) and len(axis) == 1 and kind == "BatchNormalization":
        config["axis"] = axis[0]
    if kind == "Attention" and config.get("score_mode") == _DOT:
        del config["score_mode"]
        changes.append(f"score_mode={_DOT!r} dropped: it is the default")
    return changes


def _initializer(value: Any) -> Any:
    name = value.get("class_name") if isinstance(value, Mapping) else value
    if isinstance(name, str) and name in _INITIALIZERS:
        return _INITIALIZERS[name]
    if isinstance(value, Mapping) and isinstance(value.get("config"), Mapping):
        return {**value, "config": {key: one for key, one in value["config"].items() if key != "dtype"}}
    return value
