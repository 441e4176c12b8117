"""What a proof measures: tolerances, samples, pairs, and reports of files that differ and that do not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rnnbridge.errors import ArgumentError, Incompatible
from rnnbridge.proof import Report, verify
from rnnbridge.proof.pairing import by_order, differences
from rnnbridge.proof.samples import samples_for
from rnnbridge.proof.tolerance import FACTOR, SHARP, expectation, for_dtype, max_abs_error, run_reference
from rnnbridge.weights import Bundle, RNNWeights, stack
from tests.samples import CELLS, inputs_of, spec_of, weights_of
from tests.standin import standins, write_file

pytestmark = pytest.mark.usefixtures("standins")
EPS = float(np.finfo(np.float32).eps)
__all__ = ["standins"]


def save(path: Path, **layers: RNNWeights) -> Path:
    write_file(path, {name: (one.spec, one.arrays) for name, one in layers.items()}, {})
    return path


def changed(weights: RNNWeights, name: str, by: float) -> RNNWeights:
    arrays = dict(weights.arrays)
    arrays[name] = arrays[name].copy()
    arrays[name].flat[1] += by
    return RNNWeights(weights.spec, arrays)


@pytest.mark.parametrize("cell", CELLS)
def test_the_tolerance_admits_float32_and_nothing_much_larger(cell: str) -> None:
    spec = spec_of(cell, num_layers=2, direction="bidirectional")
    weights, given = weights_of(spec), inputs_of(spec, 3, lengths=True)
    where = (spec, weights.arrays, given.x, given.h0, given.c0, given.lengths)
    exact, tolerance = expectation(*where)
    rough = run_reference(*where, np.float32)
    terms = spec.num_layers * len(given.x) * (spec.input_size + spec.hidden_size)  # each may add one rounding
    for name, allowed in tolerance.items():
        largest = np.abs(exact[name]).max()
        assert max_abs_error(rough[name], exact[name]) <= allowed
        assert FACTOR * EPS * largest <= allowed <= FACTOR * EPS * largest * terms


def test_the_tolerance_of_float64_is_smaller_by_eps() -> None:
    assert for_dtype(1.0, np.float32) == 1.0
    assert for_dtype(EPS, np.float64) == np.finfo(np.float64).eps


def test_the_largest_error_counts_what_is_not_finite() -> None:
    exact = np.array([1.0, np.nan, np.inf, -np.inf])
    assert max_abs_error(exact.copy(), exact) == 0
    assert max_abs_error(exact + np.array([0.25, 0, 0, 0]), exact) == 0.25
    for wrong in ([np.nan, np.nan, np.inf, -np.inf], [1.0, 1.0, np.inf, -np.inf], [1.0, np.nan, -np.inf, -np.inf]):
        assert max_abs_error(np.array(wrong), exact) == np.inf
    assert max_abs_error(exact[:3], exact) == np.inf


def test_samples_are_seeded_and_have_states_and_lengths() -> None:
    spec = spec_of("lstm", num_layers=2)
    samples, again, other = samples_for(spec, 3), samples_for(spec, 3), samples_for(spec, 4)
    assert all(np.array_equal(one.x, two.x) for one, two in zip(samples, again, strict=True))
    assert not np.array_equal(samples[0].x, other[0].x)
    assert {one.x.shape[1] for one in samples} == {1, 3}
    assert all(one.h0.all() and one.c0 is not None and one.c0.all() for one in samples)
    lengths = [one.lengths for one in samples if one.lengths is not None and len(one.lengths) > 1]
    assert all({1, 7} < set(one) and one.min() >= 1 for one in lengths)
    assert any(one.lengths is None for one in samples)


def test_valid_steps_follow_the_order_of_the_output() -> None:
    sample = next(one for one in samples_for(spec_of("lstm"), 0) if one.lengths is not None)
    valid = sample.valid_steps(spec_of("lstm"))
    assert np.array_equal(valid.sum(axis=0), sample.lengths)
    assert valid[0].all()
    flipped = sample.valid_steps(spec_of("lstm", direction="reverse", output_order="processing"))
    assert np.array_equal(flipped, valid[::-1])


def test_specs_that_may_give_the_same_numbers() -> None:
    single, double = spec_of("lstm", bias="single"), spec_of("lstm", bias="double")
    coupled = spec_of("lstm", coupled="f=1-i")
    assert not differences(single, double)
    assert not differences(coupled, double)
    hard = [spec_of("lstm", activations=(f"hard_sigmoid({a}, 0.5)", "tanh", "tanh")) for a in (0.2, 1 / 6)]
    assert not differences(*hard)
    assert differences(hard[0], double)
    assert differences(spec_of("gru_after"), spec_of("gru_before")) == ["reset is 'after' and 'before'"]
    assert differences(spec_of("lstm", clip=3.0), double)


def layers_of(*specs: object) -> list[RNNWeights]:
    return [weights_of(spec, seed) for seed, spec in enumerate(specs)]  # type: ignore[arg-type]


def test_pairs_in_order() -> None:
    lower, upper = layers_of(spec_of("lstm"), spec_of("gru_after", hidden_size=7))
    pairing = by_order(Bundle({"a": lower, "b": upper}), Bundle({"x": lower, "y": upper}))
    assert [(str(pair.source), str(pair.target)) for pair in pairing.pairs] == [("a", "x"), ("b", "y")]
    assert not pairing.left_of_source
    assert not pairing.left_of_target


@pytest.mark.parametrize("turned", [False, True])
def test_a_stack_pairs_with_its_layers(turned: bool) -> None:
    parts = layers_of(spec_of("lstm"), spec_of("lstm", input_size=3), spec_of("lstm", input_size=3))
    other = weights_of(spec_of("gru_after"))
    apart = Bundle({"one": parts[0], "two": parts[1], "three": parts[2], "gru": other})
    together = Bundle({"stack": stack(parts), "gru": other})
    pairing = by_order(apart, together) if turned else by_order(together, apart)
    assert {str(pairing.pairs[0].source), str(pairing.pairs[0].target)} == {"one + two + three", "stack"}
    assert pairing.pairs[0].source.weights == pairing.pairs[0].target.weights
    assert str(pairing.pairs[1].source) == "gru"


def test_nothing_pairs() -> None:
    with pytest.raises(Incompatible) as caught:
        by_order(Bundle({"a": weights_of(spec_of("lstm"))}), Bundle({"b": weights_of(spec_of("gru_after"))}))
    assert "a (LSTM" in caught.value.reasons[0]
    assert "cell is 'lstm' and 'gru'" in caught.value.reasons[0]


@pytest.mark.parametrize("cell", ["lstm", "gru_before", "rnn_relu"])
def test_a_file_verifies_against_itself(tmp_path: Path, cell: str) -> None:
    weights = weights_of(spec_of(cell, num_layers=2, direction="bidirectional"))
    report = verify(save(tmp_path / "a.plain", rnn=weights), save(tmp_path / "b.plain", rnn=weights))
    assert report
    outputs = {"y", "h", "weights"} | ({"c"} if cell == "lstm" else set())
    assert {one.output for one in report.measurements} == outputs
    assert {one.file for one in report.measurements} == {"source", "target"}
    assert report.max_abs_error <= report.tolerance
    assert report.judges == ()
    assert any("rnnbridge alone" in notice for notice in report.notices)
    assert "the same numbers" in str(report)


@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l1", "bias_hh_l0_reverse"])
def test_one_changed_number_is_found(tmp_path: Path, name: str) -> None:
    weights = weights_of(spec_of("gru_after", num_layers=2, direction="bidirectional"))
    other = changed(weights, name, 0.01)
    report = verify(save(tmp_path / "a.plain", rnn=weights), save(tmp_path / "b.plain", rnn=other))
    assert not report
    assert report.max_abs_error > report.tolerance
    assert {one.file for one in report.failures} == {"target"}
    assert "DIFFERS" in str(report)


def test_float64_is_held_to_float64(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm"), dtype="float64")
    other = changed(weights, "weight_hh_l0", 1e-9)
    same = save(tmp_path / "a.plain", rnn=weights)
    assert verify(same, save(tmp_path / "b.plain", rnn=weights))
    assert not verify(same, save(tmp_path / "c.plain", rnn=other))
    assert verify(same, save(tmp_path / "d.plain", rnn=weights.astype("float32")))


def test_a_chaotic_layer_is_compared_over_fewer_steps(tmp_path: Path) -> None:
    spec = spec_of("gru_after", hidden_size=67, num_layers=3, direction="bidirectional")
    tame = weights_of(spec)
    wild = RNNWeights(spec, {name: 4 * array for name, array in tame.arrays.items()})
    same = save(tmp_path / "a.plain", rnn=wild)
    report = verify(same, save(tmp_path / "b.plain", rnn=wild))
    assert report
    assert report.tolerance < SHARP
    assert any("amplifies rounding errors" in notice for notice in report.notices)
    turned = {name: -array if name == "weight_hh_l2_reverse" else array for name, array in wild.arrays.items()}
    assert not verify(same, save(tmp_path / "c.plain", rnn=RNNWeights(spec, turned)))


def test_nan_weights_are_the_same_numbers(tmp_path: Path) -> None:
    weights = changed(weights_of(spec_of("lstm")), "bias_ih_l0", np.nan)
    report = verify(save(tmp_path / "a.plain", rnn=weights), save(tmp_path / "b.plain", rnn=weights))
    assert report
    clean = save(tmp_path / "c.plain", rnn=weights_of(spec_of("lstm")))
    found = verify(tmp_path / "a.plain", clean)
    assert not found
    assert found.to_dict()["max_abs_error"] == "inf"


def test_a_layer_without_a_partner_is_a_difference_whichever_file_has_it(tmp_path: Path) -> None:
    lstm, gru, rnn = layers_of(spec_of("lstm"), spec_of("gru_after"), spec_of("rnn_tanh"))
    both, fewer = save(tmp_path / "a.plain", one=lstm, two=gru), save(tmp_path / "b.plain", one=lstm)
    assert verify(both, fewer).unpaired == ("two of the source",)
    assert verify(fewer, both).unpaired == ("two of the target",)
    report = verify(both, save(tmp_path / "c.plain", one=lstm, other=rnn))
    assert not report
    assert report.unpaired == ("two of the source", "other of the target")
    chosen = verify(both, fewer, {"one": "one"})
    assert chosen
    assert "not compared: two of the source" in chosen.notices


def test_a_map_says_which_layer_is_which(tmp_path: Path) -> None:
    one, two = weights_of(spec_of("lstm", input_size=3), 1), weights_of(spec_of("lstm", input_size=3), 2)
    a = save(tmp_path / "a.plain", first=one, second=two)
    b = save(tmp_path / "b.plain", x=two, y=one)
    assert not verify(a, b)
    assert verify(a, b, {"first": "y", "second": "x"})
    stacked = save(tmp_path / "c.plain", stack=stack([one, two]))
    assert verify(a, stacked, {"first+second": "stack"})
    for wrong in ({"first": "z"}, {"first": "+x"}, {}, "first=y", {"first": 3}, {"first": ["x", "y"]}):
        with pytest.raises(ArgumentError, match=r"map is|no recurrent layer 'z'"):
            verify(a, b, wrong)  # type: ignore[arg-type]
    with pytest.raises(Incompatible, match="num_layers"):
        verify(a, stacked, {"first": "stack"})


def test_a_report_is_data(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm"))
    report = verify(save(tmp_path / "a.plain", rnn=weights), save(tmp_path / "b.plain", rnn=weights), seed=5)
    assert isinstance(report, Report)
    assert repr(report) == str(report)
    assert "the same numbers" in repr(report)
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["ok"] is True
    assert plain["seed"] == 5
    assert plain["measurements"] == [one.to_dict() for one in report.measurements]
    assert len(plain["measurements"]) == 7  # three outputs of each file, and the weights
    assert plain["layers"][0]["matched"] == "by order and equal spec"
    assert all(len(line) <= 120 for line in str(report).splitlines())
