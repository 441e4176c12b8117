"""TensorFlow 1's files: what TensorFlow 1.15.5 wrote gives its own numbers, and what is written comes back.

None of it needs TensorFlow; TensorFlow 2 reads what is written in test_tensorflow_written.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.tensorflow_facts import facts_of
from rnnbridge.converters.tensorflow_graph import read_frozen, read_meta
from rnnbridge.files.protobuf import chunk, encoded
from rnnbridge.files.tensor_bundle import TensorBundle, bundle_arrays, bundle_bytes, shard_of
from rnnbridge.files.zip import npy_bytes, write_members
from rnnbridge.proof.tolerance import expectation
from tests.samples import spec_of, weights_of

GOLDEN = Path(__file__).parent / "golden" / "tensorflow-1.15.5"
# File -> what must be set, because no graph lies beside it.
FILES: dict[str, dict[str, str]] = {
    "lstm.ckpt": {},
    "gru.ckpt": {"relu.activation": "relu"},
    "cudnn.ckpt": {},
    "parts.ckpt": {"activation": "relu"},
    "frozen.pb": {},
    "saved": {},
}


def load(name: str, **settings: str) -> rb.Bundle:
    return rb.load(GOLDEN / name, settings={**FILES[name], **settings})


def expected(name: str) -> dict[str, dict[str, np.ndarray]]:
    """Layer -> what -> array, as TensorFlow answered; "y|731" with lengths 7, 3, 1."""
    found: dict[str, dict[str, np.ndarray]] = {}
    with np.load(GOLDEN / f"{name.split('.')[0]}.expected.npz") as arrays:
        for key in arrays.files:
            layer, _, what = key.partition("|")
            found.setdefault(layer, {})[what] = arrays[key]
    return found


@pytest.mark.parametrize("lengths", [None, [7, 3, 1], [7, 0, 3]], ids=str)
@pytest.mark.parametrize("name", FILES)
def test_tensorflows_own_numbers_come_out(name: str, lengths: list[int] | None) -> None:
    bundle, answers = load(name), expected(name)
    assert set(bundle) == set(answers)
    end = "" if lengths is None else "|" + "".join(map(str, lengths))
    for layer, answer in answers.items():
        weights = bundle[layer]
        order = ("c", "h") if weights.spec.cell == "lstm" else ("h",)
        states = {state: answer[f"state{place}"] for place, state in enumerate(order)}
        given = None if lengths is None else np.array(lengths)
        exact, allowed = expectation(weights.spec, weights.arrays, answer["x"], states["h"], states.get("c"), given)
        theirs = {"y": answer[f"y{end}"], **{state: answer[f"final{k}{end}"] for k, state in enumerate(order)}}
        for what, tolerance in allowed.items():
            assert np.abs(exact[what] - theirs[what]).max() <= tolerance, (layer, what)


def test_the_graph_says_what_a_checkpoint_does_not() -> None:
    bundle = load("lstm.ckpt")
    said = {name: (w.origin.convention, w.spec.cell_clip, w.spec.proj_clip) for name, w in bundle.layers.items()}
    assert said == {
        "plain": ("tensorflow.BasicLSTMCell", None, None),
        "full": ("tensorflow.LSTMCell", 0.5, 0.25),
        "block": ("tensorflow.LSTMBlockCell", None, None),
        "fused": ("tensorflow.LSTMBlockFusedCell", 0.375, None),
        "renamed": ("tensorflow.LSTMCell", None, None),
    }
    assert str(bundle["full"].spec.activations[-1]) == "relu"
    assert "its graph adds a forget bias of -0.5" in bundle["renamed"].origin.evidence
    assert [one.key for one in bundle["full"].origin.assumptions] == ["batch_first"]
    assert list(bundle.tensors) == ["dense/bias", "dense/kernel"]


def copied(name: str, folder: Path, *, graph: bool) -> Path:
    for path in GOLDEN.glob(f"{name}.*"):
        if graph or path.suffix != ".meta":
            shutil.copy(path, folder)
    return folder / f"{name}.index"


def test_a_forget_bias_is_asked_for_and_never_assumed(tmp_path: Path) -> None:
    path = copied("lstm.ckpt", tmp_path, graph=False)
    with pytest.raises(rb.FormatError, match=r"layer 'block': its forget bias .* set forget_bias"):
        rb.load(path)
    said = {"plain": "1", "full": "0.75", "fused": "2", "block": "0.25"}
    clips = {"full.cell_clip": "0.5", "full.proj_clip": "0.25", "fused.cell_clip": "0.375", "full.activation": "relu"}
    alone = rb.load(path, settings={**{f"{name}.forget_bias": one for name, one in said.items()}, **clips})
    whole = load("lstm.ckpt")
    assert "renamed" not in alone  # nothing says that the variables in a scope of that name are a cell's
    assert all(alone[name] == whole[name] for name in said)
    unset = rb.load(path, settings={"forget_bias": "1"})["full"].origin.assumptions
    assert {one.key: one.value for one in unset} == {
        "cell_clip": "0", "proj_clip": "0", "activation": "tanh", "batch_first": "true",
    }  # fmt: skip


def test_cells_of_cudnns_need_no_forget_bias() -> None:
    assert load("cudnn.ckpt")["both/stack_bidirectional_rnn"].spec.num_layers == 2
    changed = load("cudnn.ckpt", forget_bias="1")["both/stack_bidirectional_rnn"]
    hidden = changed.spec.hidden_size
    moved = changed.arrays["bias_ih_l1"] - load("cudnn.ckpt")["both/stack_bidirectional_rnn"].arrays["bias_ih_l1"]
    assert np.allclose(moved.reshape(4, hidden), np.array([0, 1, 0, 0])[:, None], atol=2**-22)


def test_a_name_stands_for_the_files_of_a_checkpoint() -> None:
    for name, stem in (("lstm.ckpt", "lstm.ckpt.index"), ("saved", "saved/saved_model.pb")):
        bundle = load(name)
        assert bundle.path == GOLDEN / stem
        assert all(bundle[layer] == weights for layer, weights in rb.load(GOLDEN / stem).layers.items())
    inside = rb.load(GOLDEN / "saved" / "variables" / "variables.index")
    assert inside["full"] == load("saved")["full"]
    with pytest.raises(rb.FileAccessError, match="No such file"):
        rb.load(GOLDEN / "other.ckpt")


def arrays_of(name: str) -> dict[str, np.ndarray]:
    return dict(bundle_arrays(TensorBundle(GOLDEN / f"{name}.index")))


def saved(arrays: dict[str, np.ndarray], path: Path) -> Path:
    index, shard = bundle_bytes(arrays)
    path.write_bytes(index)
    shard_of(path, 0, 1).write_bytes(shard)
    return path


@pytest.mark.parametrize("cell", ["lstm", "gru_before", "gru_after", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("name", ["a.ckpt.index", "a.tf.npz"])
def test_there_and_back_gives_the_same_bits(
    cell: str, direction: str, num_layers: int, name: str, tmp_path: Path
) -> None:
    bias = "double" if cell == "gru_after" else "single"
    weights = weights_of(spec_of(cell, num_layers=num_layers, direction=direction, bias=bias), dtype="float64")
    weights = weights.with_origin(batch_first=False)
    if cell == "gru_after":  # the reset and update gates have one bias in TensorFlow
        hidden = weights.spec.hidden_size
        zeroed = {
            name: np.r_[np.zeros(2 * hidden), array[2 * hidden :]]
            for name, array in weights.arrays.items()
            if array.ndim == 1
        }
        kept = {name: zeroed[name] if "bias_hh" in name else array for name, array in weights.arrays.items()}
        weights = rb.RNNWeights(weights.spec, kept, weights.origin)
    written = rb.save(weights, tmp_path / name)
    again = rb.load(tmp_path / name, settings=written.layers[0].settings)
    assert again["rnn"] == weights
    assert again["rnn"].origin.batch_first is False
    report = rb.convert(tmp_path / name, tmp_path / "b.npz", settings=written.layers[0].settings)
    assert report.ok


def test_peepholes_projections_and_clips_are_written(tmp_path: Path) -> None:
    bundle = load("lstm.ckpt")
    written = rb.save(bundle, tmp_path / "a.ckpt.index")
    settings = {f"{one.target}.{key}": value for one in written.layers for key, value in one.settings.items()}
    again = rb.load(tmp_path / "a.ckpt", settings=settings)
    assert all(again[name] == weights for name, weights in bundle.layers.items())
    lines = {one.source: one.constructor for one in written.layers}
    assert lines["full"] == (
        "tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(3, use_peepholes=True, num_proj=2, "
        "cell_clip=0.5, proj_clip=0.25, forget_bias=0.0, activation=tf.nn.relu) for _ in range(2)]), x, "
        "dtype=tf.float32, scope='full')"
    )
    theirs, ours = arrays_of("lstm.ckpt"), dict(bundle_arrays(TensorBundle(tmp_path / "a.ckpt.index")))
    names = {name.replace("basic_lstm_cell", "lstm_cell").replace("encoder", "lstm_cell") for name in theirs}
    assert {name.replace("fused_cell", "cell") for name in names} == {*ours, "dense/bias", "dense/kernel"}


def test_a_forget_bias_can_be_set_when_writing(tmp_path: Path) -> None:
    bundle = load("lstm.ckpt")
    written = rb.save(bundle, tmp_path / "a.ckpt.index", settings={"plain.forget_bias": "1"})
    plain = next(one for one in written.layers if one.source == "plain")
    assert plain.settings["forget_bias"] == "1.0"
    assert [step.name for step in plain.plan.steps] == ["fold forget bias"]
    ours = dict(bundle_arrays(TensorBundle(tmp_path / "a.ckpt.index")))
    theirs = arrays_of("lstm.ckpt")["plain/fw/basic_lstm_cell/bias"]
    assert np.array_equal(ours["plain/fw/lstm_cell/bias"], theirs)
    with pytest.raises(rb.ArgumentError, match="forget_bias='much'"):
        rb.save(bundle, tmp_path / "b.ckpt.index", settings={"forget_bias": "much"})


def test_what_tensorflow_cannot_hold_is_refused(tmp_path: Path) -> None:
    for weights, reason in (
        (weights_of(spec_of("lstm", direction="reverse")), "reverse"),
        (weights_of(spec_of("gru_after", bias="double"), dtype="float32").with_origin(name="a"), ""),
        (load("gru.ckpt")["inside/bw"], "reverse"),
    ):
        if not reason:
            step = rb.save(weights, tmp_path / "c.ckpt.index").layers[0].plan.steps[0]
            assert str(step) == "merge biases: bias_ih + bias_hh of gates r z"
            continue
        with pytest.raises(rb.Incompatible) as caught:
            rb.save(weights, tmp_path / "a.ckpt.index")
        assert any(reason in one for one in caught.value.reasons), caught.value.reasons
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.ckpt.data-00000-of-00001", "c.ckpt.index"]


def test_both_files_are_there_or_none(tmp_path: Path) -> None:
    rb.save(load("cudnn.ckpt"), tmp_path / "a.ckpt.index")
    (tmp_path / "a.ckpt.index").unlink()
    content = (tmp_path / "a.ckpt.data-00000-of-00001").read_bytes()
    with pytest.raises(rb.TargetExistsError, match="data-00000-of-00001 exists"):
        rb.save(load("saved"), tmp_path / "a.ckpt.index")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]
    rb.save(load("saved"), tmp_path / "a.ckpt.index", overwrite=True)
    assert len(list(tmp_path.iterdir())) == 2


def test_half_precision_comes_back_as_the_same_bits(tmp_path: Path) -> None:
    arrays = {name: array.astype(np.float16) for name, array in arrays_of("cudnn.ckpt").items()}
    bundle = rb.load(saved(arrays, tmp_path / "a.ckpt.index"))
    assert bundle["one/rnn"].origin.storage_dtype == "float16"
    rb.save(bundle, tmp_path / "b.ckpt.index")
    again = TensorBundle(tmp_path / "b.ckpt.index")
    assert all(again.array(name).tobytes() == arrays[name].tobytes() for name in again.names if "one" in name)


def test_arrays_under_the_names_of_a_checkpoint(tmp_path: Path) -> None:
    """As numpy.savez writes what a program read out of a session."""
    np.savez(tmp_path / "a.npz", **arrays_of("gru.ckpt"))
    bundle = rb.load(tmp_path / "a.npz", settings=FILES["gru.ckpt"])
    assert bundle.format == "tensorflow-npz"
    assert all(bundle[name] == weights for name, weights in load("gru.ckpt").layers.items())
    write_members(tmp_path / "b.npz", {"x/y.npy": npy_bytes(np.zeros(3))})
    with pytest.raises(rb.FormatError, match="none of rnnbridge's"):
        rb.load(tmp_path / "b.npz")


def test_leaves_of_before_1_2_and_other_variables_beside(tmp_path: Path) -> None:
    """Adam's slots have names that begin as the variables do."""
    arrays = arrays_of("gru.ckpt")
    older = {name.replace("/kernel", "/weights").replace("/bias", "/biases"): array for name, array in arrays.items()}
    slots = {f"{name}/Adam": array for name, array in older.items()}
    bundle = rb.load(saved({**older, **slots}, tmp_path / "a.ckpt.index"), settings=FILES["gru.ckpt"])
    assert all(bundle[name] == weights for name, weights in load("gru.ckpt").layers.items())
    assert len(bundle.tensors) == len(slots) + 2


