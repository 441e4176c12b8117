"""The names of TensorFlow 1's variables, and which of them make a layer. Opens no file and knows no numbers.

A cell's variables lie in its scope (`rnn/lstm_cell/kernel`). Around it, `cell_K` counts the cells of a MultiRNNCell or
of a stack of bidirectional layers, `fw` and `bw` are directions. A layer is called by what is left of the scope.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rnnbridge.converters import tensorflow_rows as rows

UNNAMED = "rnn"
OPAQUE = "opaque_kernel"
_DIRECTIONS = ("fw", "bw")
# Scope of a cell that has not been given a name -> its row. The block LSTM's is LSTMCell's: a graph tells them apart.
_SCOPES = {
    "basic_lstm_cell": rows.BASIC_LSTM.name,
    "lstm_cell": rows.LSTM.name,
    "lstm_fused_cell": rows.FUSED_LSTM.name,
    "lstm_block_wrapper": rows.FUSED_LSTM.name,
    "cudnn_compatible_lstm_cell": rows.CUDNN_COMPATIBLE_LSTM.name,
    "basic_rnn_cell": rows.RNN.name,
}
_KINDS = {"split": rows.LSTM.name, "block": rows.BLOCK_LSTM.name, "fused": rows.FUSED_LSTM.name}
# Cells that are none of the canonical form's.
_OTHERS = (
    "layer_norm_basic_lstm_cell", "glstm_cell", "conv_lstm_cell", "conv_1d_lstm_cell", "conv_2d_lstm_cell", "nas_rnn",
    "ugrnn_cell", "intersection_rnn_cell", "phased_lstm_cell", "time_freq_lstm_cell", "grid_lstm_cell", "sru_cell",
    "bidirectional_grid_lstm_cell", "coupled_input_forget_gate_lstm_cell", "indrnn_cell", "ind_rnn_cell",
    "indy_gru_cell", "indy_lstm_cell", "ntm_cell", "minimal_rnn_cell", "cfn_cell",
)  # fmt: skip
_LEAVES = (
    "candidate/input_projection/kernel", "candidate/input_projection/bias", "candidate/hidden_projection/kernel",
    "candidate/hidden_projection/bias", "candidate/kernel", "candidate/bias", "gates/kernel", "gates/bias",
    "projection/kernel", "projection/bias", "kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag", "w_ru", "b_ru",
    "w_c", "b_c",
)  # fmt: skip
_NAME = re.compile(rf"(?P<scope>[^:]+?)/(?P<leaf>{'|'.join(_LEAVES)})")
_COUNTED = re.compile(r"_\d{1,9}$")
_CELL_NUMBER = re.compile(r"cell_(\d{1,4})")
# What the leaves were called before TensorFlow 1.2 (RNN_NAME_REPLACEMENTS in its contrib/rnn/python/tools).
_OLDER = {"weights": "kernel", "biases": "bias"}


@dataclass(frozen=True)
class Cell:
    """The variables of one cell: own name ("gates/kernel") -> name in the file."""

    scope: str
    row: str
    names: Mapping[str, str]


@dataclass
class Group:
    """The cells of one layer or stack: (layer, direction) -> cell; `row` is that of all of them, by name.

    `turned` says that the one direction there is runs backwards. An opaque layer has no cells and its variable's name.
    """

    row: str
    cells: dict[tuple[int, int], Cell] = field(default_factory=dict)
    turned: bool = False
    opaque: str = ""

    @property
    def used(self) -> set[str]:
        """The names in the file."""
        return {full for cell in self.cells.values() for full in cell.names.values()} | {self.opaque} - {""}


def groups_of(names: Iterable[str], kinds: Mapping[str, str]) -> dict[str, Group]:
    """Entry name -> cells of each recurrent layer, in the file's order.

    Args:
        names: the variables.
        kinds: scope -> what a graph says that the cell in it is: "split", "block", "fused".
    """
    names = list(names)
    cells = _cells(names, kinds)
    groups: dict[str, Group] = {}
    for name, group in _arranged(cells):
        unique = name
        while unique in groups:
            unique += "_"
        groups[unique] = group
    for full in names:
        scope, _, leaf = full.rpartition("/")
        if leaf == OPAQUE and not any(cell.scope.startswith(f"{scope}/") for cell in cells):
            groups[scope if scope not in groups else full] = Group("", opaque=full)
    return groups


def others_in(names: Iterable[str]) -> list[str]:
    """The scopes of cells that are known and not read."""
    parts = ((full, part) for full in names for part in full.split("/") if _is_other(part))
    return list(dict.fromkeys(full[: full.index(part) + len(part)] for full, part in parts))


def structural(name: str, row: str, num_layers: int, own: str) -> str:
    """A variable's name as dynamic_rnn, bidirectional_dynamic_rnn or stack_bidirectional_dynamic_rnn makes it.

    Args:
        name: the layer's, which becomes the scope.
        own: a row's array, "0/fw/kernel"; "0//kernel" of a layer of one direction.
    """
    layer, direction, leaf = own.split("/", 2)
    cell = next(
        (scope for scope, one in _SCOPES.items() if one == row),
        "cudnn_compatible_gru_cell" if row == rows.CUDNN_COMPATIBLE_GRU.name else "gru_cell",
    )
    many = num_layers > 1
    if direction:
        middle = [f"cell_{layer}", "bidirectional_rnn", direction] if many else [direction]
    else:
        middle = ["multi_rnn_cell", f"cell_{layer}"] if many else []
    return "/".join([name, *middle, cell, leaf])


def _is_other(part: str) -> bool:
    return _COUNTED.sub("", part) in _OTHERS


def _cells(names: Collection[str], kinds: Mapping[str, str]) -> list[Cell]:
    scopes: dict[str, dict[str, str]] = {}
    for full in names:
        above, _, last = full.rpartition("/")
        match = _NAME.fullmatch(f"{above}/{_OLDER.get(last, last)}")
        if match:
            scopes.setdefault(match["scope"], {}).setdefault(match["leaf"], full)
    found = ((scope, leaves, _row(scope, leaves, kinds.get(scope, ""))) for scope, leaves in scopes.items())
    return [Cell(scope, row, leaves) for scope, leaves, row in found if row]


def _row(scope: str, leaves: Collection[str], kind: str) -> str:
    """The row of a cell by its variables, what the graph says of it and what its scope is called; "" if it is none."""
    if "gates/kernel" in leaves:
        return rows.CUDNN_COMPATIBLE_GRU.name if "candidate/input_projection/kernel" in leaves else rows.GRU.name
    if "w_ru" in leaves:
        return rows.BLOCK_GRU.name
    if "kernel" not in leaves:
        return ""
    by_scope = _SCOPES.get(_COUNTED.sub("", scope.rpartition("/")[2]), "")
    certain = by_scope not in ("", rows.LSTM.name)  # a block cell is called lstm_cell too
    return by_scope if certain else _KINDS.get(kind, by_scope)


def _arranged(cells: list[Cell]) -> list[tuple[str, Group]]:
    """Cells that differ only in their number and direction are one layer or stack."""
    there = {cell.scope for cell in cells}
    gathered: dict[tuple[str, ...], dict[tuple[int, int], Cell]] = {}
    for cell in cells:
        key, place = _place(cell, there)
        gathered.setdefault(key, {})[place] = cell
    found: list[tuple[str, Group]] = []
    for key, placed in gathered.items():
        found += _layers(key, placed)
    return found


def _place(cell: Cell, there: set[str]) -> tuple[tuple[str, ...], tuple[int, int]]:
    """(scope with K and D in the place of a number and a direction, and the row), (number, direction)."""
    parts, number, direction = cell.scope.split("/"), 0, 0
    for index in range(len(parts) - 1, -1, -1):
        if parts[index] in _DIRECTIONS and "D" not in parts:
            turned = _DIRECTIONS[1 - _DIRECTIONS.index(parts[index])]
            if "/".join([*parts[:index], turned, *cell.scope.split("/")[index + 1 :]]) in there:
                direction = _DIRECTIONS.index(parts[index])
                parts[index] = "D"
        elif (match := _CELL_NUMBER.fullmatch(parts[index])) and "K" not in parts and index < len(parts) - 1:
            number = int(match[1])
            parts[index] = "K"
    return (*parts, cell.row), (number, direction)


def _layers(key: tuple[str, ...], placed: Mapping[tuple[int, int], Cell]) -> list[tuple[str, Group]]:
    *parts, row = key
    numbers = sorted({number for number, _ in placed})
    directions = sorted({direction for _, direction in placed})
    if numbers != list(range(len(numbers))) or len(placed) != len(numbers) * len(directions):
        return [(cell.scope, Group(row, {(0, 0): cell})) for cell in placed.values()]
    apart = "D" in parts and "K" in parts and parts.index("D") < parts.index("K") and len(numbers) > 1
    if not apart:
        return [(_title(parts), Group(row, dict(placed)))]
    return [  # each direction is a stack of its own, and only what comes out of the two is put together
        (
            f"{_title(parts)}/{_DIRECTIONS[one]}",
            Group(row, {(number, 0): placed[number, one] for number in numbers}, turned=one == 1),
        )
        for one in directions
    ]


def _title(parts: list[str]) -> str:
    """What is left of a scope without the cell, its number and direction."""
    end = min((parts.index(mark) for mark in ("K", "D") if mark in parts), default=len(parts) - 1)
    above = parts[:end]
    while len(above) > 1 and above[-1] == "multi_rnn_cell":
        above.pop()
    return "/".join(above) or parts[-1]
