"""Paddle's files: what PaddlePaddle 3.3.1 wrote gives its own numbers, and what is written has its names."""

from __future__ import annotations

import json
import pickle
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.paddle_faults import FAULTS
from rnnbridge.converters.paddle_pickle import params_bytes, read_params
from rnnbridge.proof.tolerance import expectation
from tests.samples import spec_of, weights_of

GOLDEN = Path(__file__).parent / "golden" / "paddle-3.3.1"
FLUID = {
    "lstm_0.fc": "fc_3",
    "lstm_1.fc": "fc_4",
    "gru_unit_0.fc": "fc_5",
    "gru_1.reverse": "true",
    "lstm_1.reverse": "true",
}
FLUID |= {"gru_2.origin_mode": "true"}
FILES = {
    "model.pdparams": {"relu.activation": "relu"},
    "model.protocol2.pdparams": {"relu.activation": "relu"},
    "model.nested.pdparams": {"network.relu.activation": "relu"},
    "inference.pdiparams": {},
    "older.pdiparams": {},
    "fluid/gru_0.w_0": FLUID,
    "fluid/fc_4.w_0": FLUID,
}


def load(name: str) -> rb.Bundle:
    return rb.load(GOLDEN / name, settings=FILES[name])


def expected(name: str) -> dict[str, dict[str, np.ndarray]]:
    """Layer -> what -> array, as Paddle answered."""
    found: dict[str, dict[str, np.ndarray]] = {}
    with np.load(GOLDEN / f"{name.split('.')[0].split('/')[0]}.expected.npz") as arrays:
        for key in arrays.files:
            layer, _, what = key.partition("|")
            found.setdefault(layer, {})[what] = arrays[key]
    return found


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ending", ["", "_masked"])
def test_paddles_own_numbers_come_out(name: str, ending: str) -> None:
    bundle, seen = load(name), 0
    assert {layer.removeprefix("network.") for layer in bundle} == set(expected(name))
    for layer, weights in bundle.layers.items():
        answer = expected(name)[layer.removeprefix("network.")]
        if f"y{ending}" in answer:
            lengths = answer["lengths"] if ending else None
            states = (answer["state0"], answer.get("state1"))
            exact, allowed = expectation(weights.spec, weights.arrays, answer["x"], *states, lengths)
            theirs = {"y": answer[f"y{ending}"], "h": answer[f"final0{ending}"], "c": answer.get(f"final1{ending}")}
            for what, tolerance in allowed.items():
                assert np.abs(exact[what] - theirs[what]).max() <= tolerance, (layer, what)
            seen += 1
    assert seen >= (3 if ending else len(bundle.layers))


def test_one_file_in_three_pickles() -> None:
    plain = load("model.pdparams")
    for name in ("model.protocol2.pdparams", "model.nested.pdparams"):
        other = load(name)
        assert [one.removeprefix("network.") for one in other] == list(plain)
        assert list(other.layers.values()) == list(plain.layers.values())
    assert list(plain.tensors) == ["dense.weight", "dense.bias"]


def test_what_a_file_does_not_say_is_assumed() -> None:
    bundle = rb.load(GOLDEN / "model.pdparams")
    said = {name: {one.key: one.value for one in weights.origin.assumptions} for name, weights in bundle.layers.items()}
    assert said["relu"] == {"activation": "tanh", "batch_first": "true"}
    assert said["rnn_cell"] == {"activation": "tanh"}
    assert said["gru"] == {"batch_first": "true"}
    changed = rb.load(GOLDEN / "model.pdparams", settings={"gru.batch_first": "false", "activation": "relu"})
    assert changed["gru"].origin.batch_first is False
    assert str(changed["rnn_cell"].spec.activations[0]) == "relu"
    with pytest.raises(rb.ArgumentError, match="activation='elu'"):
        rb.load(GOLDEN / "model.pdparams", settings={"activation": "elu"})


