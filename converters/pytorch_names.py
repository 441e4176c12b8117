"""Finding recurrent layers among the names of a state_dict, whatever file it was in. Imports neither torch nor files.

A layer is known by its array names alone: a prefix, then `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh` or `weight_hr`,
then `_l{layer}` with or without `_reverse` for a module, or nothing for a cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from rnnbridge.spec import RNNSpec

Array = NDArray[Any]
UNNAMED = "rnn"  # what a layer is called whose arrays have no prefix
NAME = re.compile(r"((?:.*\.)?)((?:weight|bias)_[ih]h|weight_hr)(?:_l(\d{1,4})(_reverse)?)?", re.DOTALL)
_RAW = "_raw"


@dataclass(frozen=True)
class State:
    """A state_dict in NumPy.

    Args:
        arrays: name -> numbers; float16 and bfloat16 are widened to float32.
        narrow: name -> "float16" or "bfloat16" of those.
        unreadable: name -> dtype of the tensors that NumPy has no numbers for.
    """

    arrays: Mapping[str, Array]
    narrow: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Said:
    """What a file says of a layer beside its arrays: our metadata all of it, a pickled module a part."""

    batch_first: bool | None = None
    spec: RNNSpec | None = None
    nonlinearity: str | None = None


@dataclass(frozen=True)
class Group:
    """The arrays of one layer: its prefix, dot included; whether it is a cell; own name -> name in the state_dict."""

    prefix: str
    is_cell: bool
    names: Mapping[str, str]


def groups_of(state: State) -> dict[str, Group]:
    """Entry name -> arrays of each recurrent layer, in the state_dict's order.

    The entry's name is the prefix without its last dot.
    """
    found: dict[tuple[str, bool], dict[str, str]] = {}
    for full in [*state.arrays, *state.unreadable]:
        if match := NAME.fullmatch(full):
            prefix, _, layer, _ = match.groups()
            found.setdefault((prefix, layer is None), {})[full[len(prefix) :]] = full
    groups: dict[str, Group] = {}
    for (prefix, is_cell), names in sorted(found.items(), key=lambda item: item[0][0] == ""):
        if not any(own.startswith(("weight_ih", "weight_hh")) for own in names):
            continue
        name = prefix[:-1] or UNNAMED
        while name in groups:
            name += "_"
        groups[name] = Group(prefix, is_cell, names)
    return groups


def without_drop(state: State) -> tuple[State, list[str]]:
    """The same with weight drop's raw weights in their places, and a line on each of them.

    Weight drop (AWD-LSTM, fastai) trains `weight_hh_l0_raw` and leaves a randomly zeroed copy under the true name. The
    raw ones are the layer's own in evaluation. fastai has them one level above, where the layer is called `module`.
    """
    raw = {full: full.removesuffix(_RAW) for full in state.arrays if full.endswith(_RAW)}
    places = {full: _place(state, name) for full, name in raw.items() if NAME.fullmatch(name)}
    if not places:
        return state, []
    narrow = {places.get(full, full): kind for full, kind in state.narrow.items() if full not in places.values()}
    kept = {full: array for full, array in state.arrays.items() if full not in places.values()}
    arrays = {places.get(full, full): array for full, array in kept.items()}
    notices = [f"{name} is read from {full}, what weight drop trains" for full, name in places.items()]
    return State(arrays, narrow, state.unreadable), notices


def _place(state: State, name: str) -> str:
    prefix, *_ = NAME.fullmatch(name).groups()  # type: ignore[union-attr]
    inner = f"{prefix}module."
    wrapped = any(full.startswith(inner) and NAME.fullmatch(full[len(inner) :]) for full in state.arrays)
    return inner + name[len(prefix) :] if wrapped else name


def neighbours(state: State, group: Group) -> list[str]:
    """Arrays of the same module, or of its parametrisations, that no recurrent layer has."""
    names = [full[len(group.prefix) :] for full in state.arrays if full.startswith(group.prefix)]
    own = (name for name in names if "." not in name or name.startswith("parametrizations."))
    return [name for name in own if name not in group.names and not NAME.fullmatch(name)]
