"""What a row must say to be able to be right. A mistake in a row is found when it is made, not when it is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args

from rnnbridge.spec import ACTIVATION_SLOTS, GATES, PEEPHOLE_GATES, Coupled, Direction, Merge, OutputOrder, Reset

if TYPE_CHECKING:
    from rnnbridge.convention.row import Convention

TENSORS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr", "peephole")
# "proj_size<hidden_size" is a projection that must be narrower than the layer, as PyTorch wants it.
EXTRAS = (
    "proj_size", "proj_size<hidden_size", "peephole", "clip", "cell_clip", "proj_clip", "coupled", *get_args(Coupled),
)  # fmt: skip
_WORDS: dict[str, tuple[Any, ...]] = {
    "z": ("keeps", "takes"),
    "state_order": ("h", "h c", "c h"),
    "padding": ("zero", "repeat"),
    "zero_length": ("initial", "zero", "refused"),
}
_LISTS: dict[str, tuple[Any, ...]] = {
    "reset": get_args(Reset),
    "directions": get_args(Direction),
    "merges": get_args(Merge),
    "output_orders": get_args(OutputOrder),
    "extras": EXTRAS,
}


def mistakes(row: Convention) -> list[str]:
    """Everything in a row that contradicts itself or is no word of its field."""
    if row.cell not in GATES:
        return [f"cell is {row.cell!r}; it is one of {', '.join(map(repr, GATES))}"]
    found = [*_words(row), *_cell(row), *_slots(row)]
    return found or list(_coverage(row))


def _words(row: Convention) -> Iterator[str]:
    if not row.source.strip():
        yield "it has no source: say where the convention comes from"
    for name, known in _WORDS.items():
        if getattr(row, name) not in known:
            yield f"{name} is {getattr(row, name)!r}; it is one of {', '.join(map(repr, known))}"
    for name, known in _LISTS.items():
        if unknown := [word for word in getattr(row, name) if word not in known]:
            yield f"{name} has {unknown}; it takes {', '.join(map(repr, known))}"


def _cell(row: Convention) -> Iterator[str]:
    if sorted(row.letters.get(letter, letter) for letter in row.gates) != sorted(GATES[row.cell]):
        yield f"gates {row.gates!r} are not those of {row.cell!r}, {GATES[row.cell]!r}"
    if (row.cell == "gru") != bool(row.reset):
        yield "a GRU row says which reset formulas it holds, and no other row does"
    if row.z == "takes" and row.cell != "gru":
        yield "z='takes' belongs to a GRU"
    if row.forget_bias and row.cell != "lstm":
        yield "forget_bias belongs to an LSTM"
    if len(row.activations) != len(ACTIVATION_SLOTS[row.cell]):
        yield f"activations has {len(row.activations)} slots; cell {row.cell!r} has {len(ACTIVATION_SLOTS[row.cell])}"


def _slots(row: Convention) -> Iterator[str]:
    for slot in row.slots:
        if unknown := sorted(set(slot.tensors) - set(TENSORS)):
            yield f"{slot.name!r} holds {unknown}; known are {list(TENSORS)}"
        if strange := sorted(set(slot.gates) - set(row.gates)):
            yield f"{slot.name!r} has gates {strange}, which are not among the row's, {row.gates!r}"
        letters = slot.layout.letters  # raises LayoutError for an axis string that cannot be read
        if "g" not in letters and slot.holds != "weight_hr" and len(slot.gates or row.gates) != 1:
            yield f"{slot.name!r} has no axis g and {len(slot.gates or row.gates)} gates"
    own = [slot.gates for slot in row.slots if slot.holds not in ("weight_hr", "peephole")]
    if all(own) and (order := "".join(dict.fromkeys("".join(own)))) != row.gates:
        yield f"gates are {row.gates!r}, but its slots name them as {order!r}"


def _coverage(row: Convention) -> Iterator[str]:
    placed = [(tensor, row.gates_in(slot) or ["-"]) for slot in row.slots for tensor in slot.tensors]
    held = Counter((tensor, gate) for tensor, gates in placed for gate in gates)
    if twice := [f"{tensor} {gate}" for (tensor, gate), count in held.items() if count > 1]:
        yield f"two slots hold {', '.join(twice)}"
    for tensor in ("weight_ih", "weight_hh"):
        if missing := [gate for gate in GATES[row.cell] if (tensor, gate) not in held]:
            yield f"no slot holds {tensor}, gates {''.join(missing)}"
    tensors = {tensor for tensor, _ in held}
    for tensor, order in {"bias_ih": GATES[row.cell], "peephole": PEEPHOLE_GATES}.items():
        if tensor in tensors and (missing := [gate for gate in order if (tensor, gate) not in held]):
            yield f"its {tensor} lacks gates {''.join(missing)}"
    if "bias_hh" in tensors and (
        lone := [g for g in GATES[row.cell] if {("bias_ih", g), ("bias_hh", g)}.isdisjoint(held)]
    ):
        yield f"no bias of it has gates {''.join(lone)}"
    if "n" in row.without_bias_hh and "after" in row.reset:
        yield "a reset-after GRU has a recurrent bias on gate n at least"
    if row.forget_bias and "bias_ih" not in tensors:
        yield "a run-time forget bias needs a slot that holds bias_ih"
