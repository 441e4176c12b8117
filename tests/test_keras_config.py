"""Configs with values that Keras never wrote, and every form of an activation: read exactly or refused by name."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import Settings
from rnnbridge.converters.keras_hdf5 import read_layered
from rnnbridge.converters.keras_memory import Memory
from rnnbridge.converters.keras_model import layers_of
from rnnbridge.converters.keras_source import contents
from rnnbridge.files.hdf5 import read_hdf5
from rnnbridge.files.zip import read_members, write_members
from tests.keras_files import GOLDEN, cell, changed_config, weights_file


def setting(**values: Any) -> Callable[[dict[str, Any]], None]:
    """Changes settings of one layer."""

    def change(layer: dict[str, Any]) -> None:
        if layer["config"]["name"] == "gru_after":
            layer["config"] |= values

    return change


@pytest.mark.parametrize(("key", "value", "accepted"), [
    *[("units", value, "a whole number above 0") for value in ("5", 3.0, "five", True, None, 0, -7, [7])],
    *[("go_backwards", value, "true or false") for value in ("yes", "true", None, 2, 0.0, [])],
    ("use_bias", "no", "true or false"), ("reset_after", "true", "true or false"), ("trainable", {}, "true or false"),
    *[("activation", value, "a name, null for linear, or an object with a class_name")
      for value in (["tanh"], {"a": 1}, {"class_name": None}, {"class_name": ["tanh"]}, 5, False)],
    ("recurrent_activation", ["sigmoid"], "a name, null for linear, or an object with a class_name"),
])  # fmt: skip
def test_a_setting_of_a_wrong_type(key: str, value: Any, accepted: str, tmp_path: Path) -> None:
    with pytest.raises(rb.FormatError) as caught:
        rb.load(changed_config(tmp_path, setting(**{key: value})))
    assert f"layer 'gru_after': the config says {key}={value!r}; {accepted} is accepted" in str(caught.value)
    assert "changed.h5" in str(caught.value)


def test_units_that_the_arrays_contradict_in_an_archive(tmp_path: Path) -> None:
    """Where a layer's place is known its sizes are still compared."""
    path = tmp_path / "other.keras"
    members = read_members(GOLDEN / "keras-3.15.1" / "mixed.keras")
    config = members["config.json"].replace(b'"units": 3', b'"units": 5')
    assert config != members["config.json"]
    write_members(path, members | {"config.json": config})
    with pytest.raises(rb.FormatError, match=r"layer '.*': the config says 5 units, and the arrays have 3"):
        rb.load(path)


@pytest.mark.parametrize(("value", "read"), [
    (None, "linear"), ("relu", "relu"),
    ({"class_name": "function", "config": "relu", "module": "builtins", "registered_name": "function"}, "relu"),
    ({"class_name": "LeakyReLU", "config": {"name": "l", "negative_slope": 0.3}, "module": "keras.layers"},
     "leaky_relu(0.3)"),
    ({"class_name": "LeakyReLU", "config": {"name": "l", "alpha": 0.25}}, "leaky_relu(0.25)"),
    ({"class_name": "ELU", "config": {"name": "e", "alpha": 2}}, "elu(2.0)"),
    ({"class_name": "LeakyReLU", "config": {"alpha": "steep"}}, None), ({"class_name": "ELU", "config": {}}, None),
])  # fmt: skip
def test_activations_as_configs_give_them(value: Any, read: str | None, tmp_path: Path) -> None:
    path = changed_config(tmp_path, setting(activation=value))
    if read is not None:
        assert str(rb.load(path)["gru_after"].spec.activations[1]) == read
        return
    with pytest.raises(rb.FormatError, match=r"changed\.h5: layer 'gru_after': the config says"):
        rb.load(path)


def test_an_activation_layer_of_the_users_own_is_not_keras(tmp_path: Path) -> None:
    mine = {"class_name": "LeakyReLU", "config": {"alpha": 0.3}, "module": "my.own.layers"}
    bundle = rb.load(changed_config(tmp_path, setting(activation=mine)))
    assert "gru_after" not in bundle.layers
    assert any("'gru_after'" in notice and "LeakyReLU" in notice for notice in bundle.notices)


def paths_into(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a config is, but for what weights start from, which is never looked at."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        if str(key).endswith(("initializer", "regularizer", "constraint")):
            continue
        yield from paths_into(inner, (*path, key))


def with_value(config: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The config with another value in one place."""
    if not path:
        return value
    changed = json.loads(json.dumps(config))
    here = changed
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return changed


@pytest.mark.parametrize("source", [
    "keras-1.2.2/mixed.h5", "keras-2.3.1/cells.h5", "keras-2.3.1/bidirectional.h5", "keras-3.15.1/mixed.h5",
])  # fmt: skip
def test_any_value_in_any_place_is_read_or_refused(source: str) -> None:
    """No other exception comes out, whatever JSON is where."""
    root = read_hdf5(GOLDEN / source, source)
    config, refused = json.loads(root.attrs["model_config"]), 0
    for path in paths_into(config):
        for value in (None, 5, "text", [["text"]], {"class_name": []}):
            root.attrs["model_config"] = json.dumps(with_value(config, path, value))
            try:
                contents(read_layered(root), Settings({}), Memory(root))
            except rb.FormatError:
                refused += 1
    assert refused


def nested(depth: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"class_name": "LSTM", "config": {"name": "lstm", "units": 3}}
    for _ in range(depth):
        entry = {"class_name": "Bidirectional", "config": {"name": "b", "layer": entry}}
    return {"class_name": "Sequential", "config": {"layers": [entry]}}


def test_a_config_without_end() -> None:
    with pytest.raises(rb.FormatError, match="nests too deep"):
        layers_of(nested(sys.getrecursionlimit()))


@pytest.mark.parametrize(("class_name", "missing"), [("Bidirectional", "layer"), ("RNN", "cell")])
def test_a_wrapper_around_nothing(class_name: str, missing: str, tmp_path: Path) -> None:
    def change(layer: dict[str, Any]) -> None:
        if layer["config"]["name"] == "gru_after":
            layer["class_name"] = class_name

    with pytest.raises(rb.FormatError, match=f"'gru_after': a {class_name} whose config has no {missing} in it"):
        rb.load(changed_config(tmp_path, change))


def test_wrappers_of_the_users_own_are_named(tmp_path: Path) -> None:
    def change(layer: dict[str, Any]) -> None:
        if layer["config"]["name"] == "gru_after":
            layer |= {"class_name": "Bidirectional", "module": "my.own.layers"}

    bundle = rb.load(changed_config(tmp_path, change))
    assert any("'gru_after' (Bidirectional)" in one and "my.own.layers" in one for one in bundle.notices)


@pytest.mark.parametrize("text", ["{", "", "[]", 5, '{"class_name": "Sequential"}'])
@pytest.mark.parametrize("at_the_root", [True, False])
def test_a_broken_config_is_never_passed_over(text: Any, at_the_root: bool, tmp_path: Path) -> None:
    """Reading the arrays' names instead would guess what the config was there to say."""
    path = tmp_path / "broken.h5"
    if at_the_root:
        weights_file(path, {"lstm": cell("lstm", 5, 3, 4, (12,))})
    else:
        path.write_bytes((GOLDEN / "keras-2.3.1" / "gru.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        file.attrs["model_config"] = text
    with pytest.raises(rb.FormatError, match=r"broken\.h5: .*config"):
        rb.load(path)
