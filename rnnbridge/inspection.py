"""`inspect`: what is in a file, how that is known, and who can hold it. As data, with a readable repr.

Knows no framework: which there are, and what each can hold, the catalogue's rows say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbridge.bundle import load
from rnnbridge.catalogue import catalogue
from rnnbridge.convention import Convention
from rnnbridge.errors import Incompatible
from rnnbridge.formula import formula_of
from rnnbridge.rewrite import plan
from rnnbridge.spec import RNNSpec
from rnnbridge.tables import as_text, gates_in_words, grid, indented
from rnnbridge.weights import Assumption, RNNWeights, describe

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Holder:
    """Whether what a format writes can hold a layer: in which row and by which rewrites, or why not."""

    format: str
    possible: bool
    row: str = ""
    rewrites: tuple[str, ...] = ()
    same_bits: bool = False
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.possible:
            return "no: " + "\n".join(self.reasons)
        bits = "the same bits" if self.same_bits else "exact up to one rounding"
        return "\n".join((f"yes, as {self.row}: {bits}", *self.rewrites))


@dataclass(frozen=True)
class LayerInspection:
    """One recurrent layer of a file.

    Args:
        name: in the file.
        spec: the canonical description.
        description: the same in a line.
        row: the convention that it was read with, "keras.CuDNNGRU", and `version` of the framework that wrote it.
        gru_class: "reset after, z keeps" and the like; "" unless a GRU. z is the source's, before it was turned.
        formula: what the source computes.
        gates: the source's gate order, in its own letters.
        sequences: the source's order, "[N, T, I]" or "[T, N, I]", "" if it has none; `padding`: y past a length.
        dtype: what the numbers are stored in.
        evidence: what in the file decided the reading.
        assumptions: what the file does not say.
        rewrites: what was done to the numbers on reading, beyond moving them.
        holders: every format of the catalogue that is written.
    """

    name: str
    spec: RNNSpec
    description: str
    row: str
    version: str
    gru_class: str
    formula: tuple[str, ...]
    gates: str
    sequences: str
    padding: str
    dtype: str
    num_parameters: int
    evidence: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    rewrites: tuple[str, ...]
    holders: tuple[Holder, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "spec": self.spec.to_dict()}

    def facts(self) -> Iterator[tuple[str, str]]:
        """What a person reads, as (title, text); empty texts are left out."""
        given = {
            "layer": f"{self.row} {self.version and f'(version {self.version})'}".strip(),
            "is": f"{self.description}, {self.num_parameters} x {self.dtype}",
            "GRU class": self.gru_class,
            "formula": "\n".join(self.formula),
            "gate order": self.gates,
            "activations": ", ".join(map(str, self.spec.activations)),
            "sequences": f"{self.sequences}{', ' * bool(self.sequences)}past a length: {self.padding}",
            "on reading": "\n".join(self.rewrites),
            "evidence": "\n".join(self.evidence),
            "assumed": "\n".join(self._overridable(one) for one in self.assumptions),
        }
        yield from ((title, text) for title, text in given.items() if text)

    def _overridable(self, one: Assumption) -> str:
        return f"{one.key} = {one.value}, {one.because}\n    to override: --set {self.name}.{one.key}=VALUE"


@dataclass(frozen=True)
class Inspection:
    """What is in a file.

    Args:
        path, format: the file.
        layers: every recurrent layer, in the file's order.
        tensors: name -> shape and dtype of every other array, e.g. "[31, 7] float32".
        notices: what a user should know and would not guess.
    """

    path: str
    format: str
    layers: tuple[LayerInspection, ...]
    tensors: Mapping[str, str]
    notices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "path": self.path,
            "format": self.format,
            "layers": [layer.to_dict() for layer in self.layers],
            "tensors": dict(self.tensors),
            "notices": list(self.notices),
        }

    def __repr__(self) -> str:
        return as_text(self)

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        """What to draw: a block of facts and the holders for each layer, then the rest of the file."""
        from rich.text import Text

        yield Text(f"{self.path}: {self.format}, {len(self.layers)} recurrent layer{'s' * (len(self.layers) != 1)}")
        for layer in self.layers:
            yield Text(f"\n{layer.name}", style="bold")
            yield _definitions(layer.facts())
            yield Text("\n  who can hold it")
            yield _definitions((holder.format, str(holder)) for holder in layer.holders)
        for title, lines in (("other arrays", self._tensor_lines()), ("notices", self.notices)):
            if body := [indented(line) for line in lines]:
                yield from (Text(f"\n{title}"), *body)

    def _tensor_lines(self) -> Iterator[str]:
        yield from (f"{name} {shape}" for name, shape in self.tensors.items())


def inspect(path: str | os.PathLike[str], settings: Mapping[str, str] | None = None) -> Inspection:
    """Say what is in a file: every recurrent layer, its formula and conventions, the evidence, and who can hold it.

    Args:
        path: the file.
        settings: what the file does not say, as `load` takes it.

    Raises:
        FormatError, FileAccessError, ArgumentError: as `load` says.
    """
    bundle = load(path, settings=settings)
    return Inspection(
        path=str(Path(path)),
        format=bundle.format,
        layers=tuple(_inspect_layer(name, weights) for name, weights in bundle.layers.items()),
        tensors={name: f"{list(array.shape)} {array.dtype}" for name, array in bundle.tensors.items()},
        notices=bundle.notices,
    )


def row_of(weights: RNNWeights) -> Convention | None:
    """The row that a layer was read with; None for a row of the user's own, or weights from nowhere."""
    return catalogue().rows.get(weights.origin.convention)


def _inspect_layer(name: str, weights: RNNWeights) -> LayerInspection:
    spec, origin = weights.spec, weights.origin
    row = row_of(weights)
    z = row.z if row else "keeps"
    return LayerInspection(
        name=name,
        spec=spec,
        description=describe(spec),
        row=origin.convention or origin.framework,
        version=origin.version,
        gru_class=f"reset {spec.reset}, z {z}" if spec.cell == "gru" else "",
        formula=tuple(formula_of(spec, z)),
        gates=gates_in_words(row) if row else " ".join(spec.gates),
        sequences={None: "", True: "[N, T, I]", False: "[T, N, I]"}[origin.batch_first],
        padding=origin.padding,
        dtype=origin.storage_dtype or str(weights.dtype),
        num_parameters=weights.num_parameters,
        evidence=origin.evidence,
        assumptions=origin.assumptions,
        rewrites=row.rewrites if row else (),
        holders=tuple(_holders(weights)),
    )


def _holders(weights: RNNWeights) -> Iterator[Holder]:
    for chosen in catalogue().formats.values():
        if chosen.write is None:
            continue
        try:
            found = plan(weights, chosen.rows or catalogue().rows_of(chosen.framework))
        except Incompatible as refusal:
            yield Holder(chosen.name, False, reasons=refusal.reasons)
        else:
            yield Holder(chosen.name, True, found.row.name, tuple(map(str, found.steps)), found.same_bits)


def _definitions(facts: Iterator[tuple[str, str]]) -> RenderableType:
    """Titles on the left, texts on the right, indented."""
    from rich.text import Text

    drawn = grid("", "", "")
    drawn.show_header = False
    drawn.columns[0].min_width = drawn.columns[1].min_width = 0
    for title, text in facts:
        drawn.add_row("", Text(title), Text(text))
    return drawn
