"""Keras files for the tests: made by hand with h5py, and golden ones whose config is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

GOLDEN = Path(__file__).parent / "golden"


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def weights_file(path: Path, layers: dict[str, dict[str, Any]], version: str | None = "2.1.5") -> Path:
    """A weights-only file: layer -> {weight name: shape or array}."""
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.encode() for layer in layers]
        if version is not None:
            file.attrs["keras_version"] = version.encode()
        for layer, weights in layers.items():
            group = file.create_group(layer)
            group.attrs["weight_names"] = [name.encode() for name in weights]
            for name, given in weights.items():
                array = rng().standard_normal(given) if isinstance(given, tuple) else given
                group[name] = np.asarray(array, "float32")
    return path


def cell(name: str, inputs: int, units: int, gates: int, bias: tuple[int, ...] | None) -> dict[str, tuple[int, ...]]:
    weights: dict[str, tuple[int, ...]] = {
        f"{name}/kernel:0": (inputs, gates * units),
        f"{name}/recurrent_kernel:0": (units, gates * units),
    }
    return weights if bias is None else {**weights, f"{name}/bias:0": bias}


def changed_config(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], source: str = "keras-2.3.1/gru.h5"
) -> Path:
    path = tmp_path / "changed.h5"
    path.write_bytes((GOLDEN / source).read_bytes())
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        for layer in config["config"]["layers"]:
            change(layer)
        file.attrs["model_config"] = json.dumps(config)
    return path
