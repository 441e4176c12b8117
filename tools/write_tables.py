"""Writes the tables of the documents that follow from the converters.

    python tools/write_tables.py           # write them
    python tools/write_tables.py --check   # exit with 1 if they are not what would be written

README.md: the formats. docs/conventions.md: every row. docs/matrix.md: from where to where a conversion is exact, exact
by a rewrite, or refused; every cell is a file that was written, read again and run beside its source in the reference.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rnnbridge as rb
from rnnbridge.catalogue import Format, catalogue
from rnnbridge.convention import Convention
from rnnbridge.proof.tolerance import expectation, max_abs_error, run_reference
from rnnbridge.weights import stack

ROOT = Path(__file__).parents[1]
FORMATS = ("<!-- formats: written by tools/write_tables.py -->\n", "<!-- end -->\n")
I, H, P, T, N = 5, 7, 3, 6, 2
SAME, REFUSED = "=", "–"

# What a layer may be beside the plainest one of its cell.
KINDS: dict[str, dict[str, Any]] = {
    "LSTM": {"cell": "lstm"},
    "LSTM, one bias": {"cell": "lstm", "bias": "single"},
    "LSTM, no bias": {"cell": "lstm", "bias": "none"},
    "LSTM, both directions": {"cell": "lstm", "direction": "bidirectional"},
    "LSTM, both, summed": {"cell": "lstm", "direction": "bidirectional", "merge": "sum"},
    "LSTM, backwards": {"cell": "lstm", "direction": "reverse"},
    "LSTM, backwards, y in that order": {"cell": "lstm", "direction": "reverse", "output_order": "processing"},
    "LSTM of two layers": {"cell": "lstm", "num_layers": 2},
    "LSTM with a projection": {"cell": "lstm", "proj_size": P},
    "LSTM with peepholes": {"cell": "lstm", "peephole": True},
    "LSTM, clipped": {"cell": "lstm", "clip": 3.0},
    "LSTM, f = 1 - i": {"cell": "lstm", "coupled": "f=1-i"},
    "LSTM, hard sigmoid of Keras 2": {"cell": "lstm", "activations": ("hard_sigmoid(0.2, 0.5)", "tanh", "tanh")},
    "GRU, reset after": {"cell": "gru", "reset": "after"},
    "GRU, reset after, one bias": {"cell": "gru", "reset": "after", "bias": "single"},
    "GRU, reset before": {"cell": "gru", "reset": "before"},
    "GRU, reset before, one bias": {"cell": "gru", "reset": "before", "bias": "single"},
    "GRU, both directions": {"cell": "gru", "reset": "after", "direction": "bidirectional"},
    "RNN, tanh": {"cell": "rnn", "activations": ("tanh",)},
    "RNN, relu": {"cell": "rnn", "activations": ("relu",)},
}


class Notes:
    """Numbered sentences, each once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def number(self, line: str) -> str:
        line = line.removeprefix("layer 'rnn': ")
        if line not in self.lines:
            self.lines.append(line)
        return str(self.lines.index(line) + 1)


def drawn(spec: rb.RNNSpec) -> rb.RNNWeights:
    """Weights of which every number differs from every other and from zero."""
    rng = np.random.default_rng(7)
    shapes = spec.weight_shapes().items()
    arrays = {name: (rng.uniform(0.1, 0.7, shape) * rng.choice([-1, 1], shape)).astype("f") for name, shape in shapes}
    return rb.RNNWeights(spec, arrays)


def kind_of(kind: dict[str, Any]) -> rb.RNNWeights:
    return drawn(rb.RNNSpec(**{"input_size": I, "hidden_size": H, "bias": "double", **kind}))


def layer_of(row: Convention) -> rb.RNNWeights:
    """A layer as a row has it by itself: one layer, its first direction, formula and activations, all of its biases."""
    needed = {tensor for slot in row.slots if not slot.optional for tensor in slot.tensors}
    spec = rb.RNNSpec(
        cell=row.cell,
        proj_size=P if "weight_hr" in needed else 0,
        input_size=I,
        hidden_size=H,
        bias=row.bias_forms[-1],
        direction=row.directions[0],
        reset=row.reset[0] if row.cell == "gru" else None,
        activations=("tanh",) if row.cell == "rnn" else None,
    )
    weights = drawn(spec)
    return rb.RNNWeights(spec, row.read(row.write(weights.arrays, spec), spec))


