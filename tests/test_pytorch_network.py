"""Models of PyTorch that people trained and published, fetched into a cache and read without torch: torch's own bits.

They are other people's work (MIT, CC-BY-4.0) and are never committed.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from tests.fetching import package
from tests.modules import torch

pytestmark = pytest.mark.network


def unpacked(name: str, version: str, member: str, folder: Path) -> Path:
    with zipfile.ZipFile(package(name, version)) as wheel:
        (folder / Path(member).name).write_bytes(wheel.read(member))
    return folder / Path(member).name


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_silero_is_torchscript(tmp_path: Path) -> None:
    path = unpacked("silero_vad", "6.2.3", "silero_vad/data/silero_vad.jit", tmp_path)
    bundle = rb.load(path)
    assert list(bundle) == ["_model.decoder.rnn", "_model_8k.decoder.rnn"]
    theirs = {name: tensor.numpy() for name, tensor in torch.jit.load(path).state_dict().items()}
    ours = dict(bundle.tensors)
    for layer, weights in bundle.layers.items():
        ours |= {f"{layer}.{name.removesuffix('_l0')}": array for name, array in weights.arrays.items()}
    assert ours.keys() - theirs.keys() == {"_state", "_context"}  # attributes that are no parameters
    assert all(np.array_equal(ours[name], array) for name, array in theirs.items())


@pytest.mark.parametrize("number", [1, 2, 3])
def test_beatnet_has_state_dicts(number: int, tmp_path: Path) -> None:
    path = unpacked("BeatNet", "1.1.3", f"BeatNet/models/model_{number}_weights.pt", tmp_path)
    bundle = rb.load(path)
    module = torch.nn.LSTM(150, 150, num_layers=2)
    prefix = "lstm."
    theirs = torch.load(path, map_location="cpu", weights_only=True)
    module.load_state_dict({name[len(prefix) :]: t for name, t in theirs.items() if name.startswith(prefix)})
    assert bundle["lstm"] == rb.from_framework(module)
