"""Our own `.npz`: every field of a spec and every bit comes back, and a file that was changed does not prove itself."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.files.zip import npy_bytes, read_members, write_members
from rnnbridge.weights import Origin, RNNWeights
from tests import oracle
from tests.samples import all_specs, spec_of, weights_of

Members = dict[str, bytes]
SPECS = [
    *all_specs(),
    *(
        (f"merge-{merge}", spec_of("gru_before", direction="bidirectional", merge=merge))
        for merge in ("sum", "mul", "none")
    ),
    (
        "everything",
        spec_of("lstm", proj_size=2, peephole=True, clip=0.7, cell_clip=0.5, proj_clip=0.3, coupled="i=1-f"),
    ),
    ("hard", spec_of("lstm", activations=("hard_sigmoid(0.2, 0.5)", "relu", "linear"), num_layers=2)),
    ("processing", spec_of("gru_after", direction="reverse", output_order="processing")),
]
ORIGIN = Origin(
    framework="keras",
    convention="keras.GRU",
    name="übung/1",
    version="2.3.1",
    batch_first=True,
    padding="repeat",
    evidence=("one sentence", "another"),
    assumptions=(rb.Assumption("recurrent_activation", "sigmoid", "the file does not say it"),),
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spec", [spec for _, spec in SPECS], ids=[name for name, _ in SPECS])
def test_a_layer_comes_back_as_it_was(spec: rb.RNNSpec, dtype: str, tmp_path: Path) -> None:
    weights = RNNWeights(spec, weights_of(spec, dtype=dtype).arrays, ORIGIN)
    written = rb.save(weights, tmp_path / "a.npz")
    (layer,) = written.layers
    assert not layer.plan.steps
    again = rb.load(tmp_path / "a.npz")[layer.target]
    assert again == weights
    assert again.origin == weights.origin


def test_numpy_opens_a_file_and_finds_the_canonical_arrays(tmp_path: Path) -> None:
    layers = {
        "a": weights_of(spec_of("lstm", proj_size=2, peephole=True)),
        "b": weights_of(spec_of("gru_before", bias="single")),
    }
    rb.save(rb.Bundle(layers), tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        for number, weights in enumerate(layers.values()):
            assert all(np.array_equal(file[f"{number}/{name}"], array) for name, array in weights.arrays.items())
        index = json.loads(file["rnnbridge.json"])
    assert [layer["name"] for layer in index["layers"]] == ["a", "b"]
    assert index["version"] == 1


def test_the_sample_is_the_oracles(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm", num_layers=2, direction="bidirectional"), dtype="float64")
    rb.save(weights, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        given = {name: file[f"0/check/{name}"] for name in ("x", "h0", "c0", "lengths", "y", "h", "c")}
    assert given["h0"].all()
    assert given["c0"].all()
    assert len(set(given["lengths"])) == 3
    y, h, c = oracle.run(weights.spec, weights.arrays, given["x"], given["h0"], given["c0"], given["lengths"])
    for ours, theirs in ((given["y"], y), (given["h"], h), (given["c"], c)):
        assert np.abs(ours - theirs).max() <= np.sqrt(np.finfo(np.float64).eps) * max(1, np.abs(theirs).max())


def test_the_same_layers_give_the_same_bytes_in_the_order_given(tmp_path: Path) -> None:
    layers = {name: weights_of(spec_of("gru_after"), seed=seed) for seed, name in enumerate(["z", "a", "m"])}
    for name in ("one.npz", "another.npz"):
        rb.save(rb.Bundle(layers), tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "another.npz").read_bytes()
    assert list(rb.load(tmp_path / "one.npz")) == ["z", "a", "m"]


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_narrow_numbers_are_stored_narrow(storage: str, tmp_path: Path) -> None:
    spec = spec_of("gru_after")
    arrays = {name: array.astype(np.float16).astype(np.float32) for name, array in weights_of(spec).arrays.items()}
    if storage == "bfloat16":
        arrays = {name: (array.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, array in arrays.items()}
    weights = RNNWeights(spec, arrays, Origin(storage_dtype=storage))
    rb.save(weights, tmp_path / "a.npz")
    again = rb.load(tmp_path / "a.npz")["rnn"]
    assert again == weights
    assert again.origin.storage_dtype == storage
    with np.load(tmp_path / "a.npz") as file:
        assert all(file[f"0/{name}"].dtype.itemsize == 2 for name in arrays)


def test_what_was_narrow_and_is_no_more_is_stored_in_full(tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm")).with_origin(storage_dtype="float16")
    rb.save(weights, tmp_path / "a.npz")
    again = rb.load(tmp_path / "a.npz")["rnn"]
    assert again == weights
    assert not again.origin.storage_dtype


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e30])
def test_odd_numbers_come_back_and_still_prove_themselves(odd: float, tmp_path: Path) -> None:
    weights = weights_of(spec_of("rnn_relu", num_layers=2))
    arrays = {name: array.copy() for name, array in weights.arrays.items()}
    arrays["weight_hh_l0"][1, 2] = odd
    rb.save(RNNWeights(weights.spec, arrays), tmp_path / "a.npz")
    assert rb.load(tmp_path / "a.npz")["rnn"] == RNNWeights(weights.spec, arrays)


def test_the_order_asked_for_is_kept_and_other_tensors_are_listed(tmp_path: Path) -> None:
    bundle = rb.Bundle({"rnn": weights_of(spec_of("lstm"))}, {"embedding": np.ones((2, 3))})
    written = rb.save(bundle, tmp_path / "a.npz", batch_first=True)
    assert written.not_converted == ("embedding",)
    assert rb.load(tmp_path / "a.npz")["rnn"].origin.batch_first is True


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Members], Members]:
    def apply(members: Members) -> Members:
        return {**members, name: npy_bytes(change(np.load(io.BytesIO(members[name]))))}

    return apply


def told(change: Callable[[dict[str, Any]], Any]) -> Callable[[Members], Members]:
    def apply(members: Members) -> Members:
        index = json.loads(members["rnnbridge.json"])
        replaced = change(index)
        return {**members, "rnnbridge.json": json.dumps(index if replaced is None else replaced).encode()}

    return apply


def without(name: str) -> Callable[[Members], Members]:
    return lambda members: {key: content for key, content in members.items() if key != name}


def spec_change(**fields: Any) -> Callable[[Members], Members]:
    return told(lambda index: index["layers"][0]["spec"].update(fields))


UNPROVEN: dict[str, Callable[[Members], Members]] = {
    "one number more": changed("0/bias_hh_l0.npy", lambda array: array + np.float32(1e-3)),
    "two rows exchanged": changed("0/weight_ih_l1.npy", lambda array: array[[1, 0, *range(2, len(array))]]),
    "the other formula": spec_change(reset="before"),
    "another activation": spec_change(activations=["hard_sigmoid(0.2, 0.5)", "tanh"]),
    "a clip": spec_change(clip=0.1),
    "another answer": changed("0/check/y.npy", lambda array: array * 1.0001),
    "an answer of another shape": changed("0/check/h.npy", lambda array: array[:1]),
    "no answer": without("0/check/y.npy"),
    "no input": without("0/check/x.npy"),
    "an input of another shape": changed("0/check/x.npy", lambda array: array[..., :2]),
    "a length out of range": changed("0/check/lengths.npy", lambda array: array + 99),
}


def rewritten(path: Path, change: Callable[[Members], Members], **spec: Any) -> RNNWeights:
    weights = weights_of(spec_of("gru_after", num_layers=2, **spec))
    rb.save(weights, path)
    write_members(path, change(read_members(path)))
    return weights


@pytest.mark.parametrize("case", UNPROVEN)
def test_a_changed_file_does_not_prove_itself(case: str, tmp_path: Path) -> None:
    rewritten(tmp_path / "a.npz", UNPROVEN[case])
    with pytest.raises(rb.FormatError, match=r"layer 'rnn': its sample .*"):
        rb.load(tmp_path / "a.npz")
    assert rb.load(tmp_path / "a.npz", settings={"self_check": "false"})["rnn"].spec.num_layers == 2


def twice(index: dict[str, Any]) -> None:
    index["layers"] *= 2


def many_layers(index: dict[str, Any]) -> None:
    index["layers"][0]["spec"]["num_layers"] = 10**9


REFUSED: dict[str, tuple[Callable[[Members], Members], str]] = {
    "no index": (without("rnnbridge.json"), "none of rnnbridge's"),
    "no array": (without("0/weight_hh_l1.npy"), "weight_hh_l1 is missing"),
    "no bias": (without("0/bias_hh_l1.npy"), "bias_hh_l1"),
    "a stray array": (lambda members: {**members, "0/peephole_l0.npy": npy_bytes(np.ones(3))}, "peephole_l0"),
    "another shape": (changed("0/weight_ih_l0.npy", lambda array: array.T), "weight_ih_l0"),
    "another dtype": (changed("0/weight_ih_l0.npy", lambda array: array.astype(np.float64)), "weight_ih_l0 is float64"),
    "no .npy": (lambda members: {**members, "0/weight_ih_l0.npy": b"weights"}, "no .npy array"),
    "an array cut short": (
        lambda members: {**members, "0/weight_ih_l0.npy": members["0/weight_ih_l0.npy"][:-3]}, "177 are there",
    ),
    "no JSON": (lambda members: {**members, "rnnbridge.json": b"{"}, "damaged rnnbridge.json"),
    "another JSON": (told(lambda index: [1]), "damaged rnnbridge.json"),
    "a later version": (told(lambda index: index.update(version=2)), "version 2"),
    "an unknown row": (told(lambda index: index["layers"][0].update(row="npz.X")), "row 'npz.X'"),
    "another cell's row": (told(lambda index: index["layers"][0].update(row="npz.LSTM")), "row 'npz.LSTM'"),
    "an unknown field": (spec_change(colour=1), "colour"),
    "a broken spec": (spec_change(hidden_size="3"), "hidden_size"),
    "a clip that is a text": (spec_change(clip="much"), "damaged"),
    "a broken origin": (told(lambda index: index["layers"][0].update(origin={})), "damaged"),
    "two of one name": (told(twice), "two layers of one name"),
    "very many layers": (told(many_layers), "num_layers is 1000000000"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_broken_file_is_refused(case: str, tmp_path: Path) -> None:
    change, message = REFUSED[case]
    rewritten(tmp_path / "a.npz", change)
    with pytest.raises(rb.FormatError, match=message) as caught:
        rb.load(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(caught.value)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "touched",))

    buffer = io.BytesIO()
    np.save(buffer, np.array([Attack()], dtype=object), allow_pickle=True)
    rewritten(tmp_path / "a.npz", lambda members: {**members, "0/weight_ih_l0.npy": buffer.getvalue()})
    with pytest.raises(rb.FormatError, match="plain numbers"):
        rb.load(tmp_path / "a.npz")
    assert not (tmp_path / "touched").exists()


def test_a_foreign_file_is_named_as_such(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", W=np.ones((3, 5)))
    with pytest.raises(rb.FormatError, match="none of rnnbridge's"):
        rb.load(tmp_path / "a.npz")


def test_a_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0/zeros.npy", bytes(1 << 26))
    assert (tmp_path / "a.npz").stat().st_size < 1 << 18
    with pytest.raises(rb.FormatError, match="unfold to"):
        rb.load(tmp_path / "a.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("0/weight_ih_l0.npy", b"other")
    with pytest.raises(rb.FormatError, match="more than once"):
        rb.load(tmp_path / "a.npz")


def test_a_setting_that_is_no_truth_value_is_refused(tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.npz")
    with pytest.raises(rb.ArgumentError, match="true or false"):
        rb.load(tmp_path / "a.npz", settings={"self_check": "perhaps"})
