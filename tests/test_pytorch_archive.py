"""`.pt` files read without torch: the same bits as torch itself reads, for every kind of file that torch writes."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.pytorch_archive import open_archive
from rnnbridge.converters.pytorch_contents import state_of
from tests.modules import module_of, torch

Tensors = dict[str, Any]
ZIPPED = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
NARROW = (torch.float16, torch.bfloat16)
DTYPES = [
    torch.float64, torch.float32, *NARROW, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.complex128, torch.complex64,
]  # fmt: skip
WITHOUT_A_STORAGE_CLASS = [torch.uint16, torch.uint32, torch.uint64]


def every_dtype() -> Tensors:
    numbers = torch.arange(-7, 8).reshape(3, 5)
    return {str(dtype): numbers.to(dtype) for dtype in DTYPES}


def views() -> Tensors:
    flat = torch.randn(211, generator=torch.Generator().manual_seed(3))
    pairs = torch.view_as_complex(torch.randn(5, 2, generator=torch.Generator().manual_seed(7)))
    return {
        "offset": flat[13:31].view(3, 6),
        "transposed": flat[31:61].view(5, 6).T,
        "stepped": flat[1::7],
        "expanded": flat[3].expand(5, 2),
        "overlapping": flat.as_strided((5, 3), (2, 1), 17),
        "empty": flat[:0].view(0, 3),
        "scalar": flat[7],
        "conjugated": pairs.conj(),
        "negated": flat[:5].clone()._neg_view(),
        "channels last": flat[:48].view(2, 3, 2, 4).to(memory_format=torch.channels_last),
    }


def parameters() -> Tensors:
    return dict(module_of("LSTM", {"num_layers": 2, "bidirectional": True}).named_parameters())


def special() -> Tensors:
    return {"nan": torch.tensor([float("nan"), -0.0, float("-inf"), 1e-42]), "ünïcode £": torch.ones(2)}


ZOO: dict[str, Callable[[], Tensors]] = {
    "dtypes": every_dtype, "views": views, "parameters": parameters, "special": special,
}  # fmt: skip


def bits_of(tensor: Any) -> np.ndarray:
    plain = tensor.detach().resolve_conj().resolve_neg()
    return np.ascontiguousarray((plain.float() if plain.dtype in NARROW else plain).numpy())


def assert_as_torch_reads(path: Path, tensors: Tensors) -> None:
    state, _ = state_of(open_archive(path))
    assert list(state.arrays) == list(tensors)
    for name, tensor in tensors.items():
        array, wanted = state.arrays[name], bits_of(tensor)
        assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape), name
        assert array.tobytes() == wanted.tobytes(), name
        assert state.narrow.get(name) == (str(tensor.dtype).removeprefix("torch.") if tensor.dtype in NARROW else None)


@ZIPPED
@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("case", ZOO)
def test_torchs_own_bits(case: str, protocol: int, zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(ZOO[case](), path, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    assert_as_torch_reads(path, torch.load(path, weights_only=False))


def test_dtypes_without_a_storage_class(tmp_path: Path) -> None:
    tensors = {str(dtype): torch.arange(5).to(dtype) for dtype in WITHOUT_A_STORAGE_CLASS}
    torch.save(tensors, tmp_path / "a.pt")
    assert_as_torch_reads(tmp_path / "a.pt", torch.load(tmp_path / "a.pt", weights_only=True))


def test_a_big_endian_file(tmp_path: Path) -> None:
    """torch writes none on this machine, and reads them: its bytes turned round are one."""
    numbers = {"double": torch.arange(7.0, dtype=torch.float64), "half": torch.arange(5).to(torch.float16)}
    buffer = io.BytesIO()
    torch.save(numbers, buffer)
    with zipfile.ZipFile(buffer) as little, zipfile.ZipFile(tmp_path / "a.pt", "w") as big:
        for name in little.namelist():
            content = little.read(name)
            if name.endswith("byteorder"):
                content = b"big"
            if "/data/" in name:
                content = np.frombuffer(content, "<f8" if name.endswith("/0") else "<f2").byteswap().tobytes()
            big.writestr(name, content)
    theirs = torch.load(tmp_path / "a.pt", weights_only=True)
    assert theirs["double"].tolist() == numbers["double"].tolist()
    assert_as_torch_reads(tmp_path / "a.pt", theirs)


def test_a_view_of_a_storage_as_old_files_have_it(tmp_path: Path) -> None:
    """PyTorch 0.x wrote storages that begin inside another; torch still reads them."""
    buffer = io.BytesIO()
    torch.save({"a": torch.arange(8.0)[:6]}, buffer, _use_new_zipfile_serialization=False)
    before, after = b"K\x08Ntq", b"K\x08(X\x01\x00\x00\x00vK\x02K\x06ttq"  # None, and ("v", 2, 6)
    assert buffer.getvalue().count(before) == 1
    (tmp_path / "a.pt").write_bytes(buffer.getvalue().replace(before, after))
    theirs = torch.load(tmp_path / "a.pt", weights_only=True)
    assert theirs["a"].tolist() == [2, 3, 4, 5, 6, 7]
    assert_as_torch_reads(tmp_path / "a.pt", theirs)


def test_a_file_without_checksums(tmp_path: Path) -> None:
    computed = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(parameters(), tmp_path / "a.pt")
    finally:
        torch.serialization.set_crc32_options(computed)
    assert_as_torch_reads(tmp_path / "a.pt", torch.load(tmp_path / "a.pt", weights_only=True))


class Wrapped(torch.nn.Module):
    """A model of a class that no reader of its file knows."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = module_of("RNN", {"nonlinearity": "relu", "batch_first": True, "num_layers": 2})
        self.again = self.encoder
        self.cell = module_of("RNNCell", {"nonlinearity": "relu"})
        self.register_buffer("kept", torch.arange(5))
        self.register_buffer("unsaved", torch.arange(3), persistent=False)
        self.hyper = {"callback": sys.intern, "sizes": {2, 3}}


