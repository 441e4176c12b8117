"""state_dicts in `.pt` and `.safetensors`: the same bits there and back, wherever in a model the layer is."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import JudgeTask, Settings, catalogue
from rnnbridge.proof.tolerance import expectation, max_abs_error
from rnnbridge.reference import forward
from rnnbridge.weights import Origin, RNNWeights
from tests.modules import CELLS, MODULES, module_of, same_bits, says, torch
from tests.samples import inputs_of, spec_of, weights_of

safetensors_torch = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
FORMATS = ("pytorch", "safetensors")
SUFFIX = {"pytorch": ".pt", "safetensors": ".safetensors"}
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
each_format = pytest.mark.parametrize("kind_of_file", FORMATS)


def save_with_framework(state: dict[str, Any], path: Path) -> Path:
    if path.suffix == ".safetensors":
        safetensors_torch.save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    else:
        torch.save(state, path)
    return path


def load_with_framework(path: Path) -> dict[str, Any]:
    return safetensors_torch.load_file(path) if path.suffix == ".safetensors" else torch.load(path, weights_only=True)


@each_format
@pytest.mark.parametrize(("kind", "arguments"), MODULES + CELLS)
def test_a_state_dict_comes_back_as_the_same_bits(
    kind: str, arguments: dict[str, Any], kind_of_file: str, tmp_path: Path
) -> None:
    module = module_of(kind, arguments)
    theirs = save_with_framework(module.state_dict(), tmp_path / f"theirs{SUFFIX[kind_of_file]}")
    bundle = rb.load(theirs, settings=says(arguments))
    assert list(bundle) == ["rnn"]
    assert bundle["rnn"] == rb.from_framework(module)
    ours = tmp_path / f"ours{SUFFIX[kind_of_file]}"
    written = rb.save(bundle, ours, batch_first=True)
    loaded = load_with_framework(ours)
    assert same_bits({name: loaded[name] for name in module.state_dict()}, dict(module.state_dict()))
    again = eval(written.layers[0].constructor, {"torch": torch})
    again.load_state_dict(loaded)
    assert type(again) is type(module)
    assert getattr(again, "batch_first", None) == (None if "Cell" in kind else True)
    assert rb.load(ours, settings=written.layers[0].settings)["rnn"] == bundle["rnn"]


@each_format
@pytest.mark.parametrize(("kind", "arguments"), MODULES[::5] + CELLS)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("lengths", [False, True])
def test_the_judge_runs_the_file(
    kind: str, arguments: dict[str, Any], kind_of_file: str, batch: int, lengths: bool, tmp_path: Path
) -> None:
    path = save_with_framework(module_of(kind, arguments).state_dict(), tmp_path / f"a{SUFFIX[kind_of_file]}")
    weights = rb.load(path, settings=says(arguments))["rnn"]
    given = inputs_of(weights.spec, batch, lengths=lengths)
    (judge,) = catalogue().formats[kind_of_file].judges
    sample = (given.x, given.h0, given.c0, given.lengths)
    theirs = judge.run(JudgeTask(path, "rnn", Settings(says(arguments)), weights, *sample))
    ours = forward(weights.spec, weights.arrays, *sample)._asdict()
    tolerance = expectation(weights.spec, weights.arrays, *sample).tolerance
    assert theirs.keys() == tolerance.keys()
    assert all(max_abs_error(array, ours[name]) <= tolerance[name] for name, array in theirs.items())


@each_format
def test_layers_are_found_inside_a_model_by_their_prefixes(kind_of_file: str, tmp_path: Path) -> None:
    parts = {"lstm": torch.nn.LSTM(5, 3, 2, bidirectional=True), "cell": torch.nn.GRUCell(3, 2)}
    encoder = torch.nn.ModuleDict({**parts, "norm": torch.nn.BatchNorm1d(3)})
    model = torch.nn.ModuleDict({"module": encoder, "attention": torch.nn.MultiheadAttention(4, 2)})
    path = save_with_framework(model.state_dict(), tmp_path / f"a{SUFFIX[kind_of_file]}")
    bundle = rb.load(path)
    assert sorted(bundle.layers) == ["module.cell", "module.lstm"]
    assert bundle["module.lstm"] == rb.from_framework(parts["lstm"])
    assert bundle["module.cell"] == rb.from_framework(parts["cell"])
    assert bundle["module.lstm"].origin.name == "module.lstm"
    others = {name for name in model.state_dict() if "lstm" not in name and "cell" not in name}
    assert set(bundle.tensors) == others
    assert bundle.tensors["module.norm.num_batches_tracked"].dtype == np.int64
    written = rb.save(bundle, tmp_path / f"b{SUFFIX[kind_of_file]}")
    assert set(written.not_converted) == others
    loaded = load_with_framework(tmp_path / f"b{SUFFIX[kind_of_file]}")
    assert set(loaded) == set(model.state_dict()) - others
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in loaded.items())


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_a_checkpoint_is_opened(key: str, zipped: bool, tmp_path: Path) -> None:
    module = torch.nn.ModuleDict({"rnn": torch.nn.GRU(5, 3)})
    optimizer = torch.optim.Adam(module.parameters())
    checkpoint = {"epoch": 3, key: module.state_dict(), "optimizer": optimizer.state_dict(), "ema": module.state_dict()}
    torch.save(checkpoint, tmp_path / "a.pth", _use_new_zipfile_serialization=zipped)
    bundle = rb.load(tmp_path / "a.pth")
    assert list(bundle) == ["rnn", "ema.rnn"]
    assert bundle["rnn"] == bundle["ema.rnn"] == rb.from_framework(module["rnn"])


def test_two_state_dicts_under_usual_keys_keep_their_keys(tmp_path: Path) -> None:
    torch.save(
        {"model": torch.nn.GRU(5, 3).state_dict(), "state_dict": torch.nn.LSTM(5, 3).state_dict()}, tmp_path / "a.pt"
    )
    assert sorted(rb.load(tmp_path / "a.pt")) == ["model", "state_dict"]


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_views_of_one_storage_are_read_at_their_offsets_and_strides(zipped: bool, tmp_path: Path) -> None:
    """What a GPU's flattened module saves, with a transposed and a stepped view besides."""
    module = module_of("LSTM", {"num_layers": 2, "bidirectional": True})
    state = module.state_dict()
    flat = torch.cat([tensor.reshape(-1) for tensor in state.values()])
    views, start = {}, 0
    for name, tensor in state.items():
        views[name] = flat[start : start + tensor.numel()].view(tensor.shape)
        start += tensor.numel()
    views["weight_hh_l0"] = state["weight_hh_l0"].T.contiguous().T
    views["bias_ih_l0"] = torch.stack([state["bias_ih_l0"], torch.zeros(12)], dim=1)[:, 0]
    assert not views["weight_hh_l0"].is_contiguous()
    torch.save(views, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    assert rb.load(tmp_path / "a.pt")["rnn"] == rb.from_framework(module)


@each_format
@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_narrow_numbers_come_back_as_the_same_bits(narrow: torch.dtype, kind_of_file: str, tmp_path: Path) -> None:
    state = module_of("GRU", {"num_layers": 2}, narrow).state_dict()
    state["bias_ih_l0"][:2] = torch.tensor([float("nan"), float("inf")], dtype=narrow)
    path = save_with_framework(state, tmp_path / f"a{SUFFIX[kind_of_file]}")
    weights = rb.load(path)["rnn"]
    assert (weights.dtype, f"torch.{weights.origin.storage_dtype}") == (np.float32, str(narrow))
    rb.save(weights, tmp_path / f"b{SUFFIX[kind_of_file]}")
    loaded = load_with_framework(tmp_path / f"b{SUFFIX[kind_of_file]}")
    assert same_bits({name: loaded[name] for name in state}, dict(state))


@each_format
def test_what_was_narrow_and_is_no_more_is_stored_in_full(kind_of_file: str, tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm"))
    changed = RNNWeights(weights.spec, weights.arrays, Origin(storage_dtype="bfloat16"))
    path = tmp_path / f"a{SUFFIX[kind_of_file]}"
    rb.save(changed, path)
    assert rb.load(path)["rnn"] == weights


@each_format
def test_the_same_layers_give_the_same_bytes(kind_of_file: str, tmp_path: Path) -> None:
    weights = rb.from_framework(module_of("LSTM", {"num_layers": 2, "proj_size": 2}))
    paths = [tmp_path / f"{name}{SUFFIX[kind_of_file]}" for name in ("one", "another")]
    for path in paths:
        rb.save(weights, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@each_format
def test_several_layers_get_names_that_modules_can_have(kind_of_file: str, tmp_path: Path) -> None:
    layers = {
        name: weights_of(spec_of("gru_after"), seed=seed)
        for seed, name in enumerate(["bidirectional/gru", "bidirectional.gru", "gru 1:0"])
    }
    written = rb.save(rb.Bundle(layers), tmp_path / f"a{SUFFIX[kind_of_file]}")
    assert [layer.target for layer in written.layers] == ["bidirectional_gru", "bidirectional_gru_", "gru_1_0"]
    bundle = rb.load(tmp_path / f"a{SUFFIX[kind_of_file]}")
    assert [bundle[layer.target] for layer in written.layers] == list(layers.values())


def test_the_metadata_say_what_a_state_dict_cannot(tmp_path: Path) -> None:
    spec = spec_of("rnn_relu", num_layers=2)
    weights = weights_of(spec).with_origin(batch_first=True)
    written = rb.save(weights, tmp_path / "a.safetensors")
    bundle = rb.load(tmp_path / "a.safetensors")
    assert bundle["rnn"] == weights
    assert bundle["rnn"].origin.batch_first is True
    assert not bundle["rnn"].origin.assumptions
    assert not written.layers[0].settings
    with safetensors_torch.safe_open(tmp_path / "a.safetensors", "pt") as file:
        assert file.metadata()["format"] == "pt"


def test_what_a_state_dict_does_not_say_is_assumed_and_can_be_set(tmp_path: Path) -> None:
    weights = weights_of(spec_of("rnn_relu")).with_origin(batch_first=True)
    written = rb.save(weights, tmp_path / "a.pt")
    assert written.layers[0].settings == {"nonlinearity": "relu", "batch_first": "true"}
    plain = rb.load(tmp_path / "a.pt")["rnn"]
    assert [str(one) for one in plain.spec.activations] == ["tanh"]
    assert [one.key for one in plain.origin.assumptions] == ["nonlinearity", "batch_first"]
    assert plain.origin.batch_first is None
    said = rb.load(tmp_path / "a.pt", settings=written.layers[0].settings)["rnn"]
    assert said == weights
    assert said.origin.batch_first is True
    with pytest.raises(rb.ArgumentError, match="tanh or relu"):
        rb.load(tmp_path / "a.pt", settings={"nonlinearity": "elu"})


def test_the_suffix_says_nothing_and_the_content_all(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(module_of("GRU", {}).state_dict(), buffer)
    (tmp_path / "model.bin").write_bytes(buffer.getvalue())
    (tmp_path / "model.h5").write_bytes(buffer.getvalue())
    assert rb.load(tmp_path / "model.bin")["rnn"] == rb.load(tmp_path / "model.h5")["rnn"]


def test_other_tensors_of_every_dtype_are_kept_or_named(tmp_path: Path) -> None:
    state = {
        **module_of("GRU", {}).state_dict(),
        "out.scale": torch.tensor([1 + 2j]).conj(),
        "out.mask": torch.tensor([True, False]),
        "out.half": torch.tensor([1.5], dtype=torch.bfloat16),
        "out.eighth": torch.tensor([1.5]).to(torch.float8_e4m3fn),
        "out.sparse": torch.eye(3).to_sparse(),
    }
    torch.save(state, tmp_path / "a.pt")
    bundle = rb.load(tmp_path / "a.pt")
    assert bundle.tensors["out.scale"][0] == 1 - 2j
    assert bundle.tensors["out.half"].tolist() == [1.5]
    assert sorted(set(state) - set(bundle.tensors) - set(module_of("GRU", {}).state_dict())) == [
        "out.eighth",
        "out.sparse",
    ]
    assert all(any(name in notice for notice in bundle.notices) for name in ("out.eighth", "out.sparse"))
