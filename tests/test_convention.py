"""Rows in the shapes that the field has, written by hand as a user would, read and written back."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from rnnbridge.convention import Convention
from rnnbridge.errors import LayoutError
from rnnbridge.slot import Slot
from rnnbridge.spec import RNNSpec
from tests.samples import spec_of, weights_of

KERNELS = (Slot("w{layer}{direction}", "weight_ih", "(g o) i"), Slot("u{layer}{direction}", "weight_hh", "(g o) i"))
MADE = {"source": "this test", "direction_names": ("f", "b")}
ROWS = {
    "stacked kernel, run-time order ijfo": (
        spec_of("lstm", bias="single"),
        Convention(
            name="made.stacked", cell="lstm", gates="ijfo", letters={"j": "g"}, source="this test",
            slots=(Slot("kernel", "weight_ih weight_hh", "i (g o)"), Slot("bias", "bias_ih", "(g o)")),
        ),
        {"kernel": (8, 12), "bias": (12,)},
    ),
    "an array a gate": (
        spec_of("gru_before", bias="single"),
        Convention(
            name="made.gates", cell="gru", gates="zrh", letters={"h": "n"}, reset=("before",), source="this test",
            slots=tuple(
                Slot(f"{letter}_{gate}", holds, axes, gates=gate)
                for gate in "zrh"
                for letter, holds, axes in (
                    ("W", "weight_ih", "i o"), ("U", "weight_hh", "i o"), ("b", "bias_ih", "o"),
                )
            ),
        ),
        {f"{letter}_{gate}": shape for gate in "zrh" for letter, shape in (("W", (5, 3)), ("U", (3, 3)), ("b", (3,)))},
    ),
    "gates in a subset and a candidate apart": (
        spec_of("gru_before", bias="single"),
        Convention(
            name="made.subset", cell="gru", gates="run", letters={"u": "z"}, reset=("before",), source="this test",
            slots=(
                Slot("gates/kernel", "weight_ih weight_hh", "i (g o)", gates="ru"),
                Slot("gates/bias", "bias_ih", "(g o)", gates="ru"),
                Slot("candidate/kernel", "weight_ih weight_hh", "i o", gates="n"),
                Slot("candidate/bias", "bias_ih", "o", gates="n"),
            ),
        ),
        {"gates/kernel": (8, 6), "gates/bias": (6,), "candidate/kernel": (8, 3), "candidate/bias": (3,)},
    ),
    "every layer and direction in one array": (
        spec_of("rnn_tanh", direction="bidirectional", num_layers=2, input_size=6),
        Convention(
            name="made.ldigo", cell="rnn", gates="n", source="this test", activations=(("tanh",),),
            slots=(
                Slot("w", "weight_ih", "l d i g o"), Slot("u", "weight_hh", "l d i g o"),
                Slot("b", "bias_ih bias_hh", "l d b (g o)"),
            ),
        ),
        {"w": (2, 2, 6, 1, 3), "u": (2, 2, 3, 1, 3), "b": (2, 2, 2, 3)},
    ),
    "projection, peepholes, interleaved gates": (
        spec_of("lstm", direction="bidirectional", proj_size=2, peephole=True, num_layers=2),
        Convention(
            name="made.all", cell="lstm", gates="cifo", letters={"c": "g"}, **MADE,
            slots=(
                Slot("w{layer}{direction}", "weight_ih", "(o g) i"),
                Slot("u{layer}{direction}", "weight_hh", "i (o g)"),
                Slot("b{layer}{direction}", "bias_ih bias_hh", "(b g o)"),
                Slot("r{layer}{direction}", "weight_hr", "o p"),
                Slot("p{layer}{direction}", "peephole", "(g o)", gates="iof"),
            ),
        ),
        {"w0f": (12, 5), "u0b": (2, 12), "b1f": (24,), "r1b": (3, 2), "p0f": (9,), "w1f": (12, 4)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_row_writes_what_it_reads(name: str) -> None:
    spec, row, shapes = ROWS[name]
    weights = weights_of(spec)
    arrays = row.write(weights.arrays, spec)
    assert {key: arrays[key].shape for key in shapes} == shapes
    back = row.read(arrays, spec)
    assert back.keys() == weights.arrays.keys()
    assert all(np.array_equal(back[key], weights.arrays[key]) for key in back)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_finds_the_sizes_in_the_shapes(name: str) -> None:
    spec, row, _ = ROWS[name]
    if spec.num_layers > 1:
        spec = spec.replace(num_layers=1)
    found = row.sizes(row.write(weights_of(spec).arrays, spec), spec.num_directions)
    assert found == {"input_size": spec.input_size, "hidden_size": spec.hidden_size, "proj_size": spec.proj_size}


def two_biases() -> tuple[RNNSpec, Convention, dict[str, np.ndarray]]:
    optional = (Slot("b", "bias_ih", "(g o)", optional=True), Slot("c", "bias_hh", "(g o)", optional=True))
    row = Convention(name="made.lstm", cell="lstm", gates="ifgo", slots=KERNELS + optional, **MADE)
    spec = spec_of("lstm")
    return spec, row, row.write(weights_of(spec).arrays, spec)


def test_bias_forms_follow_from_the_slots() -> None:
    _, row, arrays = two_biases()
    assert row.bias_forms == ("none", "double")
    assert row.bias_of(arrays) == "double"
    assert row.bias_of({name: array for name, array in arrays.items() if name not in "bc"}) == "none"


def test_every_wrong_array_is_named_at_once() -> None:
    spec, row, arrays = two_biases()
    arrays["u0f"] = arrays["u0f"][:-1]
    del arrays["w0f"], arrays["c"]
    with pytest.raises(LayoutError, match=r"w0f is missing; u0f: shape is \[11, 3\]"):
        row.read(arrays, spec)
    spec, row, arrays = two_biases()
    del arrays["c"]
    with pytest.raises(LayoutError, match="nothing holds bias_hh_l0"):
        row.read(arrays, spec)


def test_sizes_that_contradict_each_other_are_refused() -> None:
    _, row, arrays = two_biases()
    with pytest.raises(LayoutError, match=r"u0f: shape \[8, 2\] does not fit"):
        row.sizes({**arrays, "u0f": np.zeros((8, 2))})
    with pytest.raises(LayoutError, match="no w"):
        row.sizes({"u0f": arrays["u0f"]})


@pytest.mark.parametrize("letters", ["ifgo", "rzn"])
def test_every_gate_order_puts_each_gate_where_its_letter_stands(letters: str) -> None:
    cell = "lstm" if letters == "ifgo" else "gru_after"
    weights, reset = weights_of(spec_of(cell, bias="none")), {"reset": ("after",)} if cell != "lstm" else {}
    for order in map("".join, permutations(letters)):
        row = Convention(name="made.order", cell=cell[:4].rstrip("_"), gates=order, slots=KERNELS, **reset, **MADE)
        written = row.write(weights.arrays, weights.spec)["w0f"].reshape(len(order), 3, 5)
        canonical = weights.arrays["weight_ih_l0"].reshape(len(order), 3, 5)
        for place, letter in enumerate(order):
            assert np.array_equal(written[place], canonical[letters.index(letter)])
        back = row.read(row.write(weights.arrays, weights.spec), weights.spec)
        assert all(np.array_equal(back[name], array) for name, array in weights.arrays.items())
