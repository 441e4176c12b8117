"""oneDNN's memories in an archive: what oneDNN 3.2 was given gives its answers, and what is written has its layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation
from tests.fuzzing import cut, damaged, is_refused
from tests.samples import spec_of, weights_of

ROWS = dict(np.load(Path(__file__).parent / "golden" / "onednn-3.2" / "rows.npz"))
CASES = sorted({key.partition("|")[0] for key in ROWS})
SETTINGS = {
    "lstm@0.14 ldigo": {"version": "0.16"},
    "lstm@0.14 ldgoi": {"version": "0.14"},
    "reverse": {"reverse": "true"},
    "sum": {"merge": "sum"},
}


def held(case: str) -> dict[str, np.ndarray]:
    return {key.partition("|")[2]: array for key, array in ROWS.items() if key.partition("|")[0] == case}


def memories(case: str) -> dict[str, np.ndarray]:
    return {key.partition("|")[2]: array for key, array in held(case).items() if key.startswith("array|")}


def archive(path: Path, **arrays: Any) -> Path:
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def flat(state: np.ndarray) -> np.ndarray:
    """[L, D, N, .] -> [L*D, N, .]"""
    return state.reshape(-1, *state.shape[2:])


@pytest.mark.parametrize("case", CASES)
def test_onednns_own_numbers_come_out(case: str, tmp_path: Path) -> None:
    path, answer = archive(tmp_path / "a.npz", **memories(case)), held(case)
    weights = rb.load(path, settings=SETTINGS.get(case))["rnn"]
    states = [flat(answer[key]) for key in ("state0", "state1") if key in answer]
    exact, allowed = expectation(weights.spec, weights.arrays, answer["x"], *states)
    theirs = {"y": answer["y"], "h": flat(answer["final0"]), "c": flat(answer.get("final1", answer["final0"]))}
    for what, tolerance in allowed.items():
        assert np.abs(exact[what] - theirs[what]).max() <= tolerance, what


@pytest.mark.parametrize("case", [case for case in CASES if case != "stack"])
def test_what_is_read_is_written_as_the_same_bits(case: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", **memories(case))
    bundle = rb.load(path, settings=SETTINGS.get(case))
    options = {"tag": "ldgoi"} if "ldgoi" in case else {}
    options |= {"version": "0.16"} if "@" in case else {}
    written = rb.save(bundle, tmp_path / "b.onednn.npz", settings=options)
    back = dict(np.load(tmp_path / "b.onednn.npz"))
    assert back.keys() == memories(case).keys()
    assert all(back[name].tobytes() == array.tobytes() for name, array in memories(case).items())
    again = rb.load(tmp_path / "b.onednn.npz", settings=written.layers[0].settings)
    assert again["rnn"] == bundle["rnn"]
    assert not again["rnn"].origin.assumptions


def test_both_layouts_of_a_layer_are_one_layer(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm", bias="single", direction="bidirectional", peephole=True, proj_size=2))
    for tag in ("ldigo", "ldgoi"):
        rb.save(weights, tmp_path / f"{tag}.onednn.npz", settings={"tag": tag})
        assert rb.load(tmp_path / f"{tag}.onednn.npz")["rnn"] == weights
    one, other = (dict(np.load(tmp_path / f"{tag}.onednn.npz")) for tag in ("ldigo", "ldgoi"))
    assert np.array_equal(one["weights_layer_ldigo"], other["weights_layer_ldgoi"].transpose(0, 1, 4, 2, 3))
    assert one["weights_layer_ldigo"].shape == (1, 2, 5, 4, 3)
    assert np.array_equal(one["weights_projection_ldio"], other["weights_projection_ldoi"].transpose(0, 1, 3, 2))


def test_layers_of_one_primitive_are_a_stack(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", **memories("stack"))
    stack = rb.load(path)["rnn"]
    assert (stack.spec.num_layers, stack.spec.input_size, stack.spec.hidden_size) == (3, 3, 3)
    rb.save(stack, tmp_path / "b.onednn.npz")
    apart = rb.load(tmp_path / "b.onednn.npz")
    assert list(apart) == ["rnn_l0", "rnn_l1", "rnn_l2"]
    assert rb.stack(list(apart.layers.values())) == stack
    assert rb.verify(path, tmp_path / "b.onednn.npz")


def test_an_lbr_gru_has_four_biases(tmp_path: Path) -> None:
    """Of two biases of a gate the sum is kept, but for the candidate's inside the reset."""
    weights = weights_of(spec_of("gru_after"))
    written = rb.save(weights, tmp_path / "a.onednn.npz")
    assert [step.name for step in written.layers[0].plan.steps] == ["merge biases"]
    (bias,) = np.load(tmp_path / "a.onednn.npz")["bias_ldgo"]
    (r, z, n), (inner_r, inner_z, inner_n) = (
        weights.arrays[name].astype(np.float64).reshape(3, 3) for name in ("bias_ih_l0", "bias_hh_l0")
    )
    assert np.array_equal(bias[0], np.stack([z + inner_z, r + inner_r, n, inner_n]).astype(np.float32))
    rb.save(weights, tmp_path / "a.npz")
    assert rb.verify(tmp_path / "a.npz", tmp_path / "a.onednn.npz")
    again = rb.load(tmp_path / "a.onednn.npz")["rnn"]
    rb.save(again, tmp_path / "b.onednn.npz")
    assert (tmp_path / "a.onednn.npz").read_bytes() == (tmp_path / "b.onednn.npz").read_bytes()


