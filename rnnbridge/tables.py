"""Tables as data that print well, and the two that the catalogue spans: `conventions()` and `formats()`.

Knows rows and formats only by their fields. rich draws, and is imported when something is drawn.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnbridge.catalogue import Format, catalogue
from rnnbridge.convention import Convention
from rnnbridge.errors import ArgumentError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as Grid

Record = dict[str, Any]
MIN_WIDTH, MAX_WIDTH = 80, 120
NAME_WIDTH = 34  # a name up to this long is not folded


class Table(Sequence[Record]):
    """Records of plain values. It is a sequence of dicts, and prints some of their keys as a table.

    Args:
        records: what the table holds; every value survives JSON.
        columns: header -> key of what is printed.
        notes: lines printed below.
    """

    def __init__(self, records: Iterable[Record], columns: Mapping[str, str], notes: Iterable[str] = ()) -> None:
        self._records = tuple(records)
        self._columns = dict(columns)
        self._notes = tuple(notes)

    def __getitem__(self, index: Any) -> Any:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        drawn = grid(*self._columns)
        rows = [[_words(record[key]) for key in self._columns.values()] for record in self._records]
        drawn.columns[0].width = min(max((len(row[0]) for row in rows), default=0), NAME_WIDTH)
        for row in rows:
            drawn.add_row(*map(Text, row))
        return Group(drawn, *(Text(note) for note in self._notes))

    def __repr__(self) -> str:
        return as_text(self)


def grid(*headers: str) -> Grid:
    """An empty table to draw: long words are folded, never cut, and nothing in a cell is read as markup."""
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    drawn = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        drawn.add_column(Text(header), overflow="fold")
    return drawn


def indented(line: str, whole: bool = False) -> RenderableType:
    """A line of text, indented and folded; `whole` leaves it in one piece however long, to be copied."""
    from rich.padding import Padding
    from rich.text import Text

    if whole:
        return Text(f"  {line}", no_wrap=True, overflow="ignore")
    return Padding(Text(line, overflow="fold"), (0, 0, 0, 2), expand=False)


def as_text(what: RenderableType, width: int | None = None) -> str:
    """What rich draws, as plain text without colours, at the terminal's width unless one is given."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(file=file, width=width or text_width(), color_system=None, highlight=False, markup=False)
    console.print(what, crop=False)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def text_width() -> int:
    """The terminal's width within what a table can be read at; 100 where there is no terminal."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, MIN_WIDTH), MAX_WIDTH)


def conventions(framework: str | None = None) -> Table:
    """Every row: how each framework lays out each kind of recurrent layer.

    Args:
        framework: only this one's rows, printed with their sources; None is all.

    Returns:
        A sequence of dicts with every field of the rows.

    Raises:
        ArgumentError: no such framework; the message lists them.
    """
    rows = list(catalogue().rows.values())
    known = list(dict.fromkeys(row.framework for row in rows))
    if framework is not None and framework not in known:
        raise ArgumentError(f"no rows for the framework {framework!r}; there are rows for {', '.join(known)}")
    wanted = [row for row in rows if framework in (None, row.framework)]
    columns = {"row": "name", "gates": "gates_in_order", "arrays": "arrays", "formula": "formula"}
    sources = dict.fromkeys(row.source for row in wanted)
    notes = [f"\n{', '.join(row.layer for row in wanted if row.source == one)}: {one}" for one in sources]
    return Table(map(_row_record, wanted), columns, notes if framework else ())


def formats() -> Table:
    """Every format: its name, endings, what is read and written, and who can judge it.

    Returns:
        A sequence of dicts.
    """
    columns = {"format": "name", "endings": "suffixes", "reads": "reads", "writes": "writes", "judged by": "judges"}
    return Table(map(_format_record, catalogue().formats.values()), columns)


def _row_record(row: Convention) -> Record:
    fields = {name: _plain(getattr(row, name)) for name in row.__dataclass_fields__ if name != "slots"}
    slots = [
        {"name": slot.name, "holds": slot.holds, "axes": slot.axes, "gates": slot.gates, "optional": slot.optional}
        for slot in row.slots
    ]
    return {
        **fields,
        "framework": row.framework,
        "layer": row.layer,
        "bias_forms": list(row.bias_forms),
        "slots": slots,
        "gates_in_order": gates_in_words(row),
        "arrays": list(_arrays(row)),
        "formula": list(_formula(row)),
    }


def gates_in_words(row: Convention) -> str:
    """The gate order in the row's own letters, and what the foreign ones are: "z r h (h=n)"."""
    foreign = ", ".join(f"{letter}={own}" for letter, own in row.letters.items())
    return " ".join(row.gates) + (f" ({foreign})" if foreign else "")


def _arrays(row: Convention) -> Iterator[str]:
    """Axis strings, and the arrays laid out so: "i (g o): kernel, recurrent_kernel"."""
    by_axes: dict[str, list[str]] = {}
    for slot in row.slots:
        by_axes.setdefault(slot.axes, []).append(
            slot.name.format(layer="", direction="").removesuffix("_l").lstrip("/")
        )
    yield from (f"{axes}: {', '.join(names)}" for axes, names in by_axes.items())


def _formula(row: Convention) -> Iterator[str]:
    """What the row says about the numbers, beyond the layout."""
    if row.cell == "gru":
        yield f"reset {' or '.join(row.reset)}, z {row.z}"
    yield f"bias {' or '.join(row.bias_forms)}"
    if row.forget_bias:
        yield f"forget bias {row.forget_bias:+g} at run time"
    if row.extras:
        yield f"holds {', '.join(row.extras)}"
    yield f"past a length: {row.padding}"


def _format_record(one: Format) -> Record:
    return {
        "name": one.name,
        "framework": one.framework,
        "suffixes": list(one.suffixes),
        "reads": one.reads,
        "writes": one.writes if one.write else "",
        "judges": [judge.name for judge in one.judges],
        "extra": one.extra,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


def _words(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else str(value)
