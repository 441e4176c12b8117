"""Values of settings that Keras 3 reads otherwise than older versions, or not at all. Knows one layer's config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbridge.converters.keras_rows import activation_named, activation_spelling
from rnnbridge.converters.keras_version import Version
from rnnbridge.errors import SpecError
from rnnbridge.spec import RNNSpec

_INITIALIZERS = {"recurrent_identity": "identity", "RecurrentIdentity": "identity"}
"""What Keras 2.3.1 calls the identity of each gate, a function of its own. Arrays that are there are not drawn."""
_DEFAULTS = {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True, "reset_after": True}
SCALED = "hard_sigmoid is clip(0.2 x + 0.5) in the source and clip(x / 6 + 0.5) in Keras 3"
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


def other_numbers(config: Mapping[str, Any], kind: str, version: Version) -> list[str]:
    """Settings that give other numbers in Keras 3 and that nothing there says, each as a reason."""
    smooth = config.get("interpolation") if kind == "UpSampling2D" and version.major < 3 else None
    if smooth in (None, "nearest") or version.is_tensorflow:
        return []
    return [f"UpSampling2D(interpolation={smooth!r}); {version} measures from corners, Keras 3 from pixels' middles"]


def cell_settings(given: Mapping[str, Any], spec: RNNSpec, version: int) -> tuple[dict[str, Any], list[str]]:
    """A cell's settings as its arrays are written; what they were in the source is kept where it is the same.

    Args:
        given: the settings in the source.
        spec: the cell as it is written.
        version: the major version of Keras that wrote the source.

    Returns:
        The settings, and what was changed, one sentence each.
    """
    config, wanted, changes = dict(given), dict[str, Any](), []
    wanted["activation"] = spec.activations[-1]
    if spec.cell != "rnn":
        wanted["recurrent_activation"] = spec.activations[0]
    wanted["use_bias"] = spec.bias != "none"
    if spec.cell == "gru":
        wanted["reset_after"] = spec.reset == "after"
    for key, value in wanted.items():
        if key in config and (key.endswith("activation") and _is(config[key], value)):
            if version < 3 and config[key] == "hard_sigmoid":
                changes.append(f"{key}=hard_sigmoid kept, with the gates' arrays rescaled: {SCALED}")
            continue
        said = activation_spelling(value, 3) if key.endswith("activation") else value
        if config.get(key, _DEFAULTS[key]) != said:
            why = "as the source's arrays and version have it" if key not in config else "as the arrays are"
            changes.append(f"{key}={said} set, {why}")
            config[key] = said
    return config, changes


def _is(said: Any, activation: Any) -> bool:
    try:
        return bool(activation_named(said, 3) == activation)
    except SpecError:
        return False


def _initializer(value: Any) -> Any:
    name = value.get("class_name") if isinstance(value, Mapping) else value
    if isinstance(name, str) and name in _INITIALIZERS:
        return _INITIALIZERS[name]
    if isinstance(value, Mapping) and isinstance(value.get("config"), Mapping):
        return {**value, "config": {key: one for key, one in value["config"].items() if key != "dtype"}}
    return value
