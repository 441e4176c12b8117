"""state_dicts that are not as they should be: each with an error that names the file, the layer and the array."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rnnbridge as rb
from tests.modules import module_of, torch
from tests.samples import spec_of, weights_of

safetensors_torch = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
State = dict[str, Any]


def without(*names: str) -> Callable[[State], State]:
    return lambda state: {name: tensor for name, tensor in state.items() if name not in names}


def with_(**changes: Any) -> Callable[[State], State]:
    return lambda state: {**state, **changes}


BROKEN: dict[str, tuple[str, dict[str, Any], Callable[[State], State], str]] = {
    "no recurrent bias": ("LSTM", {}, without("bias_hh_l0"), "bias_hh_l0"),
    "no input bias": ("GRU", {}, without("bias_ih_l0"), "bias_ih_l0"),
    "no recurrent weights": ("GRU", {}, without("weight_hh_l0"), "weight_hh_l0 is missing"),
    "no input weights": ("GRU", {}, without("weight_ih_l0"), "weight_ih"),
    "no upper recurrent weights": ("LSTM", {"num_layers": 2}, without("weight_hh_l1"), "weight_hh_l1 is missing"),
    "half a second direction": ("LSTM", {"bidirectional": True}, without("weight_hh_l0_reverse"), "hh_l0_reverse"),
    "no projection above": ("LSTM", {"num_layers": 2, "proj_size": 2}, without("weight_hr_l1"), "weight_hr_l1"),
    "a layer between": (
        "GRU", {"num_layers": 3},
        without("weight_ih_l1", "weight_hh_l1", "bias_ih_l1", "bias_hh_l1"), "layer 1 is missing",
    ),
    "an upper layer of another width": ("GRU", {"num_layers": 2}, with_(weight_ih_l1=torch.ones(9, 7)), "weight_ih_l1"),
    "another bias length": ("GRU", {}, with_(bias_hh_l0=torch.ones(7)), "bias_hh_l0"),
    "five gates": ("LSTM", {}, with_(weight_hh_l0=torch.ones(15, 3)), r"weight_hh_l0 is \[15, 3\]"),
    "no matrix": ("LSTM", {}, with_(weight_hh_l0=torch.ones(12)), r"weight_hh_l0 is \[12\]"),
    "no units": ("RNN", {}, with_(weight_hh_l0=torch.ones(0, 0)), r"weight_hh_l0 is \[0, 0\]"),
    "a bias on an upper layer only": (
        "GRU", {"num_layers": 2, "bias": False}, with_(bias_ih_l1=torch.ones(9)), "bias_ih_l1 left over",
    ),
    "whole numbers": ("GRU", {}, with_(weight_ih_l0=torch.ones(9, 5, dtype=torch.int32)), "weight_ih_l0 is int32"),
    "eight-bit floats": (
        "GRU", {}, with_(weight_ih_l0=torch.ones(9, 5).to(torch.float8_e5m2)), "weight_ih_l0 is (float8|F8)_",
    ),
    "weight_norm": (
        "GRU", {},
        lambda state: {f"{name}_g" if name == "weight_hh_l0" else name: tensor for name, tensor in state.items()},
        "(?s)weight_hh_l0 is missing.*weight_hh_l0_g.*weight_norm",
    ),
    "a layer of very many": ("GRU", {}, with_(weight_hh_l9999=torch.ones(9, 3)), "layer 1 is missing"),
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("case", BROKEN)
def test_an_incomplete_layer_names_the_array(case: str, suffix: str, tmp_path: Path) -> None:
    kind, arguments, change, message = BROKEN[case]
    state = change(dict(module_of(kind, arguments).state_dict()))
    path = tmp_path / f"a{suffix}"
    prefixed = {f"encoder.rnn.{name}": tensor.contiguous() for name, tensor in state.items()}
    torch.save(prefixed, path) if suffix == ".pt" else safetensors_torch.save_file(prefixed, path)
    with pytest.raises(rb.FormatError, match=message) as caught:
        rb.load(path)
    assert str(path) in str(caught.value)
    assert "encoder.rnn" in str(caught.value)


def test_arrays_beside_a_layer_are_noticed(tmp_path: Path) -> None:
    """A normalised cell of one's own looks like an LSTMCell, and is another function."""
    cell = {f"cell.{name}": tensor for name, tensor in module_of("LSTMCell", {}).state_dict().items()}
    torch.save({**cell, "cell.gamma_ih": torch.ones(12)}, tmp_path / "a.pt")
    bundle = rb.load(tmp_path / "a.pt")
    assert any("gamma_ih" in notice for notice in bundle.notices)
    assert list(bundle.tensors) == ["cell.gamma_ih"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "no recurrent layer"),
        ({"fc.weight": torch.ones(2)}, "no recurrent layer"),
        ([torch.ones(2)], "holds a list"),
        (torch.ones(2), "holds a Tensor"),
    ],
)
def test_a_file_without_a_layer(content: Any, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(rb.FormatError, match=message):
        rb.load(tmp_path / "a.pt")


def test_a_file_that_would_run_code_runs_none(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "touched",))

    for zipped in (True, False):
        torch.save({"weight_ih_l0": Attack()}, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
        with pytest.raises(rb.FormatError, match="no recurrent layer"):
            rb.load(tmp_path / "a.pt")
    assert not (tmp_path / "touched").exists()


def test_a_tensor_that_claims_more_than_its_file_is_refused(tmp_path: Path) -> None:
    torch.save({**module_of("GRU", {}).state_dict(), "huge": torch.zeros(1).expand(10**6, 10**6)}, tmp_path / "a.pt")
    with pytest.raises(rb.FormatError, match=r"huge.*far larger than the file"):
        rb.load(tmp_path / "a.pt")


def test_very_many_tensors_in_one_storage_are_refused(tmp_path: Path) -> None:
    shared = torch.zeros(10**5, dtype=torch.float16)
    torch.save({f"w{index}": shared.view(shared.shape) for index in range(500)}, tmp_path / "a.pt")
    with pytest.raises(rb.FormatError, match=r"w\d+ .*far larger than the file"):
        rb.load(tmp_path / "a.pt")


def save_pickled(path: Path, change: Callable[[bytes], bytes]) -> None:
    """A file of torch.save whose pickle is changed."""
    buffer = io.BytesIO()
    torch.save(module_of("GRU", {}).state_dict(), buffer)
    with zipfile.ZipFile(buffer) as plain, zipfile.ZipFile(path, "w") as changed:
        for name in plain.namelist():
            content = plain.read(name)
            changed.writestr(name, change(content) if name.endswith("data.pkl") else content)


FIRST = b"K\x00K\x09K\x05\x86q\x09K\x05K\x01\x86"  # weight_ih_l0: offset 0, (9, 5), strides (5, 1)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (b"K\x01" + FIRST[2:], "weight_ih_l0 ends at element 46 of a storage that has 45"),
        (FIRST.replace(b"K\x05K\x01", b"K\x06K\x01"), "weight_ih_l0 ends at element 53"),
        (b"J\xff\xff\xff\xff" + FIRST[2:], "size, stride or offset is -1"),
        (FIRST.replace(b"K\x05K\x01", b"J\xff\xff\xff\xffK\x01"), "size, stride or offset is -1"),
        (FIRST.replace(b"K\x09", b"J\xff\xff\xff\x7f"), "far larger"),
        (FIRST.replace(b"K\x09", b"\x8a\x0f" + b"\xff" * 14 + b"\x7f"), "size, stride or offset is"),
        (FIRST.replace(b"K\x05K\x01", b"K\x05\x88"), "size, stride or offset is True"),
        (FIRST.replace(b"K\x09K\x05\x86", b"K\x09\x85"), "1 sizes and 2 strides"),
    ],
)
def test_a_view_that_leaves_its_storage_is_refused(view: bytes, message: str, tmp_path: Path) -> None:
    def changed(content: bytes) -> bytes:
        assert content.count(FIRST) == 1
        return content.replace(FIRST, view)

    save_pickled(tmp_path / "a.pt", changed)
    with pytest.raises(rb.FormatError, match=message) as caught:
        rb.load(tmp_path / "a.pt")
    assert "a.pt" in str(caught.value)


