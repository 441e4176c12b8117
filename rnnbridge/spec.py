"""What a recurrent layer is: `RNNSpec`, the canonical description. Knows no framework and holds no numbers.

Letters: T time, N batch, I input size, H hidden size, P projection size, G gates, L layers, D directions.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from rnnbridge.activation import Activation
from rnnbridge.errors import SpecError

Cell = Literal["lstm", "gru", "rnn"]
Direction = Literal["forward", "reverse", "bidirectional"]
Bias = Literal["none", "single", "double"]
Reset = Literal["before", "after"]
Merge = Literal["concat", "sum", "mul", "ave", "none"]
OutputOrder = Literal["input", "processing"]
Coupled = Literal["f=1-i", "i=1-f"]

GATES: dict[str, str] = {"lstm": "ifgo", "gru": "rzn", "rnn": "n"}
PEEPHOLE_GATES = "ifo"
MOST_LAYERS = 4096
# Which gates each activation slot acts on. The LSTM's third acts on the cell state, not on a gate.
ACTIVATION_SLOTS: dict[str, tuple[str, ...]] = {"lstm": ("ifo", "g", ""), "gru": ("rz", "n"), "rnn": ("n",)}
STANDARD_ACTIVATIONS: dict[str, tuple[Activation, ...]] = {
    "lstm": (Activation("sigmoid"), Activation("tanh"), Activation("tanh")),
    "gru": (Activation("sigmoid"), Activation("tanh")),
}


def suffix_of(layer: int, direction: int) -> str:
    """The end of a canonical array's name: "_l0", "_l1_reverse"."""
    return f"_l{layer}{'_reverse' * direction}"


