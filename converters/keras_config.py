"""What a Keras config may hold under each key that is read here. Knows no model, no file and no array.

JSON has its own types for whole numbers and truth values, and Keras writes them; anything else is damage, and is never
taken for what it resembles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from rnnbridge.errors import FormatError

Config = Mapping[str, Any]
_MODULES = ("keras", "tf_keras", "tensorflow")  # where a class of Keras's own comes from, where a config says it


class _Kind(NamedTuple):
    fits: Callable[[Any], bool]
    accepted: str


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0


def _is_activation(value: Any) -> bool:
    """A name, nothing, or an object: a function by its name in `config`, else a class."""
    if isinstance(value, dict):
        return isinstance(value.get("class_name"), str)
    return value is None or isinstance(value, str)


_WHOLE = _Kind(_is_whole, "a whole number above 0")
# Keras keeps what the user gave, and some give 0 and 1.
_FLAG = _Kind(lambda value: isinstance(value, (bool, Integral)) and value in (0, 1), "true or false")
_ACTIVATION = _Kind(_is_activation, "a name, null for linear, or an object with a class_name")
_TEXT_OR_NULL = _Kind(lambda value: value is None or isinstance(value, str), "a name or null")
_TEXT = _Kind(lambda value: isinstance(value, str), "a name")
_OBJECT = _Kind(lambda value: isinstance(value, dict), "an object")
_LIST = _Kind(lambda value: isinstance(value, list), "a list")
_ENTRY = _Kind(lambda value: isinstance(value, dict) and "class_name" in value, "an object with a class_name")
_ENTRY_OR_NULL = _Kind(lambda value: value is None or _ENTRY.fits(value), "an object with a class_name, or null")

_SETTINGS: dict[str, _Kind] = {
    **dict.fromkeys(("units", "output_dim"), _WHOLE),
    **dict.fromkeys(("use_bias", "reset_after", "go_backwards", "time_major", "zero_output_for_mask"), _FLAG),
    "trainable": _FLAG,
    **dict.fromkeys(("activation", "recurrent_activation", "inner_activation"), _ACTIVATION),
    "merge_mode": _TEXT_OR_NULL,
    "layer": _ENTRY,
    "backward_layer": _ENTRY_OR_NULL,
    "cell": _ENTRY,
    "cells": _LIST,
}
_ENTRY_KEYS = {"class_name": _TEXT, "module": _TEXT_OR_NULL, "name": _TEXT_OR_NULL}


def check_entry(entry: Config, layer: str) -> None:
    """Check what stands around the settings of any layer or cell: its class, module and name.

    Raises:
        FormatError: naming the layer, the key, what it is and what is accepted.
    """
    _check({"class_name": None, **entry}, _ENTRY_KEYS, layer)


def settings_of(entry: Config, layer: str) -> Config:
    """The settings of a recurrent layer, cell or Bidirectional, checked as `check_entry` does."""
    check_entry(entry, layer)
    _check({"config": entry.get("config")}, {"config": _OBJECT}, layer)
    config: Config = entry["config"]
    _check(config, _SETTINGS, layer)
    return config


def check_cells(cells: Any, layer: str) -> None:
    """Check the cells of a StackedRNNCells."""
    for cell in cells:
        _check({"cell": cell}, {"cell": _ENTRY}, layer)


def is_keras_own(entry: Config) -> bool:
    """Whether a class is Keras's own; where the config says no module, its name decides."""
    module = entry.get("module")
    return not isinstance(module, str) or module.partition(".")[0] in _MODULES


def is_number(value: Any) -> bool:
    """Whether this is a number, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _check(config: Config, kinds: Mapping[str, _Kind], layer: str) -> None:
    for key, kind in kinds.items():
        if key in config and not kind.fits(config[key]):
            found = repr(config[key])
            shown = found if len(found) <= 80 else f"{found[:77]}..."
            raise FormatError(f"layer {layer!r}: the config says {key}={shown}; {kind.accepted} is accepted")
