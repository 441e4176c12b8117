"""The one table of a report. Knows measurements and nothing of how they came about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rnnbridge.tables import grid

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from rnnbridge.proof.report import Measurement


def table_of(measurements: Sequence[Measurement]) -> Grid:
    """A row per layer, file and runner, a column per output; what was allowed above them, and where it changes."""
    outputs = [name for name in ("y", "h", "c", "weights") if any(one.output == name for one in measurements)]
    table = grid("layer", "file", "run by", *(f"error {name}" for name in outputs), "")
    for column in table.columns[3:]:
        column.justify = "right"
    shown: str | None = None
    allowed: dict[str, float] = {}
    for (layer, file, runner), row in _rows(measurements):
        tolerances = {name: one.tolerance for name, one in row.items()}
        if layer != shown or any(allowed[name] != tolerances[name] for name in tolerances):
            title = layer if layer != shown else ""
            if title and shown is not None:
                table.add_section()
            first = {one.output: one.tolerance for one in reversed(measurements) if one.layer == layer}
            shown, allowed = layer, {**first, **tolerances}
            table.add_row(title, "", "allowed", *_cells(allowed, outputs), "", style="dim")
        verdict = "ok" if all(one.ok for one in row.values()) else "DIFFERS"
        errors = {name: one.max_abs_error for name, one in row.items()}
        style = None if verdict == "ok" else "bold red"
        table.add_row("", file, runner, *_cells(errors, outputs), verdict, style=style)
    return table


def _rows(measurements: Iterable[Measurement]) -> Iterator[tuple[tuple[str, str, str], dict[str, Measurement]]]:
    """One row per layer, file and runner, with its outputs by name; a layer's rows together."""
    rows: dict[tuple[str, str, str], dict[str, Measurement]] = {}
    for one in measurements:
        rows.setdefault((one.layer, one.file, one.runner), {})[one.output] = one
    yield from rows.items()


def _cells(numbers: dict[str, float], outputs: list[str]) -> list[str]:
    return [f"{numbers[name]:.1e}" if name in numbers else "" for name in outputs]