@dataclass(frozen=True, kw_only=True)
class RNNSpec:
    """The canonical description of a recurrent layer or stack of equal layers.

    Args:
        cell: "lstm" (gates i f g o), "gru" (r z n; z keeps: h' = (1-z) n + z h) or "rnn".
        input_size: I, the features of layer 0.
        hidden_size: H.
        bias: "none", "single" (bias_ih only) or "double" (bias_ih and bias_hh).
        num_layers: L; layer l+1 reads layer l's output, both directions.
        direction: "forward", "reverse" or "bidirectional".
        reset: GRU only, and required there. "after": n from r * (U h + b_hn); "before": n from U (r * h).
        proj_size: P, LSTM only; 0 is no projection. h' = W_hr (o * tanh(c)).
        peephole: LSTM only; i and f see the old cell state, o the new one.
        activations: one per slot, as `Activation` or its spelling. LSTM (f, g, h): gates, candidate, output;
            GRU (f, g); RNN (f,), required there, since frameworks disagree on the default.
        clip: bound on every gate's pre-activation, ONNX's attribute as ONNX Runtime takes it.
        cell_clip, proj_clip: LSTM only; bounds on the cell state and on the projected state.
        coupled: LSTM only; "f=1-i" or "i=1-f": the gate on the left takes no part.
        merge: how two directions become one output.
        output_order: "processing" gives y flipped over the whole time axis (Keras's go_backwards).

    Raises:
        SpecError: naming every field that is missing, unknown or not the cell's.
    """

    cell: Cell
    input_size: int
    hidden_size: int
    bias: Bias
    num_layers: int = 1
    direction: Direction = "forward"
    reset: Reset | None = None
    proj_size: int = 0
    peephole: bool = False
    activations: tuple[Activation, ...] = ()
    clip: float | None = None
    cell_clip: float | None = None
    proj_clip: float | None = None
    coupled: Coupled | None = None
    merge: Merge = "concat"
    output_order: OutputOrder = "input"

    def __post_init__(self) -> None:
        for name in ("input_size", "hidden_size", "num_layers", "proj_size"):
            object.__setattr__(self, name, _plain_int(getattr(self, name)))
        wrong = list(_check_words(self)) + list(_check_sizes(self))
        if not wrong:
            given: Sequence[str | Activation] = self.activations or STANDARD_ACTIVATIONS.get(self.cell, ())
            given = (given,) if isinstance(given, str | Activation) else given
            object.__setattr__(self, "activations", tuple(Activation.parse(one) for one in given))
            wrong += _check_cell(self)
        if wrong:
            raise SpecError("; ".join(wrong))

    @property
    def gates(self) -> str:
        """The canonical gate letters, in canonical order."""
        return GATES[self.cell]

    @property
    def num_directions(self) -> int:
        """D."""
        return 2 if self.direction == "bidirectional" else 1

    @property
    def state_size(self) -> int:
        """The width of h: P where there is a projection, else H."""
        return self.proj_size or self.hidden_size

    @property
    def output_size(self) -> int:
        """The width of y. With merge "none" the two directions come side by side."""
        joined = self.num_directions if self.merge in ("concat", "none") else 1
        return joined * self.state_size

    @property
    def has_cell_state(self) -> bool:
        """Whether the state is the pair (h, c)."""
        return self.cell == "lstm"

    def layer_input_size(self, layer: int) -> int:
        """The features that a layer reads: I for layer 0, the width of y above."""
        return self.input_size if layer == 0 else self.output_size

    def positions(self) -> Iterator[tuple[int, int, str]]:
        """(layer, direction, suffix) in state order, the suffix as in `weight_ih_l0_reverse`."""
        for layer in range(self.num_layers):
            for direction in range(self.num_directions):
                yield layer, direction, suffix_of(layer, direction)

    def tensor_shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Base name -> shape of the arrays of one layer and direction."""
        rows, hidden = len(self.gates) * self.hidden_size, self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, self.layer_input_size(layer)),
            "weight_hh": (rows, self.state_size),
        }
        if self.bias != "none":
            shapes["bias_ih"] = (rows,)
        if self.bias == "double":
            shapes["bias_hh"] = (rows,)
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, hidden)
        if self.peephole:
            shapes["peephole"] = (len(PEEPHOLE_GATES), hidden)
        return shapes

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every canonical array's name and shape, in PyTorch's order."""
        return {
            name + suffix: shape
            for layer, _, suffix in self.positions()
            for name, shape in self.tensor_shapes(layer).items()
        }

    def replace(self, **changes: Any) -> RNNSpec:
        """A copy with some fields changed, validated anew."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["activations"] = [str(one) for one in self.activations]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RNNSpec:
        """Read what `to_dict` gives. Raises SpecError for a key that is missing or unknown."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(plain) - known):
            raise SpecError(f"unknown field of a spec: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        if missing := sorted({"cell", "input_size", "hidden_size", "bias"} - set(plain)):
            raise SpecError(f"a spec lacks {', '.join(missing)}")
        return cls(**{**plain, "activations": tuple(plain.get("activations") or ())})


_WORDS: dict[str, Any] = {
    "cell": Cell,
    "direction": Direction,
    "bias": Bias,
    "merge": Merge,
    "output_order": OutputOrder,
}


def _plain_int(value: Any) -> Any:
    """A whole number of any kind, NumPy's too, as an int; everything else unchanged, for the check to name."""
    try:
        return value if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return value


def _check_words(spec: RNNSpec) -> Iterator[str]:
    for name, literal in _WORDS.items():
        if getattr(spec, name) not in get_args(literal):
            yield f"{name} is {getattr(spec, name)!r}; it is one of {', '.join(map(repr, get_args(literal)))}"
    for name, literal in {"reset": Reset, "coupled": Coupled}.items():
        if getattr(spec, name) not in (None, *get_args(literal)):
            yield f"{name} is {getattr(spec, name)!r}; it is one of {', '.join(map(repr, get_args(literal)))}, or None"


def _check_sizes(spec: RNNSpec) -> Iterator[str]:
    if isinstance(spec.num_layers, int) and spec.num_layers > MOST_LAYERS:
        yield f"num_layers is {spec.num_layers}; at most {MOST_LAYERS} are taken"
    for name, least in {"input_size": 1, "hidden_size": 1, "num_layers": 1, "proj_size": 0}.items():
        value = getattr(spec, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield f"{name} is {value!r}; it is a whole number of at least {least}"
    for name in ("clip", "cell_clip", "proj_clip"):
        value = getattr(spec, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            yield f"{name} is {value!r}; it is a number above 0, or None"
    if not isinstance(spec.peephole, bool):
        yield f"peephole is {spec.peephole!r}; it is True or False"


def _check_cell(spec: RNNSpec) -> list[str]:
    wrong: list[str] = []
    if spec.cell == "gru" and spec.reset is None:
        wrong.append("a GRU needs reset='after' (cuDNN, PyTorch, Keras reset_after=True) or reset='before'")
    if spec.cell != "gru" and spec.reset is not None:
        wrong.append(f"reset belongs to a GRU, not to cell={spec.cell!r}")
    lstm_only = {"proj_size": 0, "peephole": False, "cell_clip": None, "proj_clip": None, "coupled": None}
    if spec.cell != "lstm":
        wrong += [f"{name} belongs to an LSTM" for name, unset in lstm_only.items() if getattr(spec, name) != unset]
    slots = len(ACTIVATION_SLOTS[spec.cell])
    if len(spec.activations) != slots:
        wrong.append(f"cell={spec.cell!r} takes {slots} activation(s), not {len(spec.activations)}")
    if spec.proj_clip is not None and not spec.proj_size:
        wrong.append("proj_clip needs proj_size")
    if spec.merge != "concat" and spec.num_directions == 1:
        wrong.append(f"merge={spec.merge!r} needs direction='bidirectional'")
    if spec.output_order == "processing" and spec.direction != "reverse":
        wrong.append("output_order='processing' belongs to direction='reverse'")
    if spec.num_layers > 1 and spec.merge == "none":
        wrong.append("layers whose directions are not merged cannot be stacked")
    if spec.num_layers > 1 and spec.output_order == "processing":
        wrong.append("layers in processing order cannot be stacked")
    return wrong
