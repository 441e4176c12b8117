"""One recurrent layer of a state_dict of Paddle: from its arrays to its weights. Opens no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rnnbridge.activation import Activation
from rnnbridge.catalogue import Settings
from rnnbridge.convention import Convention
from rnnbridge.converters.paddle_names import Group, num_layers
from rnnbridge.converters.paddle_rows import CELLS, LAYERS
from rnnbridge.errors import ArgumentError, FormatError, LayoutError, SpecError
from rnnbridge.files.narrow import widened
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Assumption, Origin, RNNWeights, describe

Array = NDArray[Any]
# What Paddle stores -> what its numbers are: NumPy has no bfloat16, so that its bits are in whole numbers.
_KINDS = {"float16": "float16", "uint16": "bfloat16", "float32": "", "float64": ""}
_KNOWN = "float16, bfloat16 (uint16), float32, float64"


@dataclass(frozen=True)
class Said:
    """What is said of a layer beyond its arrays; None is nothing. `because` says why that order is assumed."""

    activation: str | None = None
    batch_first: bool | None = None
    because: str = "the file does not say the layer's order; time_major=False is the default"
    evidence: str = ""


@dataclass(frozen=True)
class Reader:
    """One layer's way from arrays to weights; `where` begins every error."""

    group: Group
    where: str
    name: str
    settings: Settings
    said: Said = Said()

    def weights(self, held: Mapping[str, Array]) -> RNNWeights:
        """The layer. Raises FormatError that names the array; ArgumentError for a setting."""
        arrays = {own: held[full] for own, full in self.group.names.items()}
        kinds = {self._kind(own, array) for own, array in arrays.items()}
        try:
            row = self._row(arrays)
            activations, assumptions = self._activations(row)
            spec = self._spec(row, arrays, activations)
            wanted = {row.array_name(slot, k, d) for k, d, _ in spec.positions() for slot in row.slots}
            if left_over := sorted(arrays.keys() - wanted):
                raise LayoutError(f"{', '.join(left_over)} left over: the other arrays are a {describe(spec)}")
            wide = {own: widened(array, _KINDS[array.dtype.name]) for own, array in arrays.items()}
            storage = kinds.pop() if len(kinds) == 1 else ""
            return RNNWeights(spec, row.read(wide, spec), self._origin(row, storage, assumptions))
        except (LayoutError, SpecError) as error:
            raise FormatError(f"{self.where}: {error}") from error

    def _kind(self, own: str, array: Array) -> str:
        if array.dtype.name not in _KINDS:
            raise FormatError(f"{self.where}: {self.group.names[own]} is {array.dtype}; {_KNOWN} are read")
        return _KINDS[array.dtype.name]

    def _row(self, arrays: Mapping[str, Array]) -> Convention:
        place = "" if self.group.is_cell else "0.cell_fw."
        recurrent, projection = (arrays.get(f"{place}{kind}") for kind in ("weight_hh", "weight_ho"))
        if recurrent is None or recurrent.ndim != 2 or 0 in recurrent.shape:
            raise LayoutError(f"{place}weight_hh is missing or no matrix")
        hidden = recurrent.shape[1] if projection is None or projection.ndim != 2 else projection.shape[0]
        rows = {len(row.gates): row for row in (CELLS if self.group.is_cell else LAYERS)}
        gates, rest = divmod(recurrent.shape[0], hidden or 1)
        if rest or gates not in rows:
            known = ", ".join(f"{count * hidden} ({row.layer})" for count, row in rows.items())
            raise LayoutError(f"{place}weight_hh is {list(recurrent.shape)}; with {hidden} units it has {known} rows")
        return rows[gates]

    def _spec(self, row: Convention, arrays: Mapping[str, Array], activations: tuple[Activation, ...]) -> RNNSpec:
        sizes = row.sizes(arrays)
        layers = num_layers(arrays) if row.many_layers else 1
        if layers > len(arrays):
            raise LayoutError(f"{layers} layers cannot be in {len(arrays)} arrays")
        return RNNSpec(
            cell=row.cell,
            input_size=sizes["input_size"],
            hidden_size=sizes["hidden_size"],
            proj_size=sizes["proj_size"],
            bias="double",
            num_layers=layers,
            direction="bidirectional" if self.group.both_ways else "forward",
            reset=next(iter(row.reset), None),
            activations=activations,
        )

    def _activations(self, row: Convention) -> tuple[tuple[Activation, ...], tuple[Assumption, ...]]:
        if row.cell != "rnn":
            return (), ()
        asked = self.settings.get("activation", self.name)
        known = row.activations[0]
        if asked is not None and asked not in known:
            raise ArgumentError(f"setting activation={asked!r}; Paddle's {row.layer} has {' or '.join(known)}")
        if named := asked or self.said.activation:
            return (Activation(named),), ()
        because = f"the file does not say it; the default of paddle.nn.{row.layer}"
        return (Activation(known[0]),), (Assumption("activation", known[0], because),)

    def _origin(self, row: Convention, storage: str, assumptions: tuple[Assumption, ...]) -> Origin:
        asked = None if row.batch_first is None else self.settings.flag("batch_first", self.name)
        order = row.batch_first if self.said.batch_first is None else self.said.batch_first
        if row.batch_first is not None and asked is None and self.said.because:
            unsaid = Assumption("batch_first", str(order).lower(), self.said.because)
            assumptions = (*assumptions, unsaid)
        names = f"its arrays have the names and the rows per hidden unit of {row.layer}, gates {' '.join(row.gates)}"
        return Origin(
            framework=row.framework,
            convention=row.name,
            name=self.name,
            batch_first=order if asked is None and row.batch_first is not None else asked,
            padding=row.padding,
            storage_dtype=storage,
            evidence=(self.said.evidence or names,),
            assumptions=assumptions,
        )
