"""One recurrent layer of TensorFlow 1: from its variables, and what its graph says, to its weights. Opens no file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from rnnbridge import flat
from rnnbridge.activation import Activation
from rnnbridge.catalogue import Settings
from rnnbridge.convention import Convention
from rnnbridge.converters.tensorflow_facts import Facts
from rnnbridge.converters.tensorflow_names import Cell, Group
from rnnbridge.converters.tensorflow_rows import ACTIVATIONS, CUDNN_COMPATIBLE_LSTM, OPAQUE, row_named
from rnnbridge.errors import ArgumentError, FormatError, LayoutError, SpecError
from rnnbridge.files.narrow import widened
from rnnbridge.spec import Direction, RNNSpec
from rnnbridge.weights import Assumption, Origin, RNNWeights, describe, stack, stacking_obstacles

Array = NDArray[Any]
_FLOATS = ("float32", "float64", "float16", "bfloat16")
_ASK = (
    "its forget bias is added at run time and stands in the graph alone; there is none beside it that shows it: set "
    "forget_bias to the number that the cell was made with (1 unless the program says otherwise; 0 for weights that "
    "come from CudnnLSTM)"
)


@dataclass(frozen=True)
class Held:
    """The variables of a file, what they are stored as where that is bfloat16, and what its graph says of cells.

    `facts` is None where there is no graph.
    """

    arrays: Mapping[str, Array]
    bfloat16: frozenset[str] = frozenset()
    facts: Mapping[str, set[Facts]] | None = None


@dataclass
class Reader:
    """One layer's way from variables to weights; `where` begins every error."""

    group: Group
    where: str
    name: str
    settings: Settings
    held: Held
    assumptions: list[Assumption] = field(default_factory=list)

    def weights(self) -> list[RNNWeights]:
        """The layer; its cells one by one where they do not form a stack. Raises FormatError, ArgumentError."""
        try:
            if self.group.opaque:
                return [self._opaque()]
            numbers = sorted({number for number, _ in self.group.cells})
            layers = [self._layer(number) for number in numbers]
        except (LayoutError, SpecError) as error:
            raise FormatError(f"{self.where}: {error}") from error
        return layers if any(stacking_obstacles(*pair) for pair in pairwise(layers)) else [stack(layers)]

    def _layer(self, number: int) -> RNNWeights:
        cells = {direction: cell for (layer, direction), cell in self.group.cells.items() if layer == number}
        row = row_named(self.group.row)
        facts = self._facts(cells)
        own = {
            f"0/{row.direction_names[direction]}/{leaf}": full
            for direction, cell in sorted(cells.items())
            for leaf, full in cell.names.items()
        }
        arrays, stored = self._numbers(own)
        evidence = [f"its variables have the names of {row.layer}, gates {' '.join(row.gates)}"]
        if row.cell == "lstm":
            row = replace(row, forget_bias=self._forget_bias(row, facts, evidence))
        sizes = row.sizes(arrays, len(cells))
        direction: Direction = "bidirectional" if len(cells) == 2 else "reverse" if self.group.turned else "forward"
        spec = RNNSpec(
            cell=row.cell,
            input_size=sizes["input_size"],
            hidden_size=sizes["hidden_size"],
            proj_size=sizes["proj_size"],
            bias=row.bias_forms[-1],
            direction=direction,
            reset=next(iter(row.reset), None),
            peephole=any("_diag" in one for one in arrays),
            activations=self._activations(row, facts),
            **self._clips(row, facts, sizes["proj_size"], evidence),
        )
        wanted = {row.array_name(slot, k, d) for k, d, _ in spec.positions() for slot in row.slots}
        if left_over := sorted(own[one] for one in arrays.keys() - wanted):
            raise LayoutError(f"{', '.join(left_over)} left over: the other variables are a {describe(spec)}")
        origin = self._origin(row, stored, evidence)
        return RNNWeights(spec, row.read(arrays, spec), origin)

    def _facts(self, cells: Mapping[int, Cell]) -> Facts | None:
        """What the graph says of a layer's cells; None where it says nothing."""
        known = self.held.facts or {}
        said = {one for cell in cells.values() for one in known.get(cell.scope, ())}
        for key in ("kind", "forget_bias", "cell_clip", "proj_clip", "activation"):
            values = {getattr(one, key) for one in said}
            if len(values) > 1 and self.settings.get(key, self.name) is None:
                raise LayoutError(f"the graph has its cells with {key} {' and '.join(sorted(map(str, values)))}")
        found = next(iter(said), None)
        if found is not None and found.kind == "ifco":
            raise LayoutError("the graph runs it by BlockLSTMV2, whose gates are i f c o; BlockLSTM's are read")
        return found

    def _numbers(self, own: Mapping[str, str]) -> tuple[dict[str, Array], set[str]]:
        found, stored = {}, set()
        for name, full in own.items():
            kind = "bfloat16" if full in self.held.bfloat16 else self.held.arrays[full].dtype.name
            if kind not in _FLOATS:
                raise LayoutError(f"{full} is {kind}; {', '.join(_FLOATS)} are read")
            found[name] = widened(self.held.arrays[full], kind)
            stored.add(kind)
        return found, stored

    def _forget_bias(self, row: Convention, facts: Facts | None, evidence: list[str]) -> float:
        asked = self._asked("forget_bias", at_least=-math.inf)
        if asked is not None:
            return asked
        if facts is not None and facts.forget_bias is not None:
            evidence.append(f"its graph adds a forget bias of {facts.forget_bias:g}")
            return facts.forget_bias
        if row.name == CUDNN_COMPATIBLE_LSTM.name:
            return 0.0
        raise LayoutError(_ASK)

    def _clips(self, row: Convention, facts: Facts | None, proj_size: int, evidence: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in ("cell_clip", "proj_clip"):
            if key not in row.extras or (key == "proj_clip" and not proj_size):
                continue
            asked = self._asked(key, at_least=0.0)
            said = getattr(facts, key) if facts is not None else None
            found[key] = (asked or None) if asked is not None else said
            if asked is None and facts is None:
                self.assumptions.append(Assumption(key, "0", "none; it stands in the graph alone"))
            elif asked is None and said is not None:
                evidence.append(f"its graph has {key} {said:g}")
        return found

    def _activations(self, row: Convention, facts: Facts | None) -> tuple[Activation, ...]:
        if len(row.activations[-1]) == 1:
            return ()
        asked = self.settings.get("activation", self.name)
        if asked is not None and asked not in ACTIVATIONS:
            raise ArgumentError(f"setting activation={asked!r}; it is {', '.join(ACTIVATIONS)}")
        name = asked or (facts.activation if facts is not None else None)
        if name is not None and name not in ACTIVATIONS:
            raise LayoutError(f"its graph has the activation {name}; read are {', '.join(ACTIVATIONS)}")
        if name is None:
            self.assumptions.append(Assumption("activation", "tanh", "the default; it stands in the graph alone"))
        one = Activation.parse(name or "tanh")
        return {"lstm": (Activation("sigmoid"), one, one), "gru": (Activation("sigmoid"), one)}.get(row.cell, (one,))

    def _asked(self, key: str, at_least: float) -> float | None:
        value = self.settings.get(key, self.name)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number >= at_least):
            raise ArgumentError(f"setting {key}={value!r}; it is a number" + (", 0 for none" if at_least == 0 else ""))
        return number

    def _opaque(self) -> RNNWeights:
        arrays, stored = self._numbers({"": self.group.opaque})
        vector = arrays[""]
        if vector.ndim != 1:
            raise LayoutError(f"{self.group.opaque} is {list(vector.shape)} and should be a vector")
        said = flat.said_of(self.settings, self.name, self.where, vector.size, "double")
        row = next(row for row in OPAQUE if row.cell == said.spec.cell)
        self.assumptions += said.assumptions
        evidence = [f"{vector.size} numbers are all matrices, then all biases, of a {describe(said.spec)}"]
        canonical = row.read(flat.apart(row, vector, said.spec), said.spec)
        return RNNWeights(said.spec, canonical, self._origin(row, stored, evidence))

    def _origin(self, row: Convention, stored: set[str], evidence: list[str]) -> Origin:
        batch_first = self.settings.flag("batch_first", self.name)
        if batch_first is None and row.batch_first:
            unsaid = Assumption("batch_first", "true", "the file does not say it; dynamic_rnn's time_major is False")
            self.assumptions.append(unsaid)
        narrow = next(iter(stored)) if len(stored) == 1 else ""
        return Origin(
            framework=row.framework,
            convention=row.name,
            name=self.name,
            batch_first=row.batch_first if batch_first is None else batch_first,
            padding=row.padding,
            storage_dtype=narrow if narrow in ("float16", "bfloat16") else "",
            evidence=tuple(evidence),
            assumptions=tuple(dict.fromkeys(self.assumptions)),
        )


def read_layers(held: Held, where: str, groups: Mapping[str, Group], settings: Settings) -> dict[str, RNNWeights]:
    """Every layer by its name; the cells of what is no stack as NAME/cell_K."""
    layers: dict[str, RNNWeights] = {}
    for name, group in groups.items():
        found = Reader(group, f"{where}: layer {name!r}", name, settings, held).weights()
        for number, one in enumerate(found):
            own = name if len(found) == 1 else f"{name}/cell_{number}"
            layers[own] = one.with_origin(name=own)
    return layers
