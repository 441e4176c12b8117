"""The names of arrays in a state_dict of Paddle, and which of them make a layer. Opens no file and knows no numbers.

nn's layers keep every parameter twice: under the cell that it is in (`0.cell.weight_ih`, `0.cell_fw.weight_ih`) and
under a name like PyTorch's (`weight_ih_l0`). With a projection the second kind is shifted by one from there on
(`weight_ih_l0_reverse` is a projection), so that it is never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rnnbridge.converters.paddle_rows import DIRECTIONS
from rnnbridge.prefix import UNNAMED

ONE_WAY = "cell"
_KIND = r"(?P<kind>(?:weight|bias)_(?:ih|hh)|weight_ho)"
_OF_A_LAYER = re.compile(rf"(?P<prefix>|.*\.)(?P<layer>\d{{1,4}})\.(?P<side>cell|cell_fw|cell_bw)\.{_KIND}")
_OF_BOTH_WAYS = re.compile(rf"(?P<prefix>|.*\.)(?P<side>cell_fw|cell_bw)\.{_KIND}")
_OF_A_CELL = re.compile(rf"(?P<prefix>|.*\.){_KIND}")
_SECOND_NAME = re.compile(r"(?P<prefix>|.*\.)(?:weight|bias)_(?:ih|hh)_l\d{1,4}(?:_reverse)?")


@dataclass
class Group:
    """The arrays of one layer or cell: own name -> name in the file."""

    prefix: str
    is_cell: bool
    names: dict[str, str] = field(default_factory=dict)
    both_ways: bool = False


def groups_of(names: Iterable[str]) -> dict[str, Group]:
    """Entry name -> arrays of each recurrent layer, in the file's order. The entry's name is the prefix, trimmed."""
    found: dict[tuple[str, bool], Group] = {}
    for full in names:
        match = _OF_A_LAYER.fullmatch(full) or _OF_BOTH_WAYS.fullmatch(full) or _OF_A_CELL.fullmatch(full)
        if match is None:
            continue
        said = match.groupdict()
        is_cell = "side" not in said
        group = found.setdefault((said["prefix"], is_cell), Group(said["prefix"], is_cell))
        side = DIRECTIONS[0] if said.get("side") == ONE_WAY else said.get("side")
        own = said["kind"] if is_cell else f"{int(said.get('layer') or 0)}.{side}.{said['kind']}"
        group.both_ways |= said.get("side") in DIRECTIONS
        group.names.setdefault(own, full)
    groups: dict[str, Group] = {}
    for group in found.values():
        name = group.prefix.rstrip(".") or UNNAMED
        while name in groups:
            name += "_"
        groups[name] = group
    return groups


def second_names(names: Iterable[str], groups: Iterable[Group]) -> list[str]:
    """The names under which a file keeps the layers' parameters once more."""
    prefixes = {group.prefix for group in groups if not group.is_cell}
    return [full for full in names if (match := _SECOND_NAME.fullmatch(full)) and match["prefix"] in prefixes]


def only_second_names(names: Iterable[str]) -> list[str]:
    """The names of that kind, whatever else there is."""
    return [full for full in names if _SECOND_NAME.fullmatch(full)]


def structural(own: str, both_ways: bool) -> str:
    """An own name as Paddle has it in a state_dict: `0.cell_fw.weight_ih` is `0.cell.weight_ih` in one direction."""
    return own if both_ways else own.replace(f".{DIRECTIONS[0]}.", f".{ONE_WAY}.")


def num_layers(names: Iterable[str]) -> int:
    """One more than the highest layer in a group's own names."""
    return 1 + max((int(name.partition(".")[0]) for name in names if name[:1].isdigit()), default=0)