def test_the_layer_of_a_report(tmp_path: Path) -> None:
    """All weights 1 and all biases 2 (uxlfoundation/oneDNN#617): an LBR-GRU's gates have 4, its candidate 2 and 2."""
    spec = spec_of("gru_after")
    arrays = {
        name: np.full(shape, 2 if "bias" in name else 1, np.float32) for name, shape in spec.weight_shapes().items()
    }
    rb.save(rb.RNNWeights(spec, arrays), tmp_path / "a.onednn.npz")
    assert np.load(tmp_path / "a.onednn.npz")["bias_ldgo"][0, 0, :, 0].tolist() == [4, 4, 2, 2]


@pytest.mark.parametrize("case", ["lstm ldigo", "gru ldgoi", "stack"])
@pytest.mark.parametrize("old", [False, True])
def test_states_come_in_both_layouts(case: str, old: bool, tmp_path: Path) -> None:
    """In ldsnc h and c are one memory, so that they are equally wide."""
    answer = {key: held(case)[key] for key in ("state0", "state1") if key in held(case)}
    if old and case == "lstm ldigo":
        pytest.skip("its projection makes h narrower than c")
    names = dict(zip(answer, ("src_iter_ldnc", "src_iter_c_ldnc"), strict=False))
    given = {names[key]: state for key, state in answer.items()}
    if old:
        given = {"src_iter_ldsnc": np.stack(list(answer.values()), axis=2)}
    bundle = rb.load(archive(tmp_path / "a.npz", **memories(case), **given))
    assert list(bundle.tensors) == ["src_iter", "src_iter_c"][: len(answer)]
    assert all(
        np.array_equal(one, flat(two)) for one, two in zip(bundle.tensors.values(), answer.values(), strict=True)
    )
    written = rb.save(bundle, tmp_path / "b.onednn.npz", settings={"version": "0.20"} if old else {})
    assert not written.not_converted
    back = dict(np.load(tmp_path / "b.onednn.npz"))
    for name, state in given.items():
        if case == "stack":
            assert all(np.array_equal(back[f"rnn_l{k}/{name}"], state[k : k + 1]) for k in range(3))
        else:
            assert np.array_equal(back[name], state)


def test_what_memories_do_not_say_is_assumed(tmp_path: Path) -> None:
    arrays = {f"{folder}/{name}": array for folder, case in (("a", "lstm@0.14 ldigo"), ("b", "vanilla_rnn ldgoi"))
              for name, array in memories(case).items()}  # fmt: skip
    bundle = rb.load(archive(tmp_path / "a.npz", **arrays, other=np.ones(3)))
    said = {name: {one.key: one.value for one in weights.origin.assumptions} for name, weights in bundle.layers.items()}
    assert said == {"a": {"version": "3.2", "merge": "concat"}, "b": {"activation": "tanh", "merge": "concat"}}
    assert list(bundle.tensors) == ["other"]
    old = rb.load(tmp_path / "a.npz", settings={"a.version": "0.15", "b.activation": "sigmoid"})
    assert old["a"] != bundle["a"]
    assert str(old["b"].spec.activations[0]) == "sigmoid"