def test_a_program_says_the_order_of_sequences_and_the_activation() -> None:
    bundle = rb.load(GOLDEN / "inference.pdiparams")
    assert {name: weights.origin.batch_first for name, weights in bundle.layers.items()} == {
        "gru_0": True, "lstm_0": False, "simple_rnn_0": True, "lstm_cell_1": None,
    }  # fmt: skip
    assert not any(weights.origin.assumptions for weights in bundle.layers.values())
    assert str(bundle["simple_rnn_0"].spec.activations[0]) == "relu"
    assert bundle["lstm_cell_1"].spec.proj_size == 2
    assert sorted(bundle.tensors) == ["linear_0.b_0", "linear_0.w_0"]


def test_a_program_of_paddle_2_has_the_same_layers() -> None:
    older, newer = load("older.pdiparams"), load("inference.pdiparams")
    assert list(older) == ["gru_0", "lstm_0", "simple_rnn_0"]
    for name, weights in older.layers.items():
        assert weights == newer[name]
        assert [one.key for one in weights.origin.assumptions] == ["batch_first"]
    # Between the two layers people transpose by hand, and it cannot be told from a layer that does.
    assert {name: weights.origin.batch_first for name, weights in older.layers.items()} == dict.fromkeys(older, True)


def test_an_operator_says_nothing_of_the_program() -> None:
    bundle = rb.load(
        GOLDEN / "fluid" / "gru_0.b_0", settings={"lstm_0.fc": "fc_3", "lstm_1.fc": "fc_4", "gru_unit_0.fc": "fc_5"}
    )
    assert {one.key: one.value for one in bundle["gru_0"].origin.assumptions} == {
        "fc": "fc_0", "origin_mode": "false", "reverse": "false",
    }  # fmt: skip
    assert {one.key for one in bundle["lstm_0"].origin.assumptions} == {"reverse"}
    assert bundle["lstm_0"].spec.peephole
    assert not bundle["lstm_1"].spec.peephole
    assert (bundle["gru_0"].spec.bias, bundle["gru_1"].spec.bias) == ("double", "single")
    with pytest.raises(rb.FormatError, match=r"lstm_0\.w_0.*with fc_0 before it \(lstm_0\.fc sets another\)"):
        rb.load(GOLDEN / "fluid" / "gru_0.w_0")
    with pytest.raises(rb.ArgumentError, match=r"fc='\.\./fc_0'"):
        rb.load(GOLDEN / "fluid" / "gru_0.w_0", settings={"fc": "../fc_0"})


def copied(tmp_path: Path, *left_out: str) -> Path:
    shutil.copytree(GOLDEN / "fluid", tmp_path / "fluid", ignore=shutil.ignore_patterns(*left_out))
    return tmp_path / "fluid"


def test_a_bias_of_the_fc_alone_is_the_layers(tmp_path: Path) -> None:
    folder = copied(tmp_path, "lstm_*", "gru_[12]*", "gru_0.b_0")
    weights = rb.load(folder / "gru_0.w_0")["gru_0"]
    assert weights.spec.bias == "single"
    both = rb.load(GOLDEN / "fluid" / "gru_0.w_0", settings=FLUID)["gru_0"]
    assert np.array_equal(weights.arrays["bias_ih_l0"], both.arrays["bias_ih_l0"])


@pytest.mark.parametrize(
    ("left_out", "renamed", "message"),
    [
        (("gru_*.w_0", "lstm_*.w_0"), None, "no gru_0.w_0, lstm_0.w_0"),
        (("lstm_*", "fc_1.w_0"), None, "no fc_1.w_0 beside it"),
        (("lstm_*", "gru_1.*"), ("gru_2.w_0", "lstmp_2.w_0"), "activation on its projection"),
        (("lstm_*", "gru_1.*"), ("fc_3.w_0", "gru_0.w_0"), r"should be \[H, 3H\]"),
    ],
)
def test_operators_that_are_not_all_there(left_out: Any, renamed: Any, message: str, tmp_path: Path) -> None:
    folder = copied(tmp_path, *left_out)
    if renamed:
        (folder / renamed[0]).replace(folder / renamed[1])
    with pytest.raises(rb.FormatError, match=message):
        rb.load(folder / "fc_0.w_0")