def test_cells_that_do_not_stack_are_layers_of_their_own(tmp_path: Path) -> None:
    arrays = {name: array for name, array in arrays_of("gru.ckpt").items() if name.startswith("elman")}
    rng = np.random.default_rng(1)
    wider = rng.standard_normal((3 + 7, 7)).astype(np.float32), rng.standard_normal(7).astype(np.float32)
    place = "elman/multi_rnn_cell/cell_1/basic_rnn_cell"
    arrays |= {f"{place}/kernel": wider[0], f"{place}/bias": wider[1]}
    bundle = rb.load(saved(arrays, tmp_path / "a.ckpt.index"))
    assert {name: weights.spec.hidden_size for name, weights in bundle.layers.items()} == {
        "elman/cell_0": 3, "elman/cell_1": 7,
    }  # fmt: skip
    skipping = {name.replace("cell_1", "cell_4"): array for name, array in arrays.items()}
    bundle = rb.load(saved(skipping, tmp_path / "b.ckpt.index"))
    assert set(bundle) == {place, place.replace("cell_1", "cell_0")} - {place} | {place.replace("cell_1", "cell_4")}


def test_a_cell_that_is_not_read_is_named(tmp_path: Path) -> None:
    arrays = arrays_of("cudnn.ckpt") | {"a/layer_norm_basic_lstm_cell_1/kernel": np.ones((5, 12), np.float32)}
    bundle = rb.load(saved(arrays, tmp_path / "a.ckpt.index"))
    assert bundle.notices == ("a/layer_norm_basic_lstm_cell_1 is a cell that no RNNSpec describes; it is left out",)


