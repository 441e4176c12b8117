"""PyTorch's own files, `.pt`, `.pth`, `.bin`: both the zip format and the one before PyTorch 1.6, and TorchScript.

They are read without torch, and nothing in them is run. torch is needed to write one, and to judge.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Format, Judge, JudgeTask, Settings, WriteOptions, Written
from rnnbridge.converters.pytorch_archive import looks_like_torch, open_archive
from rnnbridge.converters.pytorch_contents import flattened, state_of
from rnnbridge.converters.pytorch_judge import run_module
from rnnbridge.converters.pytorch_modules import torch_for
from rnnbridge.converters.pytorch_rows import MODULES
from rnnbridge.converters.pytorch_states import bundle_of, stored_layers, written
from rnnbridge.errors import Incompatible
from rnnbridge.weights import Bundle

Array = NDArray[Any]


def read(path: Path, settings: Settings) -> Bundle:
    """Read the recurrent layers of a state_dict, plain or in a checkpoint, of a pickled module, or of TorchScript."""
    state, said = state_of(open_archive(path))
    return bundle_of(state, path, "pytorch", settings, said)


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write a plain state_dict of all layers in the zip format."""
    torch = torch_for("writing a PyTorch file")
    layers = stored_layers(bundle, options, metadata=False)
    state = {
        layer.prefix + name: _tensor(torch, array, layer.dtype)
        for layer in layers
        for name, array in layer.arrays.items()
    }
    buffer = io.BytesIO()  # a path's name would become part of the bytes
    torch.save(state, buffer)
    path.write_bytes(buffer.getvalue())
    return written(bundle, layers)


def _judge(task: JudgeTask) -> dict[str, Array]:
    return run_module(task, _tensors_by_torch(task.path))


def _tensors_by_torch(path: Path) -> dict[str, Any]:
    """Name -> tensor as torch itself reads them. Raises Incompatible where it would have to run code in the file."""
    torch = torch_for("running a PyTorch layer")
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = "it is asked for tensors only, since loading a module or a program could run what the file says"
        raise Incompatible(f"PyTorch does not open {path}", [reason]) from error
    return dict(flattened(loaded, torch.Tensor)) if isinstance(loaded, Mapping) else {}


FORMATS = (
    Format(
        name="pytorch",
        framework="pytorch",
        suffixes=(".pth", ".bin", ".pt"),
        reads="state_dicts, checkpoints, whole modules, TorchScript; zip or older; no code in them is run",
        writes="a state_dict for module.load_state_dict",
        sniff=looks_like_torch,
        read=read,
        write=write,
        rows=MODULES,
        judges=(Judge("PyTorch", "torch", _judge),),
        extra="pytorch",
    ),
)


def _tensor(torch: Any, array: Array, dtype: str) -> Any:
    contiguous = np.array(array, order="C")  # a copy: canonical arrays are read-only
    if dtype == "bfloat16":
        return torch.from_numpy(contiguous.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(contiguous)
