"""Rewrites keep the numbers, and what no rewrite reaches is refused with every reason."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from rnnbridge.convention import Convention
from rnnbridge.errors import Incompatible, LayoutError
from rnnbridge.reference import forward
from rnnbridge.rewrite import plan
from rnnbridge.slot import Slot
from rnnbridge.weights import RNNWeights
from tests.samples import BIASES, inputs_of, spec_of, weights_of

GATES = {"lstm": "ifgo", "gru": "rzn", "rnn": "n"}
STANDARD = {"lstm": (("sigmoid",), ("tanh",), ("tanh",)), "gru": (("sigmoid",), ("tanh",)), "rnn": (("tanh", "relu"),)}
BIAS_SLOTS = {
    "none": (),
    "single": (Slot("b", "bias_ih", "(g o)"),),
    "double": (Slot("b", "bias_ih", "(g o)"), Slot("c", "bias_hh", "(g o)")),
}


def row_of(cell: str, bias: str = "double", **changes: Any) -> Convention:
    """A made-up framework's row; everything that is not asked for is as narrow as can be."""
    kernels = (Slot("w{direction}", "weight_ih", "(g o) i"), Slot("u{direction}", "weight_hh", "(g o) i"))
    given = {
        "name": f"made.{cell}",
        "cell": cell,
        "gates": GATES[cell],
        "slots": kernels + BIAS_SLOTS[bias],
        "source": "this test",
        "reset": ("after",) if cell == "gru" else (),
        "activations": STANDARD[cell],
    }
    return Convention(**{**given, **changes})


def same_numbers(before: RNNWeights, after: RNNWeights) -> None:
    given = inputs_of(before.spec, 3, lengths=True, dtype="float64")
    old = forward(before.spec, before.arrays, given.x, given.h0, given.c0, given.lengths)
    new = forward(after.spec, after.arrays, given.x, given.h0, given.c0, given.lengths)
    bound = 64 * np.finfo(np.float64).eps * max(1.0, np.abs(old.y).max())
    assert np.abs(old.y - new.y).max() <= bound
    assert np.abs(old.h - new.h).max() <= bound


@pytest.mark.parametrize(("have", "want"), list(product(BIASES, ["single", "double"])))
@pytest.mark.parametrize("cell", ["lstm", "gru_before", "rnn_tanh"])
def test_every_bias_form_reaches_every_other_that_is_no_poorer(cell: str, have: str, want: str) -> None:
    weights = weights_of(spec_of(cell, bias=have, num_layers=2), dtype="float64")
    reset = (weights.spec.reset,) if weights.spec.reset else ()
    found = plan(weights, [row_of(weights.spec.cell, want, reset=reset, many_layers=True)])
    after = found.apply(weights)
    assert after.spec.bias == want
    assert found.same_bits == (not (have == "double" and want == "single"))
    same_numbers(weights, after)


def test_a_single_bias_is_split_as_itself_and_zero_and_comes_back_in_the_same_bits() -> None:
    weights = weights_of(spec_of("gru_after", bias="single"))
    split = plan(weights, [row_of("gru", "double")]).apply(weights)
    assert np.array_equal(split.arrays["bias_ih_l0"], weights.arrays["bias_ih_l0"])
    assert not split.arrays["bias_hh_l0"].any()
    back = plan(split, [row_of("gru", "single")])
    assert [step.name for step in back.steps] == ["drop zero bias"]
    assert back.apply(split) == weights


def test_two_biases_of_a_reset_after_gru_are_never_merged() -> None:
    weights = weights_of(spec_of("gru_after", bias="double"))
    with pytest.raises(Incompatible, match="b_hn sits inside r"):
        plan(weights, [row_of("gru", "single")])


def test_merging_rounds_once() -> None:
    weights = weights_of(spec_of("lstm", bias="double"))
    merged = plan(weights, [row_of("lstm", "single")]).apply(weights)
    exact = weights.arrays["bias_ih_l0"].astype(np.float64) + weights.arrays["bias_hh_l0"].astype(np.float64)
    assert np.array_equal(merged.arrays["bias_ih_l0"], exact.astype(np.float32))


