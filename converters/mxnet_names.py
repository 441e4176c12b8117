"""The names of arrays in MXNet's files, and which of them make a layer. Opens no file and knows no numbers.

`save_parameters` names a layer's arrays by the cells in it (`rnn._unfused.0.l_cell.i2h_weight`), symbols and
`collect_params().save` by a prefix (`lstm0_l0_i2h_weight`), unpacked cells by gate as well (`lstm_l0_i2h_i_weight`);
exported models put `arg:` before all of them. A fused symbol keeps one vector, `lstm_parameters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rnnbridge.prefix import UNNAMED

_KIND = r"(?P<kind>i2h|h2h|h2r)(?P<gate>_[ifcrzo])?_(?P<what>weight|bias)"
_OF_A_CELL_INSIDE = re.compile(rf"(?P<prefix>|.*\.)_unfused\.(?P<layer>\d{{1,4}})\.(?:(?P<side>[lr])_cell\.)?{_KIND}")
_OF_A_LAYER = re.compile(rf"(?P<prefix>|.*[._])(?P<side>[lr])(?P<layer>\d{{1,4}})_{_KIND}")
_OF_A_CELL = re.compile(rf"(?P<prefix>|.*[._]){_KIND}")
_VECTOR = re.compile(r"(?P<prefix>|.*[._])parameters")
_EXPORTED = ("arg:", "aux:")


@dataclass
class Group:
    """The arrays of one layer: own name -> name in the file. `form` is "layer", "cell", "unpacked" or "vector"."""

    prefix: str
    form: str
    names: dict[str, str] = field(default_factory=dict)


def groups_of(names: Iterable[str]) -> dict[str, Group]:
    """Entry name -> arrays of each recurrent layer, in the file's order. The entry's name is the prefix, trimmed."""
    found: dict[tuple[str, str], Group] = {}
    for full in names:
        plain = next((full[len(word) :] for word in _EXPORTED if full.startswith(word)), full)
        if parsed := _parsed(plain):
            prefix, form, own = parsed
            found.setdefault((prefix, form), Group(prefix, form)).names.setdefault(own, full)
    groups: dict[str, Group] = {}
    for group in found.values():
        name = group.prefix.rstrip("._") or UNNAMED
        while name in groups:
            name += "_"
        groups[name] = group
    return groups


def structural(name: str, bidirectional: bool) -> str:
    """A layer's own name, `r1_i2h_weight`, as `save_parameters` has it: `_unfused.1.r_cell.i2h_weight`."""
    match = _OF_A_LAYER.fullmatch(name)
    if match is None:
        return name
    inside = f"{match['side']}_cell." if bidirectional else ""
    return f"_unfused.{match['layer']}.{inside}{match['kind']}_{match['what']}"


def num_layers(names: Iterable[str]) -> int:
    """One more than the highest layer in a group's own names."""
    return 1 + max((int(match["layer"]) for name in names if (match := _OF_A_LAYER.fullmatch(name))), default=0)


def _parsed(full: str) -> tuple[str, str, str] | None:
    if match := _OF_A_CELL_INSIDE.fullmatch(full) or _OF_A_LAYER.fullmatch(full):
        form = "unpacked" if match["gate"] else "layer"
        own = f"{match['side'] or 'l'}{match['layer']}_{match['kind']}{match['gate'] or ''}_{match['what']}"
        return match["prefix"], form, own
    if match := _OF_A_CELL.fullmatch(full):
        return match["prefix"], "unpacked" if match["gate"] else "cell", full[len(match["prefix"]) :]
    if match := _VECTOR.fullmatch(full):
        return match["prefix"], "vector", full
    return None