def test_layers_are_written_under_the_names_of_their_cells(tmp_path: Path) -> None:
    bundle = load("model.pdparams")
    written = rb.save(bundle, tmp_path / "a.pdparams")
    theirs, ours = read_params(GOLDEN / "model.pdparams"), read_params(tmp_path / "a.pdparams")
    assert set(ours) == {name for name in theirs if "_l" not in name.rpartition(".")[2] and "dense" not in name}
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)
    assert written.not_converted == ("dense.weight", "dense.bias")
    lines = {layer.source: layer.constructor for layer in written.layers}
    assert lines["both_ways"] == "paddle.nn.LSTM(5, 3, num_layers=2, direction='bidirect')"
    assert lines["lstmp_cell"] == "paddle.nn.LSTMCell(5, 3, proj_size=2)"
    assert lines["relu"] == "paddle.nn.SimpleRNN(5, 3, activation='relu')"


@pytest.mark.parametrize("cell", ["lstm", "gru_after", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_there_and_back_gives_the_same_bits(cell: str, direction: str, dtype: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of(cell, num_layers=3, direction=direction), dtype=dtype).with_origin(batch_first=False)
    written = rb.save(weights, tmp_path / "a.pdparams")
    again = rb.load(tmp_path / "a.pdparams", settings=written.layers[0].settings)
    assert again["rnn"] == weights
    assert again["rnn"].origin.batch_first is False
    rb.save(weights, tmp_path / "a.npz")
    assert rb.verify(tmp_path / "a.npz", tmp_path / "a.pdparams", settings_b=written.layers[0].settings)


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_half_precision_comes_back_as_the_same_bits(storage: str, tmp_path: Path) -> None:
    spec = spec_of("lstm")
    cut = {
        name: (array.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, array in weights_of(spec).arrays.items()
    }
    arrays = cut if storage == "bfloat16" else {name: array.astype(np.float16) for name, array in cut.items()}
    weights = rb.RNNWeights(spec, arrays).with_origin(storage_dtype=storage)
    written = rb.save(weights, tmp_path / "a.pdparams")
    assert {array.dtype.itemsize for array in read_params(tmp_path / "a.pdparams").values()} == {2}
    again = rb.load(tmp_path / "a.pdparams")["rnn"]
    assert again == weights
    assert again.origin.storage_dtype == storage
    assert any("half precision" in notice for notice in written.notices)


def test_what_paddle_cannot_hold_is_refused(tmp_path: Path) -> None:
    for weights, reason in (
        (weights_of(spec_of("gru_before")), "reset gate before"),
        (weights_of(spec_of("lstm", direction="reverse")), "reverse"),
        (weights_of(spec_of("lstm", proj_size=3)), "below the hidden size"),
    ):
        with pytest.raises(rb.Incompatible) as caught:
            rb.save(weights, tmp_path / "a.pdparams")
        assert any(reason in one for one in caught.value.reasons), caught.value.reasons
    assert not list(tmp_path.iterdir())


def test_whom_a_fault_of_paddle_meets_is_told_so(tmp_path: Path) -> None:
    """Every fault has a layer here that meets it, and a plain one meets none."""
    told = set()
    for number, (spec, origin) in enumerate(
        (
            (spec_of("gru_after", bias="none"), {}),
            (spec_of("lstm", bias="single"), {}),
            (spec_of("lstm", proj_size=2), {}),
            (spec_of("lstm", proj_size=2), {"convention": "paddle.LSTMCell"}),
            (spec_of("lstm"), {"storage_dtype": "float16"}),
        )
    ):
        weights = weights_of(spec).with_origin(**origin)
        written = rb.save(weights, tmp_path / f"{number}.pdparams")
        told |= set(written.notices)
        read = rb.load(tmp_path / f"{number}.pdparams").notices
        assert set(read) == {notice for notice in written.notices if "set_state_dict warns" not in notice} or origin
    assert {str(fault) for fault in FAULTS} <= told
    plain = rb.save(weights_of(spec_of("lstm")), tmp_path / "plain.pdparams")
    assert len(plain.notices) == 1
    assert not rb.load(tmp_path / "plain.pdparams").notices


def pickled(path: Path, value: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_as_numpy_pickles_them(protocol: int, tmp_path: Path) -> None:
    """Column by column, from a machine of the other byte order, in an ordered dict."""
    held = {name: np.array(array) for name, array in read_params(GOLDEN / "model.pdparams").items()}
    plain = rb.load(GOLDEN / "model.pdparams")
    for changed in (
        {name: np.asfortranarray(array) for name, array in held.items()},
        {name: array.astype(">f4") for name, array in held.items()},
        OrderedDict(held),
    ):
        path = pickled(tmp_path / "a.pdparams", changed, protocol)
        if protocol == 5:  # which paddle.save refuses
            with pytest.raises(rb.FormatError):
                rb.load(path)
        else:
            assert rb.load(path).layers == plain.layers


def test_arrays_in_slices(tmp_path: Path) -> None:
    """Protocols 2 and 3 cannot hold 4 GB in one piece, so that paddle.save cuts what is large."""
    held = {name: np.array(array) for name, array in read_params(GOLDEN / "model.pdparams").items()}
    whole = held.pop("gru.0.cell.weight_ih")
    parts = {f"gru.0.cell.weight_ih@@.{k}": part for k, part in enumerate(np.split(whole.reshape(-1), [7, 20]))}
    said = {"UnpackBigParamInfor@@": {"gru.0.cell.weight_ih": {"OriginShape": whole.shape, "slices": list(parts)}}}
    path = pickled(tmp_path / "a.pdparams", {**held, **parts, **said}, 2)
    assert rb.load(path, format="paddle")["gru"] == load("model.pdparams")["gru"]
    assert list(rb.load(path, format="paddle").tensors) == ["dense.weight", "dense.bias"]
    del parts["gru.0.cell.weight_ih@@.1"]
    with pytest.raises(rb.FormatError, match="slices"):
        rb.load(pickled(tmp_path / "a.pdparams", {**held, **parts, **said}, 2), format="paddle")


def arrays_with(**changes: Any) -> dict[str, np.ndarray]:
    held = {name: np.array(array) for name, array in read_params(GOLDEN / "model.pdparams").items()}
    held = {name: array for name, array in held.items() if name.startswith("projected.") and ".cell" in name}
    changes = {name.replace("__", "."): array for name, array in changes.items()}
    return {name: array for name, array in {**held, **changes}.items() if array is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"projected__1__cell_bw__bias_hh": None}, "1.cell_bw.bias_hh is missing"),
        ({"projected__0__cell_fw__weight_hh": None}, "0.cell_fw.weight_hh is missing"),
        ({"projected__0__cell_fw__weight_hh": np.ones((5, 2), np.float32)}, r"weight_hh is \[5, 2\]"),
        ({"projected__1__cell_bw__weight_ih": np.ones((12, 5), np.float32)}, "1.cell_bw.weight_ih"),
        ({"projected__7__cell_fw__weight_ih": np.ones((12, 4), np.float32)}, "2.cell_fw.weight_ih is missing"),
        ({"projected__999__cell_fw__weight_ih": np.ones((12, 4), np.float32)}, "1000 layers cannot be"),
        ({"projected__0__cell_fw__bias_ih": np.ones(12, np.int32)}, "bias_ih is int32"),
    ],
)
def test_an_incomplete_layer_names_the_array(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.pdparams").write_bytes(params_bytes(arrays_with(**changes)))
    with pytest.raises(rb.FormatError, match=message) as caught:
        rb.load(tmp_path / "a.pdparams")
    assert "layer 'projected'" in str(caught.value)


def test_second_names_are_never_read(tmp_path: Path) -> None:
    """With a projection they are shifted: weight_ih_l0_reverse of Paddle's own file is a projection [H, P]."""
    held = read_params(GOLDEN / "model.pdparams")
    assert held["projected.weight_ih_l0_reverse"].shape == (3, 2)
    only = {name: array for name, array in held.items() if "_l" in name.rpartition(".")[2]}
    (tmp_path / "a.pdparams").write_bytes(params_bytes(only))
    with pytest.raises(rb.FormatError, match=r"second names.*whole state_dict"):
        rb.load(tmp_path / "a.pdparams")


class Dangerous:
    def __reduce__(self) -> Any:
        return Path.write_text, (Path("/nowhere/at/all"), "owned")


def test_nothing_that_a_pickle_says_is_run(tmp_path: Path) -> None:
    value = {**arrays_with(), "more": Dangerous(), "list": [1, 2], "text": "a"}
    assert list(rb.load(pickled(tmp_path / "a.pdparams", value), format="paddle").layers) == ["projected"]
    with pytest.raises(rb.FormatError, match="holds a pathlib"):
        rb.load(pickled(tmp_path / "b.pdparams", Dangerous()), format="paddle")


def test_arrays_that_share_their_bytes_do_not_fill_the_memory(tmp_path: Path) -> None:
    big = np.ones((1 << 10, 1 << 10), np.float32)
    path = pickled(tmp_path / "a.pdparams", {f"{k}.cell.weight_ih": big for k in range(5000)})
    with pytest.raises(rb.FormatError, match="larger than such a file can hold"):
        rb.load(path, format="paddle")
    said = {"UnpackBigParamInfor@@": {"a": {"OriginShape": [5000, 1 << 20], "slices": ["big"] * 5000}}}
    with pytest.raises(rb.FormatError, match="larger than such a file can hold"):
        rb.load(pickled(tmp_path / "b.pdparams", {"big": big, **said}), format="paddle")


def test_dicts_that_hold_each_other_come_to_an_end(tmp_path: Path) -> None:
    endless: dict[str, Any] = {"array": np.ones(3, np.float32)}
    endless |= {f"{number}": endless for number in range(999)}
    with pytest.raises(rb.FormatError, match="without end"):
        rb.load(pickled(tmp_path / "a.pdparams", endless))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole["base_code"].update(magic="other"), "no program of Paddle 3"),
        (lambda whole: whole.pop("program"), "damaged program"),
        (lambda whole: rnn_of(whole)["A"][5]["AT"].update(D="ELMAN"), "mode 'ELMAN'"),
        (lambda whole: rnn_of(whole)["A"][4]["AT"].update(D=9), "of 9 layers has 16 weights"),
        (lambda whole: rnn_of(whole)["A"][4]["AT"].update(D=-4), "of -4 layers"),
        (lambda whole: rnn_of(whole)["I"][2].update({"%": 10**9}), "damaged program"),
        (lambda whole: parameter_of(whole)["O"]["TT"]["D"].__setitem__(1, [3, 2]), r"is \[2, 2\], and \[3, 2\]"),
        (lambda whole: parameter_of(whole)["A"].__setitem__(3, "zz"), r", and \[\d"),
    ],
)
def test_a_program_that_does_not_fit_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    whole = json.loads((GOLDEN / "inference.json").read_text())
    change(whole)
    shutil.copy(GOLDEN / "inference.pdiparams", tmp_path)
    (tmp_path / "inference.json").write_text(json.dumps(whole))
    with pytest.raises(rb.FormatError, match=message):
        rb.load(tmp_path / "inference.pdiparams")


def operators_of(whole: Any) -> list[Any]:
    return whole["program"]["regions"][0]["blocks"][0]["ops"]


def rnn_of(whole: Any) -> Any:
    return next(one for one in operators_of(whole) if one["#"] == "1.rnn")


def parameter_of(whole: Any) -> Any:
    return next(one for one in operators_of(whole) if one["#"] == "p" and one["A"][3] == "linear_0.w_0")


def test_tensors_without_their_program(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "inference.pdiparams", tmp_path)
    with pytest.raises(rb.FormatError, match=r"no inference\.json or inference\.pdmodel beside it"):
        rb.load(tmp_path / "inference.pdiparams")
    (tmp_path / "inference.json").write_text("[" * 100000)
    with pytest.raises(rb.FormatError, match="damaged program"):
        rb.load(tmp_path / "inference.pdiparams")