@pytest.mark.parametrize(("have", "want"), [("0.2", 1 / 6), (f"{1 / 6!r}", 0.2)])
@pytest.mark.parametrize("cell", ["lstm", "gru_after", "gru_before"])
def test_a_hard_sigmoid_is_rescaled_without_a_change_of_the_numbers(cell: str, have: str, want: float) -> None:
    standard = spec_of(cell).activations
    spec = spec_of(cell, activations=(f"hard_sigmoid({have}, 0.5)", *standard[1:]), direction="bidirectional")
    weights = weights_of(spec, dtype="float64")
    reset = (spec.reset,) if spec.reset else ()
    allowed = ((f"hard_sigmoid({want!r}, 0.5)",), *STANDARD[spec.cell][1:])
    row = row_of(spec.cell, activations=allowed, reset=reset, directions=("bidirectional",))
    after = plan(weights, [row]).apply(weights)
    assert after.spec.activations[0].alpha == want
    same_numbers(weights, after)


def test_peepholes_are_rescaled_too_and_clips_forbid_it() -> None:
    hard = ("hard_sigmoid(0.2, 0.5)", "tanh", "tanh")
    allowed = (("hard_sigmoid(0.25, 0.5)",), ("tanh",), ("tanh",))
    row = row_of("lstm", activations=allowed, extras=("peephole", "clip"))
    peeping = weights_of(spec_of("lstm", activations=hard, peephole=True), dtype="float64")
    same_numbers(peeping, plan(peeping, [row]).apply(peeping))
    with pytest.raises(Incompatible, match="hard_sigmoid"):
        plan(weights_of(spec_of("lstm", activations=hard, clip=2.0)), [row])


@pytest.mark.parametrize("coupled", ["f=1-i", "i=1-f"])
@pytest.mark.parametrize("gate", ["sigmoid", "hard_sigmoid(0.2, 0.5)"])
def test_a_coupled_gate_becomes_a_gate_of_its_own(coupled: str, gate: str) -> None:
    spec = spec_of("lstm", coupled=coupled, activations=(gate, "tanh", "tanh"), peephole=True)
    weights = weights_of(spec, dtype="float64")
    row = row_of("lstm", activations=((gate,), ("tanh",), ("tanh",)), extras=("peephole",))
    found = plan(weights, [row])
    assert [step.name for step in found.steps] == ["uncouple"]
    same_numbers(weights, found.apply(weights))


def test_a_gate_that_cannot_be_turned_round_stays_coupled() -> None:
    spec = spec_of("lstm", coupled="f=1-i", activations=("softsign", "tanh", "tanh"))
    with pytest.raises(Incompatible, match="1 - softsign"):
        plan(weights_of(spec), [row_of("lstm", activations=(("softsign",), ("tanh",), ("tanh",)))])


def test_a_row_where_z_takes_is_read_by_turning_z_and_written_back_in_the_same_bits() -> None:
    keeps, takes = row_of("gru"), row_of("gru", z="takes")
    spec = spec_of("gru_after")
    weights = weights_of(spec, dtype="float64")
    arrays = keeps.write(weights.arrays, spec)
    turned = RNNWeights(spec, takes.read(arrays, spec))
    given = inputs_of(spec, 3, dtype="float64")
    h = given.h0[0]
    got = forward(spec, turned.arrays, given.x[:1], given.h0).h[0]
    plain = forward(spec, weights.arrays, given.x[:1], given.h0)
    pre = given.x[0] @ arrays["w"].T + arrays["b"], h @ arrays["u"].T + arrays["c"]
    z = 1 / (1 + np.exp(-(pre[0] + pre[1])[:, 3:6]))
    n = (plain.h[0] - z * h) / (1 - z)
    # n is recovered by a division by 1 - z, which multiplies its rounding errors by 1 / (1 - z).
    assert np.all(np.abs(got - ((1 - z) * h + z * n)) <= 64 * np.finfo(np.float64).eps / (1 - z))
    assert all(np.array_equal(takes.write(turned.arrays, spec)[name], arrays[name]) for name in arrays)


