"""One recurrent layer of an MXNet file: from its arrays to its weights. Opens no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rnnbridge import flat
from rnnbridge.activation import Activation
from rnnbridge.catalogue import Settings
from rnnbridge.convention import Convention
from rnnbridge.converters.mxnet_names import Group, num_layers
from rnnbridge.converters.mxnet_rows import CELLS, LAYERS, LSTMP_CELL, UNPACKED
from rnnbridge.errors import ArgumentError, FormatError, LayoutError, SpecError
from rnnbridge.files.narrow import widened
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Assumption, Origin, RNNWeights, describe

Array = NDArray[Any]
_FLOATS = ("float16", "float32", "float64")


@dataclass(frozen=True)
class Reader:
    """One layer's way from arrays to weights; `where` begins every error."""

    group: Group
    where: str
    name: str
    settings: Settings

    def weights(self, held: Mapping[str, Array]) -> RNNWeights:
        """The layer. Raises FormatError that names the array; ArgumentError for a setting."""
        arrays = {own: self._number_array(full, held[full]) for own, full in self.group.names.items()}
        try:
            row, spec, arrays, origin = self._vector(arrays) if self.group.form == "vector" else self._arrays(arrays)
            wanted = {row.array_name(slot, k, d) for k, d, _ in spec.positions() for slot in row.slots}
            if left_over := sorted(arrays.keys() - wanted):
                raise LayoutError(f"{', '.join(left_over)} left over: the other arrays are a {describe(spec)}")
            stored = {array.dtype.name for array in arrays.values()}
            narrow = "float16" if stored == {"float16"} else ""
            wide = {own: widened(array, array.dtype.name) for own, array in arrays.items()}
            return RNNWeights(spec, row.read(wide, spec), Origin(**origin, storage_dtype=narrow))
        except (LayoutError, SpecError) as error:
            raise FormatError(f"{self.where}: {error}") from error

    def _number_array(self, full: str, array: Array) -> Array:
        if array.dtype.name not in _FLOATS:
            raise FormatError(f"{self.where}: {full} is {array.dtype}; {', '.join(_FLOATS)} are read")
        return array

    def _vector(self, arrays: dict[str, Array]) -> tuple[Convention, RNNSpec, dict[str, Array], dict[str, Any]]:
        (vector,) = arrays.values()
        if vector.ndim != 1:
            raise LayoutError(f"parameters is {list(vector.shape)} and should be a vector")
        said = flat.said_of(self.settings, self.name, self.where, vector.size, "double")
        row = next(row for row in LAYERS if row.cell == said.spec.cell)
        evidence = f"{vector.size} numbers are all matrices, then all biases, of a {describe(said.spec)}"
        return row, said.spec, flat.apart(row, vector, said.spec), self._origin(row, evidence, said.assumptions)

    def _arrays(self, arrays: dict[str, Array]) -> tuple[Convention, RNNSpec, dict[str, Array], dict[str, Any]]:
        row = self._row(arrays)
        sizes = row.sizes(arrays)
        activations, assumptions = self._activations(row)
        spec = RNNSpec(
            cell=row.cell,
            input_size=sizes["input_size"],
            hidden_size=sizes["hidden_size"],
            proj_size=sizes["proj_size"],
            bias="double",
            num_layers=num_layers(arrays) if row.many_layers else 1,
            direction="bidirectional" if any(own.startswith("r") for own in arrays) else "forward",
            reset=next(iter(row.reset), None),
            activations=activations,
        )
        if spec.num_layers > len(arrays):
            raise LayoutError(f"{spec.num_layers} layers cannot be in {len(arrays)} arrays")
        evidence = f"its arrays have the names and the rows per hidden unit of {row.layer}, gates {' '.join(row.gates)}"
        return row, spec, arrays, self._origin(row, evidence, assumptions)

    def _row(self, arrays: Mapping[str, Array]) -> Convention:
        if self.group.form == "unpacked":
            return UNPACKED[0] if any("_f_" in own for own in arrays) else UNPACKED[1]
        place = "" if self.group.form == "cell" else "l0_"
        recurrent, projection = (arrays.get(f"{place}{kind}_weight") for kind in ("h2h", "h2r"))
        if recurrent is None or recurrent.ndim != 2 or 0 in recurrent.shape:
            raise LayoutError(f"{place}h2h_weight is missing or no matrix")
        hidden = recurrent.shape[1] if projection is None or projection.ndim != 2 else projection.shape[1]
        rows = {len(row.gates): row for row in (CELLS if self.group.form == "cell" else LAYERS)}
        gates, rest = divmod(recurrent.shape[0], hidden or 1)
        if rest or gates not in rows:
            known = ", ".join(f"{count * hidden} ({row.layer})" for count, row in rows.items())
            raise LayoutError(f"{place}h2h_weight is {list(recurrent.shape)}; with {hidden} units it has {known} rows")
        return LSTMP_CELL if self.group.form == "cell" and projection is not None else rows[gates]

    def _activations(self, row: Convention) -> tuple[tuple[Activation, ...], tuple[Assumption, ...]]:
        if row.cell != "rnn":
            return (), ()
        asked = self.settings.get("activation", self.name)
        known = row.activations[0]
        if asked is not None and asked not in known:
            raise ArgumentError(f"setting activation={asked!r}; MXNet's {row.layer} has {' or '.join(known)}")
        named = next((word for word in known if f"rnn_{word}" in self.group.prefix), None)
        if asked or named:
            return (Activation(asked or str(named)),), ()
        usual = "tanh" if row in CELLS else "relu"
        because = f"the file does not say it; the default of gluon.rnn.{row.layer}"
        return (Activation(usual),), (Assumption("activation", usual, because),)

    def _origin(self, row: Convention, evidence: str, assumptions: tuple[Assumption, ...]) -> dict[str, Any]:
        batch_first = None if row.batch_first is None else self.settings.flag("batch_first", self.name)
        if row.batch_first is not None and batch_first is None:
            unsaid = Assumption("batch_first", "false", "the file does not say the layer's layout; TNC is the default")
            assumptions = (*assumptions, unsaid)
        return {
            "framework": row.framework,
            "convention": row.name,
            "name": self.name,
            "batch_first": batch_first,
            "padding": row.padding,
            "evidence": (evidence,),
            "assumptions": assumptions,
        }
