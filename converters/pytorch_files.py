"""state_dicts in PyTorch's own files: `.pt`, `.pth`, `.bin`, both the zip format and the one before PyTorch 1.6.

The file is opened by torch itself with weights_only=True: no code in it is run.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Format, Judge, JudgeTask, Settings, WriteOptions, Written
from rnnbridge.converters.pytorch_judge import run_module
from rnnbridge.converters.pytorch_modules import numbers, torch_for
from rnnbridge.converters.pytorch_names import State
from rnnbridge.converters.pytorch_rows import MODULES
from rnnbridge.converters.pytorch_states import bundle_of, stored_layers, written
from rnnbridge.errors import FormatError
from rnnbridge.files.zip import check_directory, largest_content, member_names
from rnnbridge.weights import Bundle

Array = NDArray[Any]
_BEFORE_ZIP = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")  # a pickled number, torch.serialization.MAGIC_NUMBER
_USUAL_KEYS = ("state_dict", "model_state_dict", "model")
_DEPTH = 2  # {"model": {"rnn.weight_ih_l0": ...}} is one


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file is one of torch.save, or TorchScript, which `read` refuses by name."""
    return head.startswith(_BEFORE_ZIP) or any(_is_pickle(name) for name in member_names(path, head))


def read(path: Path, settings: Settings) -> Bundle:
    """Read the recurrent layers of a state_dict, plain or inside a checkpoint."""
    return bundle_of(_state(path, tensors_of(path)), path, "pytorch", settings)


def tensors_of(path: Path) -> dict[str, Any]:
    """Name -> tensor of the state_dict in a file; nested dicts become prefixes, one under a usual key has none.

    Raises:
        FormatError: not a file of torch.save, damaged, TorchScript, or holding objects other than plain data.
        MissingExtraError: torch is not installed.
    """
    torch = torch_for("reading a PyTorch file")
    _refuse_what_is_no_state_dict(path)
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise FormatError(f"{path}: {_reason(error)}") from error
    if not isinstance(loaded, Mapping):
        raise FormatError(f"{path} holds a {type(loaded).__name__}; a state_dict is read, or a dict with one in it")
    return dict(_flattened(torch, loaded, "", _DEPTH))


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
    return run_module(task, tensors_of(task.path))


FORMATS = (
    Format(
        name="pytorch",
        framework="pytorch",
        suffixes=(".pth", ".bin", ".pt"),
        reads="state_dicts of torch.save, plain or inside a checkpoint, with any prefixes",
        writes="a state_dict for module.load_state_dict",
        sniff=sniff,
        read=read,
        write=write,
        rows=MODULES,
        judges=(Judge("PyTorch", "torch", _judge),),
        extra="pytorch",
    ),
)


def _is_pickle(member: str) -> bool:
    folder, found, rest = member.partition("/data.pkl")
    return bool(found) and not rest and "/" not in folder


def _refuse_what_is_no_state_dict(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(512)
    if not sniff(path, head):
        raise FormatError(f"{path}: not a file of torch.save; it begins {head[:8]!r}")
    if head.startswith(b"PK"):
        check_directory(path)
        if any(name.endswith("/constants.pkl") for name in member_names(path, head)):
            raise FormatError(
                f"{path} is TorchScript, which is a program; save its weights instead: "
                "torch.save(torch.jit.load(path).state_dict(), 'weights.pt')"
            )


def _reason(error: Exception) -> str:
    text = str(error).strip()
    if "Weights only load failed" in text:  # torch goes on to advise loading it unsafely; that is not echoed
        if "GLOBAL " not in text:
            return "damaged, or it holds what is no tensor; what could run code is not loaded"
        which = text.split("GLOBAL ")[-1].split(" ")[0]
        return (
            f"holds Python objects ({which}), which are not loaded because loading them runs code; "
            "save the weights alone: torch.save(model.state_dict(), 'weights.pt')"
        )
    lines = text.splitlines()
    return f"damaged, or no file of torch.save: {lines[0] if lines else type(error).__name__}"


def _flattened(torch: Any, loaded: Mapping[Any, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    usual = [key for key in _USUAL_KEYS if isinstance(loaded.get(key), Mapping)]
    for key, value in loaded.items():
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping) and depth:
            inner = prefix if usual == [key] else f"{prefix}{key}."
            yield from _flattened(torch, value, inner, depth - 1)


def _state(path: Path, tensors: Mapping[str, Any]) -> State:
    arrays: dict[str, Array] = {}
    narrow: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    limit = largest_content(path.stat().st_size)
    for name, tensor in tensors.items():
        if tensor.numel() * tensor.element_size() > limit:  # strides of 0 can claim any size
            raise FormatError(f"{path}: {name} {list(tensor.shape)} is far larger than the file that holds it")
        try:
            arrays[name], kind = numbers(tensor)
        except TypeError as error:
            unreadable[name] = str(error)
        else:
            narrow |= {name: kind} if kind else {}
    return State(arrays, narrow, unreadable)


def _tensor(torch: Any, array: Array, dtype: str) -> Any:
    contiguous = np.array(array, order="C")  # a copy: canonical arrays are read-only
    if dtype == "bfloat16":
        return torch.from_numpy(contiguous.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(contiguous)