def test_a_run_time_forget_bias_is_folded_into_the_stored_one() -> None:
    spec = spec_of("lstm", bias="single")
    weights = weights_of(spec, dtype="float64")
    plain, shifted = row_of("lstm", "single"), row_of("lstm", "single", forget_bias=1.0)
    arrays = plain.write(weights.arrays, spec)
    folded = shifted.read(arrays, spec)["bias_ih_l0"]
    difference = folded - weights.arrays["bias_ih_l0"]
    eps = np.finfo(np.float64).eps  # one rounding at values below 2
    assert np.all(np.abs(difference - ([0] * 3 + [1] * 3 + [0] * 6)) <= 2 * eps)
    assert np.all(np.abs(shifted.write({**weights.arrays, "bias_ih_l0": folded}, spec)["b"] - arrays["b"]) <= 2 * eps)
    narrow = shifted.read({name: array.astype(np.float32) for name, array in arrays.items()}, spec)
    assert narrow["bias_ih_l0"].dtype == np.float32


def test_rewrites_of_the_row_itself_are_steps_and_say_whether_bits_return() -> None:
    takes = plan(weights_of(spec_of("gru_after")), [row_of("gru", z="takes")])
    assert [step.name for step in takes.steps] == ["flip update gate"]
    assert takes.same_bits
    folded = plan(weights_of(spec_of("lstm", bias="single")), [row_of("lstm", "single", forget_bias=1.0)])
    assert [step.name for step in folded.steps] == ["fold forget bias"]
    assert not folded.same_bits


def test_a_run_time_forget_bias_acts_on_a_layer_without_a_bias_too() -> None:
    optional = (*row_of("lstm", "none").slots, Slot("b", "bias_ih", "(g o)", optional=True))
    row = row_of("lstm", slots=optional, forget_bias=1.0)
    bare = weights_of(spec_of("lstm", bias="none"))
    arrays = {"w": bare.arrays["weight_ih_l0"], "u": bare.arrays["weight_hh_l0"]}
    spec = spec_of("lstm", bias=row.bias_of(arrays))
    assert np.array_equal(row.read(arrays, spec)["bias_ih_l0"], [0] * 3 + [1] * 3 + [0] * 6)
    found = plan(bare, [row])
    assert [step.name for step in found.steps] == ["zero bias", "fold forget bias"]
    assert np.array_equal(row.write(found.apply(bare).arrays, found.spec)["b"], [0] * 3 + [-1] * 3 + [0] * 6)


def test_a_projection_as_wide_as_the_layer_is_refused_where_it_must_be_narrower() -> None:
    row = row_of(
        "lstm", extras=("proj_size<hidden_size",), slots=(*row_of("lstm").slots, Slot("r", "weight_hr", "p o"))
    )
    assert not plan(weights_of(spec_of("lstm", proj_size=2)), [row]).steps
    with pytest.raises(Incompatible, match="proj_size=3 and hidden_size=3"):
        plan(weights_of(spec_of("lstm", proj_size=3)), [row])


def test_a_row_of_no_known_cell_is_refused() -> None:
    with pytest.raises(LayoutError, match="cell is 'lstms'"):
        Convention(name="made.x", cell="lstms", gates="x", slots=(), source="this test")  # type: ignore[arg-type]


def test_merges_reversed_output_and_stacks_are_noted_where_they_take_nodes() -> None:
    added = {"sum": "ReduceSum", "processing": "Slice"}
    wide = {
        "directions": ("forward", "reverse", "bidirectional"),
        "merges": ("concat", "sum"),
        "output_orders": ("input", "processing"),
        "added": added,
    }
    both = weights_of(spec_of("lstm", direction="bidirectional", merge="sum", num_layers=2))
    names = [step.name for step in plan(both, [row_of("lstm", **wide)]).steps]
    assert names == ["merge directions", "split stack"]
    backwards = weights_of(spec_of("lstm", direction="reverse", output_order="processing"))
    assert [step.name for step in plan(backwards, [row_of("lstm", **wide)]).steps] == ["reverse output"]


def test_every_reason_is_given_at_once() -> None:
    spec = spec_of(
        "lstm", direction="bidirectional", merge="mul", peephole=True, proj_size=2, clip=1.0,
        activations=("softsign", "tanh", "relu"),
    )  # fmt: skip
    with pytest.raises(Incompatible) as caught:
        plan(weights_of(spec), [row_of("lstm")])
    told = " ".join(caught.value.reasons)
    assert len(caught.value.reasons) == 7
    for word in ("projection to 2", "peepholes", "clipped to", "softsign", "relu", "bidirectional", "mul"):
        assert word in told


