"""What a run found: rows, the machine beside them, as JSON and as a table. Measures nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rnnbridge.bench.cases import Case
from rnnbridge.bench.pairs import Pairs
from rnnbridge.bench.statistics import Ratio, median, paired
from rnnbridge.errors import FileAccessError
from rnnbridge.tables import Table

Status = Literal["timed", "absent", "refused", "wrong", "failed"]
_WORDS = {"absent": "is not here", "refused": "cannot", "wrong": "is wrong and not timed", "failed": "failed"}


@dataclass(frozen=True)
class Row:
    """One case on one peer, beside ours. Times are seconds of one call, rates are per second.

    Args:
        case, peer: what.
        status: "timed", else `why` it was not.
        version, flags: of the peer.
        error_ours, error_peer: largest absolute error over the largest value of that output, of all outputs (and
            gradients, in training), against float64.
        errors_ours, errors_peer: the largest absolute error of each output.
        ratio: the peer's time over ours.
        best_ours, best_peer, median_ours, median_peer: seconds.
        peak_best: our fastest block's operations over the fastest multiply-add sample.
        peak_median: median of our blocks' operations, each over the samples before and after its pair.
        operations, bytes: medians of the samples: multiply-adds, and reads from the second level of caches.
        pairs: every block.
    """

    case: Case
    peer: str
    status: Status
    why: str = ""
    version: str = ""
    flags: str = ""
    error_ours: float | None = None
    error_peer: float | None = None
    errors_ours: Mapping[str, float] = field(default_factory=dict)
    errors_peer: Mapping[str, float] = field(default_factory=dict)
    ratio: Ratio | None = None
    best_ours: float | None = None
    best_peer: float | None = None
    median_ours: float | None = None
    median_peer: float | None = None
    peak_best: float | None = None
    peak_median: float | None = None
    operations: float | None = None
    bytes: float | None = None
    pairs: Pairs | None = None


def timed_row(row: Row, found: Pairs) -> Row:
    """The row with its times."""
    work = row.case.operations()
    return replace(
        row,
        status="timed",
        ratio=paired(found.ours, found.other),
        best_ours=min(found.ours),
        best_peer=min(found.other),
        median_ours=median(found.ours),
        median_peer=median(found.other),
        peak_best=work / min(found.ours) / max(found.operations),
        peak_median=median([work / t / peak for t, peak in zip(found.ours, found.operations, strict=True)]),
        operations=median(found.operations),
        bytes=median(found.bytes),
        pairs=found,
    )


def to_dict(rows: Sequence[Row], machine: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values for JSON."""
    return {"machine": dict(machine), "rows": [asdict(row) for row in rows]}


def write_json(path: Path, rows: Sequence[Row], machine: Mapping[str, Any]) -> None:
    """Everything, every block too.

    Raises:
        FileAccessError: it cannot be written.
    """
    try:
        path.write_text(json.dumps(to_dict(rows, machine), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise FileAccessError(f"cannot write {path}: {error.strerror or error}") from error


def table(rows: Sequence[Row], machine: Mapping[str, Any]) -> Table:
    """What people read: a line for every case and peer that was timed; below it the others, and the machine."""
    timed = [row for row in rows if row.ratio is not None]
    columns = {
        "T,N,I,H": "shape",
        "mode thr": "mode",
        "beside": "peer",
        "ms": "times",
        "best": "best",
        "median [low high]": "median",
        "% peak": "peak",
        "errors": "error",
    }
    coverage = min((row.ratio.coverage for row in timed if row.ratio), default=0)
    versions = {f"{row.peer} {row.version}": None for row in rows if row.version}
    notes = [
        "",
        "ms: of our fastest call, of its. best, median: its time over ours, above 1 we are faster.",
        f"[low high]: the true median with probability {coverage:.1%} or more (order statistics of the pairs; "
        "6 or more reach 95 %).",
        "% peak: our best block over the best multiply-add rate seen, median over the rates next to each pair.",
        "errors, ours and its: against float64, the largest of all outputs and gradients, each over its own largest.",
        *_untimed(rows),
        f"versions: {', '.join(versions)}",
        *(f"{name}: {value}" for name, value in machine.items()),
    ]
    return Table([_record(row) for row in timed], columns, notes)


def _untimed(rows: Sequence[Row]) -> list[str]:
    """Who is missing and who cannot, once for each reason; what went wrong, case by case."""
    found: dict[str, None] = {}
    for row in rows:
        if row.status in ("absent", "refused"):
            found[f"{row.peer} {_WORDS[row.status]}: {row.why}"] = None
        elif row.status != "timed":
            found[f"{row.peer} {_WORDS[row.status]}, {_name(row)} {row.case.mode} {row.case.threads}: {row.why}"] = None
    return list(found)


def _name(row: Row) -> str:
    return f"{row.case.cell} {row.case.shape}"


def _record(row: Row) -> dict[str, Any]:
    ratio = row.ratio
    assert ratio is not None
    return {
        "shape": _name(row),
        "mode": f"{row.case.mode} {row.case.threads}",
        "peer": row.peer,
        "times": f"{_milliseconds(row.best_ours)} {_milliseconds(row.best_peer)}",
        "best": f"{ratio.best:.2f}",
        "median": f"{ratio.median:.2f} [{ratio.low:.2f} {ratio.high:.2f}]",
        "peak": f"{100 * (row.peak_best or 0):.0f} {100 * (row.peak_median or 0):.0f}",
        "error": f"{row.error_ours:.0e} {row.error_peer:.0e}",
    }


def _milliseconds(seconds: float | None) -> str:
    return f"{1e3 * (seconds or 0):.3g}"
