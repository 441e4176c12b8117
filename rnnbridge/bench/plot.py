"""A picture of a run: ratios and the part of the peak that we reach. Needs matplotlib."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnbridge.bench.results import Row
from rnnbridge.errors import FileAccessError, MissingExtraError


def check_possible() -> None:
    """Before a run of hours.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    if not importlib.util.find_spec("matplotlib"):
        raise MissingExtraError("a picture of a benchmark", "matplotlib", "plot")


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw.

    Raises:
        FileAccessError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    timed = [row for row in rows if row.ratio is not None]
    labels = list(dict.fromkeys(_label(row) for row in timed))
    figure = Figure(figsize=(11, 2 + 0.4 * len(labels)), layout="constrained")
    ratios, peak = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    peers = list(dict.fromkeys(row.peer for row in timed))
    for number, name in enumerate(peers):
        beside = 0.6 * (number / len(peers) - 0.5)  # so that peers of one case do not hide each other
        _ratios(ratios, [row for row in timed if row.peer == name], labels, beside)
    ratios.axvline(1, color="black", linewidth=0.8)
    ratios.set(xscale="log", xlabel="its time over ours: median and interval", yticks=range(len(labels)))
    ratios.set_yticklabels(labels, fontsize=8)
    ratios.invert_yaxis()
    figure.legend(fontsize=8, loc="outside upper center", ncols=len(peers) or 1)
    best = {label: max(100 * (row.peak_best or 0) for row in timed if _label(row) == label) for label in labels}
    peak.barh(range(len(labels)), list(best.values()), color="tab:gray")
    peak.set(xlim=(0, 100), xlabel="% of the multiply-add peak, best")
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:  # ValueError: an ending that matplotlib does not know
        raise FileAccessError(f"cannot write {path}: {error}") from error


def _label(row: Row) -> str:
    case = row.case
    return f"{case.cell} {case.shape} {case.mode} {case.threads}"


def _ratios(axes: Any, rows: Sequence[Row], labels: Sequence[str], beside: float) -> None:
    found = [(labels.index(_label(row)) + beside, row.ratio) for row in rows if row.ratio is not None]
    middles = [ratio.median for _, ratio in found]
    low = [ratio.median - ratio.low for _, ratio in found]
    high = [ratio.high - ratio.median for _, ratio in found]
    axes.errorbar(
        middles, [at for at, _ in found], xerr=(low, high), fmt="o", markersize=4, linewidth=1, label=rows[0].peer
    )