@ZIPPED
@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code:UserWarning")
def test_a_whole_module_has_its_state_dicts_arrays_and_says_what_it_computes(zipped: bool, tmp_path: Path) -> None:
    module = Wrapped()
    torch.save(module, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    assert_as_torch_reads(tmp_path / "a.pt", dict(module.state_dict()))
    bundle = rb.load(tmp_path / "a.pt")
    assert list(bundle) == ["encoder", "again", "cell"]
    for name in bundle:
        assert bundle[name] == rb.from_framework(getattr(module, name))
        assert not bundle[name].origin.assumptions
    assert bundle["encoder"].origin.batch_first is True
    assert list(bundle.tensors) == ["kept"]


@ZIPPED
def test_a_bare_module_and_one_in_a_checkpoint(zipped: bool, tmp_path: Path) -> None:
    module = module_of("LSTM", {"proj_size": 2})
    for held, name in ((module, "rnn"), ({"model": module, "epoch": 3}, "rnn"), ({"net": module}, "net")):
        torch.save(held, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
        bundle = rb.load(tmp_path / "a.pt")
        assert list(bundle) == [name]
        assert bundle[name] == rb.from_framework(module)


def test_a_checkpoint_of_lightning_with_objects_in_it(tmp_path: Path) -> None:
    module = torch.nn.ModuleDict({"model": torch.nn.ModuleDict({"rnn": module_of("GRU", {"num_layers": 2})})})
    checkpoint = {
        "epoch": 3,
        "pytorch-lightning_version": "2.1.0",
        "state_dict": module.state_dict(),
        "callbacks": {"ModelCheckpoint": {"best": Path("a"), "score": torch.tensor(0.5)}},
        "optimizer_states": [torch.optim.Adam(module.parameters()).state_dict()],
        "hyper_parameters": {"activation": torch.nn.ReLU(), "path": Path("b")},
    }
    torch.save(checkpoint, tmp_path / "last.ckpt")
    bundle = rb.load(tmp_path / "last.ckpt")
    assert list(bundle) == ["model.rnn"]
    assert bundle["model.rnn"] == rb.from_framework(module["model"]["rnn"])


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "LSTMCell"])
def test_torchscript_has_its_state_dicts_arrays(kind: str, tmp_path: Path) -> None:
    model = torch.nn.ModuleDict({"encoder": module_of(kind, {})})
    inner = torch.nn.Sequential(model["encoder"])
    torch.jit.save(torch.jit.script(inner), tmp_path / "a.pt")
    assert_as_torch_reads(tmp_path / "a.pt", dict(torch.jit.load(tmp_path / "a.pt").state_dict()))
    bundle = rb.load(tmp_path / "a.pt")
    assert list(bundle) == ["0"]
    assert bundle["0"] == rb.from_framework(model["encoder"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("whole", [True, False], ids=["module", "state_dict"])
def test_a_quantised_rnn_is_refused_by_name(kind: str, whole: bool, tmp_path: Path) -> None:
    plain = torch.nn.Sequential(module_of(kind, {}))
    module = torch.ao.quantization.quantize_dynamic(plain, {getattr(torch.nn, kind)}, dtype=torch.qint8)
    torch.save(module if whole else module.state_dict(), tmp_path / "a.pt")
    with pytest.raises(rb.FormatError, match=r"a\.pt: 0.*quantised"):
        rb.load(tmp_path / "a.pt")


@pytest.mark.parametrize("wrapper", ["module.", ""], ids=["fastai", "awd-lstm"])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_weight_drops_raw_weights_are_the_weights(wrapper: str, suffix: str, tmp_path: Path) -> None:
    """fastai keeps the raw weights beside the wrapped module, AWD-LSTM in it; a dropped copy may lie there too."""
    module = module_of("LSTM", {"num_layers": 2})
    state = {f"rnns.0.{wrapper}{name}": tensor.clone() for name, tensor in module.state_dict().items()}
    for layer in range(2):
        name = f"rnns.0.{wrapper}weight_hh_l{layer}"
        state[f"rnns.0.weight_hh_l{layer}_raw"] = state[name].clone()
        state[name] = torch.zeros_like(state[name])
    del state[f"rnns.0.{wrapper}weight_hh_l1"]
    path = tmp_path / f"a{suffix}"
    if suffix == ".pt":
        torch.save(state, path)
    else:
        pytest.importorskip("safetensors.torch", reason="safetensors is not installed").save_file(state, path)
    bundle = rb.load(path)
    assert list(bundle) == ["rnns.0.module" if wrapper else "rnns.0"]
    assert next(iter(bundle.layers.values())) == rb.from_framework(module)
    assert not bundle.tensors
    assert sum("_raw" in notice for notice in bundle.notices) == 2