@pytest.mark.parametrize("cell", ["lstm", "gru_after", "rnn_relu"])
def test_an_opaque_kernel_is_cudnns_buffer(cell: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of(cell, num_layers=2, direction="bidirectional", bias="double"))
    settings = {"bias_mode": "double"}
    rb.save(weights, tmp_path / "a.cudnn.npy", settings=settings)
    vector = np.load(tmp_path / "a.cudnn.npy")
    path = saved({"words/opaque_kernel": vector}, tmp_path / "a.ckpt.index")
    with pytest.raises(rb.FormatError, match=r"layer 'words': a vector of \d+ numbers does not say what it holds"):
        rb.load(path)
    said = {"cell": weights.spec.cell, "hidden_size": "3", "num_layers": "2", "bidirectional": "true"}
    said |= {"activation": "relu"} if cell == "rnn_relu" else {}
    read = rb.load(path, settings=said)["words"]
    assert read == weights
    assert read.origin.batch_first is False


def test_canonical_variables_are_read_in_place_of_the_opaque_one(tmp_path: Path) -> None:
    """A Saver writes both; the canonical ones need nothing to be set."""
    arrays = arrays_of("cudnn.ckpt") | {"both/opaque_kernel": np.ones(17, np.float32)}
    bundle = rb.load(saved(arrays, tmp_path / "a.ckpt.index"))
    assert bundle.layers == load("cudnn.ckpt").layers
    assert "both/opaque_kernel" in bundle.tensors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relu/gru_cell/gates/bias": None}, "no 0/fw/gates/bias among"),
        ({"relu/gru_cell/candidate/kernel": np.ones((8, 5), np.float32)}, r"candidate/kernel"),
        ({"relu/gru_cell/gates/kernel": np.ones((2, 6), np.float32)}, "layer 'relu'"),
        ({"relu/gru_cell/kernel": np.ones((8, 5), np.float32)}, "relu/gru_cell/kernel left over"),
    ],
)
def test_an_incomplete_layer_names_the_variable(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    arrays = {name: array for name, array in {**arrays_of("gru.ckpt"), **changes}.items() if array is not None}
    with pytest.raises(rb.FormatError, match=message) as caught:
        rb.load(saved(arrays, tmp_path / "a.ckpt.index"))
    assert "layer 'relu'" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"forget_bias": "one"}, "forget_bias='one'; it is a number"),
        ({"forget_bias": "1", "cell_clip": "-1"}, "cell_clip='-1'; it is a number, 0 for none"),
        ({"forget_bias": "1", "activation": "swish"}, "activation='swish'; it is tanh"),
        ({"forget_bias": "1", "clip": "1"}, "nothing here takes the setting 'clip'"),
    ],
)
def test_settings_that_are_none(settings: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(rb.ArgumentError, match=message):
        rb.load(copied("lstm.ckpt", tmp_path, graph=False), settings=settings)


def test_a_graph_that_says_two_things_is_asked_about(tmp_path: Path) -> None:
    """The forward cell's bias of `plain` is changed in the graph: its two directions can be no layer of one row."""
    path = copied("lstm.ckpt", tmp_path, graph=True)
    meta = path.with_name("lstm.ckpt.meta")
    content = meta.read_bytes()
    one = np.float32(1).tobytes()
    graph = read_meta(meta)
    (node,) = [n for n in graph.nodes.values() if n.name.startswith("plain/fw/") and graph.scalar(n) == 1]
    place = content.index(one, content.index(node.name.encode() + b"\x12"))
    meta.write_bytes(content[:place] + np.float32(3).tobytes() + content[place + 4 :])
    with pytest.raises(rb.FormatError, match=r"layer 'plain': the graph has its cells with forget_bias 1.0 and 3.0"):
        rb.load(path)
    assert rb.load(path, settings={"plain.forget_bias": "1"})["plain"] == load("lstm.ckpt")["plain"]


def test_graphs_are_read_as_they_are() -> None:
    frozen = read_frozen(GOLDEN / "frozen.pb")
    assert frozen.nodes["relu/gru_cell/gates/kernel"].op == "Const"
    array = frozen.constant(frozen.nodes["relu/gru_cell/gates/kernel"])
    assert array is not None
    assert array.shape == (8, 6)
    meta = read_meta(GOLDEN / "lstm.ckpt.meta")
    assert meta.nodes["fused/lstm_fused_cell/BlockLSTM"].real("forget_bias", 1.0) == 2.0


def node(name: str, op: str, *inputs: str, **numbers: int) -> bytes:
    """A NodeDef with whole numbers as attributes, as a field of a GraphDef."""
    whole = {key: chunk(2, encoded(3 << 3, number)) for key, number in numbers.items()}
    attributes = b"".join(chunk(5, chunk(1, key.encode()) + value) for key, value in whole.items())
    return chunk(1, chunk(1, name.encode()) + chunk(2, op.encode()) + chunk_each(3, inputs) + attributes)


def chunk_each(field: int, texts: tuple[str, ...]) -> bytes:
    return b"".join(chunk(field, text.encode()) for text in texts)


@pytest.mark.parametrize("cell", [True, False])
def test_a_product_that_is_split_into_four_is_a_cell_if_gates_follow(cell: bool, tmp_path: Path) -> None:
    after = "Sigmoid" if cell else "Tanh"
    nodes = [
        node("a/kernel", "VariableV2"), node("a/kernel/read", "Identity", "a/kernel"), node("x", "Placeholder"),
        node("m", "MatMul", "x", "a/kernel/read"), node("b", "Placeholder"), node("s", "BiasAdd", "m", "b"),
        node("split", "Split", "axis", "s", num_split=4), node("i", after, "split"), node("o", after, "split:3"),
    ]  # fmt: skip
    (tmp_path / "a.pb").write_bytes(b"".join(nodes))
    found = facts_of(read_frozen(tmp_path / "a.pb"))
    assert ({one.kind for said in found.values() for one in said} == {"split"}) is cell