def test_modules_that_contain_themselves_are_refused(tmp_path: Path) -> None:
    module = torch.nn.Module()
    module._modules["inner"] = module
    torch.save(module, tmp_path / "a.pt")
    with pytest.raises(rb.FormatError, match="without end"):
        rb.load(tmp_path / "a.pt")


def test_an_optimiser_with_cycles_does_no_harm(tmp_path: Path) -> None:
    state: dict[str, Any] = {"model": module_of("GRU", {}).state_dict()}
    state["again"] = state
    torch.save(state, tmp_path / "a.pt")
    assert "rnn" in rb.load(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("key", "value"), [("hidden_size", 7), ("direction", "bidirectional"), ("bias", "none"), ("cell", "rnn")]
)
def test_metadata_that_the_arrays_contradict_are_refused(key: str, value: Any, tmp_path: Path) -> None:
    weights = weights_of(spec_of("lstm"))
    rb.save(weights, tmp_path / "a.safetensors")
    told = {**weights.spec.to_dict(), key: value} | ({"activations": ["tanh"]} if value == "rnn" else {})
    save_told(tmp_path / "a.safetensors", {"version": 1, "layers": {"rnn": {"spec": told, "batch_first": None}}})
    with pytest.raises(rb.FormatError, match=f"metadata contradict.*{key} is {value!r} there"):
        rb.load(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("[", "damaged metadata"),
        ([], "damaged metadata"),
        ({"version": 2}, "version 2"),
        ({"version": 1, "layers": {"rnn": {"spec": {}, "batch_first": None}}}, "damaged metadata"),
        ({"version": 1, "layers": {"rnn": {"spec": "LSTM", "batch_first": None}}}, "damaged metadata"),
        ({"version": 1, "layers": {"rnn": {"spec": spec_of("lstm").to_dict(), "batch_first": 3}}}, "batch_first is 3"),
    ],
)
def test_damaged_metadata_are_refused(told: Any, message: str, tmp_path: Path) -> None:
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.safetensors")
    save_told(tmp_path / "a.safetensors", told)
    with pytest.raises(rb.FormatError, match=message):
        rb.load(tmp_path / "a.safetensors")


