"""One recurrent layer of a state_dict: from its arrays to its weights. Imports neither torch nor files.

LSTM, GRU and RNN are told apart by their rows per hidden unit; everything else follows from the names that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rnnbridge.activation import Activation
from rnnbridge.catalogue import Settings
from rnnbridge.convention import Convention
from rnnbridge.converters.pytorch_names import NAME, Group, Said, State, neighbours
from rnnbridge.converters.pytorch_rows import CELLS, MODULES, array_names
from rnnbridge.errors import ArgumentError, FormatError, LayoutError, SpecError
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Assumption, Origin, RNNWeights, describe

Array = NDArray[Any]


@dataclass(frozen=True)
class Reader:
    """One layer's way from arrays to weights; `where` begins every error."""

    state: State
    group: Group
    where: str
    name: str
    settings: Settings
    said: Said | None

    def weights(self) -> RNNWeights:
        arrays = {own: self._array(own, full) for own, full in self.group.names.items()}
        try:
            row = self._row(arrays)
            spec, assumptions = self._spec(row, arrays)
            self._check_names(row, spec)
            self._check_said(spec)
            origin = self._origin(row, arrays, assumptions)
            return RNNWeights(spec, row.read(arrays, spec), origin)
        except (LayoutError, SpecError) as error:
            raise FormatError(f"{self.where}: {error}{self._hint()}") from error

    def _array(self, own: str, full: str) -> Array:
        if full in self.state.unreadable:
            raise FormatError(
                f"{self.where}: {own} is {self.state.unreadable[full]}; float32, float64, float16 and bfloat16 are read"
            )
        return self.state.arrays[full]

    def _row(self, arrays: Mapping[str, Array]) -> Convention:
        suffix = "" if self.group.is_cell else "_l0"
        recurrent = arrays.get(f"weight_hh{suffix}")
        if recurrent is None:
            raise LayoutError(f"weight_hh{suffix} is missing")
        shape = (arrays.get(f"weight_hr{suffix}", recurrent)).shape
        if recurrent.ndim != 2 or len(shape) != 2 or 0 in shape:
            raise LayoutError(f"weight_hh{suffix} is {list(recurrent.shape)} and should be a matrix [G*H, H]")
        hidden = shape[1]
        rows = {len(row.gates) * hidden: row for row in (CELLS if self.group.is_cell else MODULES)}
        if recurrent.shape[0] not in rows:
            known = ", ".join(f"{count} ({row.layer})" for count, row in rows.items())
            raise LayoutError(
                f"weight_hh{suffix} is {list(recurrent.shape)}; with a hidden size of {hidden} it has {known} rows"
            )
        return rows[recurrent.shape[0]]

    def _spec(self, row: Convention, arrays: Mapping[str, Array]) -> tuple[RNNSpec, tuple[Assumption, ...]]:
        reverse = any(own.endswith("_reverse") for own in arrays)
        activations, assumptions = self._activations(row)
        sizes = row.sizes(arrays)
        spec = RNNSpec(
            cell=row.cell,
            input_size=sizes["input_size"],
            hidden_size=sizes["hidden_size"],
            proj_size=sizes["proj_size"],
            bias=row.bias_of(arrays),
            num_layers=self._num_layers(),
            direction="bidirectional" if reverse else "forward",
            reset=next(iter(row.reset), None),
            activations=activations,
        )
        return spec, assumptions

    def _num_layers(self) -> int:
        indices = {int(match[3] or 0) for own in self.group.names if (match := NAME.fullmatch(own))}
        if missing := sorted(set(range(max(indices))) - indices):
            raise LayoutError(f"layer {missing[0]} is missing, and layer {max(indices)} is there")
        return len(indices)

    def _activations(self, row: Convention) -> tuple[tuple[Activation, ...], tuple[Assumption, ...]]:
        if row.cell != "rnn":
            return (), ()
        known = row.activations[0]
        asked = self.settings.get("nonlinearity", self.name)
        if asked is not None and asked not in known:
            raise ArgumentError(f"setting nonlinearity={asked!r}; torch.nn.{row.layer} has {' or '.join(known)}")
        if asked is not None:
            return (Activation(asked),), ()
        if self.said is not None and self.said.spec is not None:
            return self.said.spec.activations, ()
        if self.said is not None and self.said.nonlinearity is not None:
            return (self._said_activation(self.said.nonlinearity, known),), ()
        because = f"a state_dict does not say it; the default of torch.nn.{row.layer}"
        return (Activation(known[0]),), (Assumption("nonlinearity", known[0], because),)

    def _said_activation(self, said: str, known: tuple[str, ...]) -> Activation:
        if said not in known:
            raise LayoutError(f"its module says that it computes {said!r}; torch.nn has {' or '.join(known)}")
        return Activation(said)

    def _check_names(self, row: Convention, spec: RNNSpec) -> None:
        left_over = sorted(set(self.group.names) - set(array_names(row, spec)))
        if left_over:
            raise LayoutError(f"{', '.join(left_over)} left over: the other arrays are a {describe(spec)}")

    def _check_said(self, spec: RNNSpec) -> None:
        if self.said is None or self.said.spec is None:
            return
        claims, found = self.said.spec.to_dict(), spec.to_dict()
        if spec.cell == "rnn":  # what was read is the metadata's word, or the user's
            found.pop("activations")
        wrong = [
            f"{key} is {claims[key]!r} there and {found[key]!r} here" for key in found if claims[key] != found[key]
        ]
        if wrong:
            raise LayoutError(f"the metadata contradict the arrays: {'; '.join(wrong)}")

    def _origin(self, row: Convention, arrays: Mapping[str, Array], assumptions: tuple[Assumption, ...]) -> Origin:
        rows, hidden = len(row.gates), row.sizes(arrays)["hidden_size"]
        evidence = [
            f"weight_hh has {rows} x {hidden} rows for {hidden} units: {row.layer}, gates {' '.join(row.gates)}",
            "names end in nothing: a cell" if self.group.is_cell else "names end in _l0: a module",
        ]
        if self.said is not None and self.said.spec is not None:
            evidence.append("the file's metadata describe the layer, and its arrays agree")
        elif self.said is not None:
            evidence.append("the file holds the module itself")
        batch_first = None if self.group.is_cell else self.settings.flag("batch_first", self.name)
        if batch_first is None and self.said is not None:
            batch_first = self.said.batch_first
        if batch_first is None and not self.group.is_cell:
            unsaid = Assumption("batch_first", "false", "a state_dict does not say whether sequences are [T, N, .]")
            assumptions = (*assumptions, unsaid)
        kinds = {self.state.narrow.get(full, "") for full in self.group.names.values()}
        return Origin(
            framework=row.framework,
            convention=row.name,
            name=self.name,
            batch_first=batch_first,
            padding=row.padding,
            storage_dtype=kinds.pop() if len(kinds) == 1 else "",
            evidence=tuple(evidence),
            assumptions=assumptions,
        )

    def _hint(self) -> str:
        others = neighbours(self.state, self.group)
        if not others:
            return ""
        return (
            f"\n  beside it lie {', '.join(others)}; where a parametrisation such as weight_norm made them, "
            "remove it from the module and save again"
        )
