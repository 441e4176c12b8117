"""The row type: how one framework lays out one kind of recurrent layer, and what that layer can express.

A row is data. Reading and writing are both derived from it, so no converter holds a split, a swap or a gate index.
Knows no framework by name: the rows live in `converters/`, one file each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rnnbridge.convention.check import mistakes
from rnnbridge.errors import LayoutError
from rnnbridge.gates import change_gates, gate_order
from rnnbridge.slot import Place, Slot
from rnnbridge.spec import GATES, STANDARD_ACTIVATIONS, Bias, Cell, Direction, Merge, OutputOrder, Reset, RNNSpec

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Convention:
    """How a framework lays out one kind of layer.

    Args:
        name: "keras.CuDNNGRU"; the part before the dot is the framework.
        cell: the canonical cell.
        gates: the gate order, in the framework's own letters.
        slots: every array.
        source: where these facts come from. Without one a row does not construct.
        letters: the framework's gate letters that are not the canonical ones, e.g. {"c": "g"}.
        reset: the GRU formulas that the layer can hold.
        z: "keeps" is h' = (1-z) n + z h, "takes" is h' = (1-z) h + z n.
        forget_bias: added to the forget gate at run time, on top of the stored bias.
        state_order: "h c" or "c h".
        padding: what y holds past a sequence's length.
        zero_length: the final state of an empty sequence: "initial", "zero", or "refused".
        batch_first: the usual order of sequences; None where there is none.
        directions: which the layer runs in; `direction_names` are what `{direction}` becomes.
        many_layers: whether one object holds a stack.
        activations: per canonical slot, the activations it can have; a bare name of one with constants admits any. Not
            given, they are the usual ones of an LSTM or GRU.
        one_activation: one setting serves the LSTM's candidate and its output.
        extras: the spec's optional fields that it can express: "proj_size", "peephole", "clip", "coupled", ...; the one
            way of coupling that it has, as "f=1-i", where it has not both.
        merges, output_orders: what it can express; `added` names the nodes that this takes, by value.

    Raises:
        LayoutError: gates that are not the cell's, an unknown tensor, or no source.
    """

    name: str
    cell: Cell
    gates: str
    slots: tuple[Slot, ...]
    source: str
    letters: Mapping[str, str] = field(default_factory=dict)
    reset: tuple[Reset, ...] = ()
    z: Literal["keeps", "takes"] = "keeps"
    forget_bias: float = 0.0
    state_order: Literal["h c", "c h", "h"] = "h"
    padding: Literal["zero", "repeat"] = "zero"
    zero_length: Literal["initial", "zero", "refused"] = "initial"
    batch_first: bool | None = None
    directions: tuple[Direction, ...] = ("forward",)
    direction_names: tuple[str, str] = ("", "_reverse")
    many_layers: bool = False
    activations: tuple[tuple[str, ...], ...] = ()
    one_activation: bool = False
    extras: tuple[str, ...] = ()
    merges: tuple[Merge, ...] = ("concat",)
    output_orders: tuple[OutputOrder, ...] = ("input",)
    added: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.activations and self.cell in STANDARD_ACTIVATIONS:
            standard = tuple((str(one),) for one in STANDARD_ACTIVATIONS[self.cell])
            object.__setattr__(self, "activations", standard)
        if wrong := mistakes(self):
            raise LayoutError(f"row {self.name!r}: " + "; ".join(wrong))

    @property
    def framework(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]

    @property
    def layer(self) -> str:
        """The part of the name after the dot: the framework's own name of the layer."""
        return self.name.partition(".")[2]

    @property
    def bias_forms(self) -> tuple[Bias, ...]:
        """The bias forms that it can hold. A bias that is added at run time cannot be absent."""
        held = {tensor for slot in self.slots for tensor in slot.tensors if tensor.startswith("bias")}
        full: Bias = "double" if "bias_hh" in held else "single" if held else "none"
        droppable = all(slot.optional for slot in self.slots if slot.holds.startswith("bias"))
        return ("none", full) if droppable and full != "none" and not self.forget_bias else (full,)

    @property
    def without_bias_hh(self) -> str:
        """The canonical gates that have no recurrent bias of their own in a row that holds one for others."""
        held = {gate for slot in self.slots if "bias_hh" in slot.tensors for gate in self.gates_in(slot)}
        return "".join(gate for gate in GATES[self.cell] if held and gate not in held)

    @property
    def rewrites(self) -> tuple[str, ...]:
        """What reading and writing does to the numbers beyond moving them."""
        return ("flip update gate",) * (self.z == "takes") + ("fold forget bias",) * bool(self.forget_bias)

    def bias_of(self, names: Mapping[str, Any]) -> Bias:
        """The bias form of a layer whose arrays have these names."""
        biases = [slot for slot in self.slots if slot.holds.startswith("bias")]
        present = [self.array_name(slot, 0, 0) in names for slot in biases]
        return self.bias_forms[-1] if any(present) or self.forget_bias else "none"

    def gates_in(self, slot: Slot) -> list[str]:
        """The canonical letters of the gates in a slot, in its own order; none for a projection."""
        return [] if slot.holds == "weight_hr" else [self._canonical(letter) for letter in slot.gates or self.gates]

    def array_name(self, slot: Slot, layer: int, direction: int) -> str:
        """The name of a slot's array at one layer and direction."""
        return slot.name.format(layer=layer, direction=self.direction_names[direction])

    def sizes(self, arrays: Mapping[str, Array], num_directions: int = 1) -> dict[str, int]:
        """Find I, H and P from the shapes of layer 0.

        Returns:
            {"input_size": I, "hidden_size": H, "proj_size": P or 0}

        Raises:
            LayoutError: an array that is missing, or shapes that contradict each other or leave a size open.
        """
        known: dict[str, int] = {}
        slots = [slot for slot in self.slots if self.array_name(slot, 0, 0) in arrays]
        if missing := [slot.name for slot in self.slots if slot not in slots and not slot.optional]:
            raise LayoutError(f"{self.name}: no {', '.join(missing)} among {sorted(arrays)}")
        for slot in slots * 2:  # the second pass uses what the first found out
            name = self.array_name(slot, 0, 0)
            counts = {"d": num_directions, "l": 1, "g": len(self.gates_in(slot)), "b": len(slot.tensors)}
            feature = {"weight_ih": "x", "weight_hh": "s", "weight_ih weight_hh": "x+s"}.get(slot.holds, "")
            start = {**counts, **{to: known[k] for to, k in (("o", "o"), ("p", "s"), ("i", feature)) if k in known}}
            try:
                found = slot.layout.solve(np.shape(arrays[name]), start)
            except LayoutError as error:
                raise LayoutError(f"{self.name}: {name}: {error}") from None
            known |= {to: found[k] for to, k in (("o", "o"), ("s", "p"), (feature, "i")) if k in found and to}
        if "x" not in known and "x+s" in known:
            known["x"] = known["x+s"] - known.get("s", known.get("o", 0))
        if not {"x", "o"} <= known.keys() or known["x"] < 1:
            raise LayoutError(f"{self.name}: the shapes {_shapes(arrays)} do not determine the input and hidden size")
        projected = any("weight_hr" in slot.tensors for slot in slots)
        return {"input_size": known["x"], "hidden_size": known["o"], "proj_size": known["s"] if projected else 0}

    def read(self, arrays: Mapping[str, Array], spec: RNNSpec) -> dict[str, Array]:
        """Turn the framework's arrays into canonical ones.

        Args:
            arrays: name -> array; names that are not the row's are an error of the caller and left unread.
            spec: what the layer is; its sizes are checked against every array.

        Raises:
            LayoutError: naming every array that is missing or has another shape.
        """
        blocks: dict[Place, dict[str, Array]] = {}
        wrong = []
        for slot, layer, direction in self._places(spec):
            name = self.array_name(slot, layer, direction)
            if name not in arrays:
                wrong += [] if slot.optional else [f"{name} is missing"]
                continue
            try:
                array = np.asarray(arrays[name])
                for place, rows in slot.take(array, spec, layer, direction, self.gates_in(slot)):
                    blocks.setdefault(place, {}).update(rows)
            except LayoutError as error:
                wrong.append(f"{name}: {error}")
        if wrong:
            raise LayoutError(f"{self.name}: " + "; ".join(wrong))
        return self._turned(self._assemble(blocks, spec), 1.0)

    def write(self, canonical: Mapping[str, Array], spec: RNNSpec) -> dict[str, Array]:
        """The inverse of `read`. The spec must be one that the row holds as it is: see rewrite.plan."""
        turned = self._turned(dict(canonical), -1.0)
        arrays = {}
        for slot, layer, direction in self._places(spec):
            if set(slot.tensors) <= spec.tensor_shapes(layer).keys():
                array = slot.give(turned, spec, layer, direction, self.gates_in(slot))
                arrays[self.array_name(slot, layer, direction)] = array
        return arrays

    def _canonical(self, letter: str) -> str:
        return self.letters.get(letter, letter)

    def _places(self, spec: RNNSpec) -> Iterator[tuple[Slot, int, int]]:
        for layer, direction, _ in spec.positions():
            for slot in self.slots:
                if not slot.shares(layer, direction):
                    yield slot, layer, direction

    def _assemble(self, blocks: Mapping[Place, Mapping[str, Array]], spec: RNNSpec) -> dict[str, Array]:
        canonical: dict[str, Array] = {}
        wrong = []
        for layer, direction, suffix in spec.positions():
            for name, shape in spec.tensor_shapes(layer).items():
                have = blocks.get((name, layer, direction), {})
                if not have and self.forget_bias and name.startswith("bias"):
                    canonical[name + suffix] = np.zeros(shape, next(iter(canonical.values())).dtype)
                    continue
                order = gate_order(name, self.cell) or ("",)
                if name == "bias_hh" and have:
                    have = {**have, **{gate: np.zeros_like(next(iter(have.values()))) for gate in self.without_bias_hh}}
                if missing := [gate for gate in order if gate not in have]:
                    wrong.append(f"nothing holds {name}{suffix}" + (f", gates {''.join(missing)}" if have else ""))
                    continue
                canonical[name + suffix] = np.stack([have[gate] for gate in order]).reshape(shape)
        if wrong:
            raise LayoutError(f"{self.name}: " + "; ".join(wrong))
        return canonical

    def _turned(self, canonical: dict[str, Array], sign: float) -> dict[str, Array]:
        """Turn the update gate of a row where z takes, and add (1) or take off (-1) a run-time forget bias."""
        if self.z == "takes":
            turn = {"z": lambda gates: -gates["z"]}
            canonical = {name: change_gates(array, name, self.cell, turn) for name, array in canonical.items()}
        if self.forget_bias:
            fold = {"f": lambda gates: gates["f"].astype(np.float64) + sign * self.forget_bias}
            biases = [name for name in canonical if name.startswith("bias_ih")]
            canonical |= {name: change_gates(canonical[name], name, self.cell, fold) for name in biases}
        return canonical


def _shapes(arrays: Mapping[str, Array]) -> str:
    return ", ".join(f"{name} {list(np.shape(array))}" for name, array in arrays.items())