def test_the_two_gru_formulas_are_never_turned_into_each_other() -> None:
    for have, want in (("before", "after"), ("after", "before")):
        weights = weights_of(spec_of(f"gru_{have}"))
        with pytest.raises(Incompatible) as caught:
            plan(weights, [row_of("gru", reset=(want,))])
        assert f"reset gate {have}" in caught.value.reasons[0]
        assert "rb.layer" in caught.value.reasons[0]


def test_the_row_with_the_fewest_and_mildest_rewrites_is_taken() -> None:
    rows = [row_of("lstm", "single", name="made.one"), row_of("lstm", "double", name="made.two")]
    assert plan(weights_of(spec_of("lstm", bias="double")), rows).row.name == "made.two"
    assert plan(weights_of(spec_of("lstm", bias="single")), rows).row.name == "made.one"


def test_a_target_without_the_cell_says_so() -> None:
    with pytest.raises(Incompatible, match="it has no GRU"):
        plan(weights_of(spec_of("gru_after")), [row_of("lstm")])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": " "}, "has no source"),
        ({"gates": "ifgg"}, "are not those of"),
        ({"gates": "ifco"}, "are not those of"),
        ({"slots": (Slot("w", "kernel", "(g o) i"),)}, "holds"),
        ({"slots": (Slot("w", "weight_ih", "(g o i"),)}, "cannot read"),
        ({"slots": (Slot("w", "weight_ih", "(g o) i"),)}, "no slot holds weight_hh, gates ifgo"),
        ({"slots": (Slot("w", "weight_ih weight_hh", "i o"),)}, "no axis g and 4 gates"),
        ({"slots": (Slot("w", "weight_ih weight_hh", "i (g o)"), Slot("v", "weight_ih", "i (g o)"))}, "two slots hold"),
        ({"slots": (Slot("w", "weight_ih weight_hh", "i (g o)", gates="ifgx"),)}, "gates \\['x'\\]"),
        ({"reset": ("after",)}, "no other row does"),
        ({"z": "take"}, "z is 'take'; it is one of 'keeps', 'takes'"),
        ({"z": "takes"}, "belongs to a GRU"),
        ({"extras": ("peepholes",)}, "extras has .'peepholes'."),
        ({"activations": (("sigmoid",),)}, "has 1 slots; cell 'lstm' has 3"),
        ({"forget_bias": 1.0, "bias": "none"}, "needs a slot that holds bias_ih"),
        ({"slots": tuple(Slot(gate, "weight_ih", "o i", gates=gate) for gate in "igfo")}, "slots name them as 'igfo'"),
    ],
)
def test_a_row_that_cannot_be_right_does_not_construct(changes: dict, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        row_of("lstm", **changes)


def of_gate_n(gates: str = "n") -> Convention:
    """A GRU with a recurrent bias on some gates only, as oneDNN's and TensorFlow's CudnnCompatibleGRUCell have it."""
    bias = (Slot("b", "bias_ih", "(g o)"), Slot("bn", "bias_hh", "(g o)", gates=gates))
    return row_of("gru", slots=row_of("gru", "none").slots + bias)


def test_a_recurrent_bias_of_one_gate_takes_in_the_others() -> None:
    weights, row = weights_of(spec_of("gru_after", bias="double"), dtype="float64"), of_gate_n()
    assert row.bias_forms == ("double",)
    found = plan(weights, [row])
    assert [step.name for step in found.steps] == ["merge biases"]
    after = found.apply(weights)
    stored = row.write(after.arrays, after.spec)
    assert stored["bn"].shape == (weights.spec.hidden_size,)
    back = RNNWeights(after.spec, row.read(stored, after.spec))
    same_numbers(weights, back)
    assert plan(back, [row]).same_bits
    single = plan(weights_of(spec_of("gru_after", bias="single")), [row])
    assert [step.name for step in single.steps] == ["split bias"]


def test_a_reset_after_gru_without_a_recurrent_bias_on_n_is_no_row() -> None:
    with pytest.raises(LayoutError, match="recurrent bias on gate n"):
        of_gate_n("rz")