def outcome(weights: rb.RNNWeights, target: Format, notes: Notes) -> str:
    """Write it, read it, run both. One mark for a cell of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{(target.suffixes or ('.h5',))[0]}"
        try:
            written = rb.save(weights, path, target.name)
        except rb.Incompatible as refusal:
            return f"{REFUSED} {' '.join(notes.number(reason) for reason in refusal.reasons)}"
        again = rb.load(path, settings=written.layers[0].settings)
    check_the_same(weights, stack([again[layer.target] for layer in written.layers]))
    steps = dict.fromkeys(notes.number(str(step)) for layer in written.layers for step in layer.plan.steps)
    return " ".join([SAME, *steps])


def check_the_same(weights: rb.RNNWeights, again: rb.RNNWeights) -> None:
    """Raise AssertionError unless both give the same numbers."""
    rng = np.random.default_rng(3)
    spec, states = weights.spec, weights.spec.num_layers * weights.spec.num_directions
    x, h0 = rng.standard_normal((T, N, I)), rng.uniform(-0.9, 0.9, (states, N, spec.state_size))
    c0 = rng.uniform(-0.9, 0.9, (states, N, H)) if spec.has_cell_state else None
    wanted = expectation(spec, weights.arrays, x, h0, c0)
    got = run_reference(again.spec, again.arrays, x, h0, c0)
    for name, output in wanted.outputs.items():
        assert max_abs_error(got[name], output) <= wanted.tolerance[name], (weights, name)


def table(sources: dict[str, rb.RNNWeights], targets: list[Format], notes: Notes) -> Iterator[str]:
    yield f"| | {' | '.join(f'`{target.name}`' for target in targets)} |"
    yield "|---|" + "---|" * len(targets)
    for name, weights in sources.items():
        yield f"| {name} | {' | '.join(outcome(weights, target, notes) for target in targets)} |"


def formats() -> Iterator[str]:
    yield "| format | files | read | written |"
    yield "|---|---|---|---|"
    for one in catalogue().formats.values():
        endings = ", ".join(f"`{suffix}`" for suffix in one.suffixes) or ("by `--to`" if one.write else "any")
        yield f"| `{one.name}` | {endings} | {one.reads} | {one.writes if one.write else '-'} |"


def conventions() -> str:
    lines = [
        "# How each framework lays out each layer",
        "",
        "Written by `python tools/write_tables.py` from the rows in `converters/`; `rnnbridge conventions` prints them",
        "too. Axes: g gates, b biases, i input, o output, p projection, l layers, d directions; `(g o)` is one axis,",
        "gate by gate.",
    ]
    for framework in dict.fromkeys(row.framework for row in catalogue().rows.values()):
        rows = rb.conventions(framework)
        lines += ["", f"## {framework}", "", "| layer | gates | arrays | numbers |", "|---|---|---|---|"]
        for row in rows:
            cells = (row["gates_in_order"], "<br>".join(row["arrays"]), "<br>".join(row["formula"]))
            lines.append(f"| `{row['layer']}` | {' | '.join(cells)} |")
        sources = dict.fromkeys(row["source"] for row in rows)
        lines += ["", *(f"- {', '.join(r['layer'] for r in rows if r['source'] == one)}: {one}" for one in sources)]
    return "\n".join([*lines, ""])


def matrix() -> str:
    targets = [one for one in catalogue().formats.values() if one.write]
    rows = {f"`{row.name}`": layer_of(row) for row in catalogue().rows.values()}
    notes = Notes()
    kinds = list(table({name: kind_of(kind) for name, kind in KINDS.items()}, targets, notes))
    sources = list(table(rows, targets, notes))
    return "\n".join(
        [
            "# From where to where",
            "",
            "Written by `python tools/write_tables.py`, which writes every file of these tables, reads it again and",
            "runs it beside its source.",
            f'"{SAME}" is exact, with a number exact by that rewrite; "{REFUSED}" refused, for the reasons numbered.',
            "",
            "## Kinds of layers",
            "",
            *kinds,
            "",
            "## Layers of frameworks",
            "",
            "Each as its row in `rnnbridge conventions` has it by itself, with numbers in all of its biases.",
            "",
            *sources,
            "",
            "## Numbers",
            "",
            *(f"{number}. {line}" for number, line in enumerate(notes.lines, 1)),
            "",
        ]
    )


def readme() -> str:
    begin, end = FORMATS
    before, _, rest = (ROOT / "README.md").read_text("utf-8").partition(begin)
    _, _, after = rest.partition(end)
    return "".join([before, begin, *(f"{line}\n" for line in formats()), end, after])


def main() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = {"README.md": readme(), "docs/conventions.md": conventions(), "docs/matrix.md": matrix()}
    stale = [name for name, text in texts.items() if not is_there(ROOT / name, text)]
    if "--check" in sys.argv[1:]:
        print("".join(f"{name} is stale: python tools/write_tables.py\n" for name in stale), end="")
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(texts[name], "utf-8")
    return 0


def is_there(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