@pytest.mark.parametrize(
    ("case", "settings", "message"),
    [
        ("lstm@0.14 ldigo", {"version": "0.13"}, "version='0.13'"),
        ("lstm@0.14 ldigo", {"version": "old"}, "version='old'"),
        ("gru ldigo", {"merge": "mul"}, "merge='mul'"),
        ("vanilla_rnn ldigo", {"activation": "elu"}, "activation='elu'"),
        ("gru ldigo", {"version": "0.16"}, "nothing here takes"),
    ],
)
def test_settings_that_are_none(case: str, settings: Any, message: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", **memories(case))
    with pytest.raises(rb.ArgumentError, match=message):
        rb.load(path, settings=settings)
    with pytest.raises(rb.ArgumentError, match="tag='ldio'"):
        rb.save(weights_of(spec_of("lstm")), tmp_path / "b.onednn.npz", settings={"tag": "ldio"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias_ldgo": None}, "bias_ldgo is missing"),
        ({"weights_iter_ldigo": None}, "weights_layer and weights_iter, both in"),
        ({"weights_iter_ldigo": None, "weights_iter_ldgoi": np.ones((1, 2, 3, 3, 3), np.float32)}, "both in"),
        ({"bias_ldgo": np.ones((1, 2, 5, 3), np.float32)}, "3 gates and 5 rows of biases"),
        ({"bias_ldgo": np.ones((1, 1, 4, 3), np.float32)}, "as many l and d as all"),
        ({"weights_iter_ldigo": np.ones((1, 2, 3, 3, 7), np.float32)}, "weights_iter_ldigo"),
        ({"weights_layer_ldigo": np.ones((1, 2, 5, 3, 3), np.int32)}, "int32"),
        ({"weights_peephole_ldgo": np.ones((1, 2, 3, 3), np.float32)}, "left over: a lbr_gru ldigo has none"),
        ({"weights_projection_ldio": np.ones((1, 2, 3, 2), np.float32)}, "weights_projection_ldio left over"),
        ({"src_iter_ldnc": np.ones((1, 2, 3), np.float32)}, "its axes are l d n c"),
        ({"src_iter_ldnc": np.ones((1, 2, 3, 3)), "src_iter_ldsnc": np.ones((1, 2, 1, 3, 3))}, "or in"),
    ],
)  # fmt: skip
def test_memories_that_do_not_make_a_layer(changes: Any, message: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", **{**memories("lbr_gru ldigo"), **changes})
    with pytest.raises(rb.FormatError, match=message) as caught:
        rb.load(path, format="onednn")
    assert str(path) in str(caught.value)


def test_two_directions_of_several_layers_are_stacks_of_their_own(tmp_path: Path) -> None:
    twice = {name: np.concatenate([array, array]) for name, array in memories("gru ldigo").items()}
    with pytest.raises(rb.FormatError, match="a primitive each"):
        rb.load(archive(tmp_path / "a.npz", **twice))


def test_a_million_layers_are_refused(tmp_path: Path) -> None:
    shapes = {"weights_layer_ldigo": (1 << 20, 1, 1, 1, 1), "weights_iter_ldigo": (1 << 20, 1, 1, 1, 1)}
    ones = {name: np.ones(shape, np.float16) for name, shape in {**shapes, "bias_ldgo": (1 << 20, 1, 1, 1)}.items()}
    with pytest.raises(rb.FormatError, match="1048576 layers"):
        rb.load(archive(tmp_path / "a.npz", **ones))


def test_what_onednn_cannot_hold_is_refused(tmp_path: Path) -> None:
    for weights, settings, reason in (
        (weights_of(spec_of("lstm", activations=("hard_sigmoid(0.2, 0.5)", "tanh", "tanh"))), {}, "hard_sigmoid"),
        (weights_of(spec_of("lstm", peephole=True)), {"version": "0.16"}, "peepholes"),
        (weights_of(spec_of("lstm", direction="bidirectional", merge="mul")), {}, "mul"),
    ):
        with pytest.raises(rb.Incompatible) as caught:
            rb.save(weights, tmp_path / "a.onednn.npz", settings=settings)
        assert any(reason in one for one in caught.value.reasons), caught.value.reasons
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cell", ["lstm", "gru_after", "gru_before", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_conversion_is_proven(cell: str, direction: str, tmp_path: Path) -> None:
    rb.save(weights_of(spec_of(cell, num_layers=2, direction=direction)), tmp_path / "a.npz")
    report = rb.convert(tmp_path / "a.npz", tmp_path / "b.onednn.npz")
    assert report.ok
    assert (tmp_path / "b.onednn.npz").is_file()


def test_half_precision_comes_back_as_the_same_bits(tmp_path: Path) -> None:
    spec = spec_of("lstm", bias="single")
    arrays = {name: array.astype(np.float16) for name, array in weights_of(spec).arrays.items()}
    rb.save(rb.RNNWeights(spec, arrays), tmp_path / "a.onednn.npz")
    assert {array.dtype for array in np.load(tmp_path / "a.onednn.npz").values()} == {np.dtype(np.float16)}
    assert rb.load(tmp_path / "a.onednn.npz")["rnn"] == rb.RNNWeights(spec, arrays)
    wide = rb.save(weights_of(spec, dtype="float64"), tmp_path / "b.onednn.npz")
    assert any("float32" in notice for notice in wide.notices)


def test_a_fuzzed_archive_is_refused_or_other_numbers(tmp_path: Path) -> None:
    content = archive(tmp_path / "a.npz", **memories("lbr_gru ldigo")).read_bytes()
    assert not is_refused(tmp_path / "a.npz", content, "onednn")
    assert all(is_refused(tmp_path / "a.npz", one, "onednn") for one in cut(content))
    assert sum(is_refused(tmp_path / "a.npz", one, "onednn") for one in damaged(content, 200)) > 100