def test_metadata_of_layers_that_were_taken_out_are_noticed(tmp_path: Path) -> None:
    rb.save(rb.Bundle({name: weights_of(spec_of("lstm")) for name in ("a", "b")}), tmp_path / "a.safetensors")
    with safetensors_torch.safe_open(tmp_path / "a.safetensors", "pt") as file:
        metadata = file.metadata()
        kept = {name: file.get_tensor(name) for name in file.keys() if name.startswith("a.")}  # noqa: SIM118
    safetensors_torch.save_file(kept, tmp_path / "b.safetensors", metadata)
    bundle = rb.load(tmp_path / "b.safetensors")
    assert list(bundle) == ["a"]
    assert any("'b'" in notice for notice in bundle.notices)


def save_told(path: Path, told: Any) -> None:
    text = told if isinstance(told, str) else json.dumps(told)
    safetensors_torch.save_file(safetensors_torch.load_file(path), path, {"rnnbridge": text})


def test_nothing_is_written_where_pytorch_cannot_hold_a_layer(tmp_path: Path) -> None:
    layers = {"good": weights_of(spec_of("lstm")), "bad": weights_of(spec_of("gru_before"))}
    for name in ("a.pt", "a.safetensors"):
        with pytest.raises(rb.Incompatible, match="layer 'bad'") as caught:
            rb.save(rb.Bundle(layers), tmp_path / name)
        assert any("reset gate before" in reason for reason in caught.value.reasons)
    assert not list(tmp_path.iterdir())


def test_without_torch_files_are_read_and_the_line_to_type_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.pt")
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.safetensors")
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for name in ("a.pt", "a.safetensors"):
        assert rb.load(tmp_path / name)["rnn"] == weights_of(spec_of("lstm"))
    with pytest.raises(rb.MissingExtraError, match=r"pip install 'rnnbridge\[pytorch\]'$"):
        rb.save(weights_of(spec_of("lstm")), tmp_path / "b.pt")
