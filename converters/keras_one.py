"""The layers of Keras 1 under the classes and keywords of Keras 2. Knows one layer's config, no graph and no arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_SOURCE = "legacy/interfaces.py and preprocess_weights_for_loading of engine/saving.py in keras 2.3.1"
_ARRAYS = {"W": "kernel", "U": "recurrent", "b": "bias"}
_OF_ARRAYS = {
    f"{letter}_{kind}": f"{name}_{kind}" for letter, name in _ARRAYS.items() for kind in ("regularizer", "constraint")
}
_DENSE = {"output_dim": "units", "init": "kernel_initializer", "bias": "use_bias", **_OF_ARRAYS}
_RECURRENT = {
    **_DENSE,
    "inner_init": "recurrent_initializer",
    "inner_activation": "recurrent_activation",
    "dropout_W": "dropout",
    "dropout_U": "recurrent_dropout",
}
_POOLING = {"pool_length": "pool_size", "stride": "strides", "border_mode": "padding", "dim_ordering": "data_format"}
_KEYWORDS: dict[str, Mapping[str, str]] = {
    "Dense": _DENSE,
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), _RECURRENT),
    "Embedding": {
        "init": "embeddings_initializer",
        "W_regularizer": "embeddings_regularizer",
        "W_constraint": "embeddings_constraint",
    },
    **{kind: {"p": "rate"} for kind in ("Dropout", "GaussianDropout", "SpatialDropout1D")},
    **{f"SpatialDropout{n}D": {"p": "rate", "dim_ordering": "data_format"} for n in (2, 3)},
    "GaussianNoise": {"sigma": "stddev"},
    "PReLU": {"init": "alpha_initializer"},
    "UpSampling1D": {"length": "size"},
    "BatchNormalization": {
        "beta_init": "beta_initializer",
        "gamma_init": "gamma_initializer",
    },
    **{f"{kind}Pooling{n}D": _POOLING for kind in ("Average", "Max") for n in (1, 2, 3)},
    **{f"Global{kind}Pooling{n}D": {"dim_ordering": "data_format"} for kind in ("Average", "Max") for n in (2, 3)},
}
_MERGES = {"sum": "Add", "mul": "Multiply", "ave": "Average", "max": "Maximum", "concat": "Concatenate"}
_DATA_FORMATS = {"tf": "channels_last", "th": "channels_first", "default": None}
_INITIALIZERS = {  # where the name differs by more than capitals; Keras 3 knows the others
    "one": "ones",
    "zero": "zeros",
    "uniform": "random_uniform",
    "normal": "random_normal",
}


def of_keras_1(entry: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], str]:
    """One layer's entry as Keras 2 would have it.

    Returns:
        The entry, what was changed, and why it cannot be done, "" if it can.
    """
    kind, config = entry["class_name"], dict(entry["config"])
    if kind.startswith(("Convolution", "Deconvolution", "SeparableConvolution", "AtrousConvolution")):
        return dict(entry), [], f"{kind} of Keras 1 keeps its kernel in another order, which is not converted"
    if kind == "Merge":
        return _merge(entry, config)
    changes: list[str] = []
    for old, new in _KEYWORDS.get(kind, {}).items():
        if old in config and old != new:
            config[new] = config.pop(old)
            changes.append(f"{old} becomes {new}")
    for key, translate in _VALUES.items():
        if key in config:
            changes += translate(config, key, kind)
    problem = _leftover(config, kind)
    return {**entry, "config": config}, changes, problem


def _merge(entry: Mapping[str, Any], config: dict[str, Any]) -> tuple[dict[str, Any], list[str], str]:
    mode = config.get("mode")
    if mode not in _MERGES:
        return dict(entry), [], f"Merge with mode {mode!r}; {', '.join(_MERGES)} are converted"
    kind = _MERGES[str(mode)]
    new = {"name": config["name"], **({"axis": config.get("concat_axis", -1)} if mode == "concat" else {})}
    return {**entry, "class_name": kind, "config": new}, [f"Merge of mode {mode} becomes {kind}"], ""


def _forget_bias(config: dict[str, Any], key: str, kind: str) -> list[str]:
    config["unit_forget_bias"] = config.pop(key) == "one"
    return [f"{key} becomes unit_forget_bias={config['unit_forget_bias']}"]


def _initializer(config: dict[str, Any], key: str, kind: str) -> list[str]:
    config[key] = _INITIALIZERS.get(config[key], config[key]) if isinstance(config[key], str) else config[key]
    return []


def _regularizer(config: dict[str, Any], key: str, kind: str) -> list[str]:
    given = config[key]
    if isinstance(given, dict) and "name" in given:
        amounts = {name: float(given.get(name) or 0) for name in ("l1", "l2")}
        config[key] = {"class_name": "L1L2", "config": amounts}
        return [f"{key}: {given['name']} becomes L1L2"]
    return []


def _data_format(config: dict[str, Any], key: str, kind: str) -> list[str]:
    config[key] = _DATA_FORMATS.get(config[key], config[key])
    return []


def _unused(config: dict[str, Any], key: str, kind: str) -> list[str]:
    if config[key] or kind == "Embedding":
        return []
    return [f"{key}={config.pop(key)!r} dropped: it was not used"]


def _embedding_dropout(config: dict[str, Any], key: str, kind: str) -> list[str]:
    if kind != "Embedding":
        return []
    rate = config.pop(key)
    return [f"dropout={rate} dropped: Keras 2 has none there; in training add a SpatialDropout1D"]


_VALUES: dict[str, Callable[[dict[str, Any], str, str], list[str]]] = {
    "forget_bias_init": _forget_bias,
    "data_format": _data_format,
    "mode": _unused,
    "dropout": _embedding_dropout,
    **{f"{name}_initializer": _initializer for name in ("kernel", "recurrent", "embeddings", "alpha", "beta", "gamma")},
    **{f"{name}_regularizer": _regularizer for name in ("kernel", "recurrent", "bias", "embeddings", "activity")},
    "beta_regularizer": _regularizer,
    "gamma_regularizer": _regularizer,
}


def _leftover(config: Mapping[str, Any], kind: str) -> str:
    mode = config.get("mode") if kind == "BatchNormalization" else None
    return f"BatchNormalization with mode={mode}; only mode 0 is converted" if mode else ""
