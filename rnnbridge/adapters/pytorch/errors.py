"""What the engine cannot do inside PyTorch, as an error and as a notice that is given once. Knows no module."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd import forward_ad

from rnnbridge.errors import RNNBridgeError

UNDO = "Go back to PyTorch's own module first: record.undo() after accelerate(), or nn.{name} in place of ours."

_given: set[str] = set()


class UnsupportedError(RNNBridgeError, RuntimeError):
    """Something that PyTorch's own module may do and the engine does not: another device, a dtype, TorchScript."""


def unsupported(module: Any, what: str) -> UnsupportedError:
    """The error that says what, and how to go back to PyTorch's module."""
    name = type(module).__name__
    return UnsupportedError(f"{what}, and rnnbridge's {name} does not. {UNDO.format(name=name)}")


def notice(text: str) -> None:
    """Warn, the first time in this process."""
    if torch.compiler.is_compiling() or text in _given:
        return
    _given.add(text)
    warnings.warn(text, stacklevel=5)


def refuse_forward_mode(tensors: Iterable[Any]) -> None:
    """An operator without a rule for tangents would give zeros in silence.

    Raises:
        UnsupportedError: one of the tensors has a tangent.
    """
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return
    if any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise UnsupportedError(f"the engine computes no forward-mode derivatives (jvp). {UNDO.format(name='LSTM')}")


def check_tensors(module: Any, input: Any, states: tuple[Any, ...], weights: list[Any]) -> None:
    """All on one device that the engine runs on, of one dtype that it runs.

    Raises:
        UnsupportedError: a device or a dtype that the engine does not run.
        RuntimeError: with PyTorch's words, tensors that do not go together.
    """
    for kind, tensor in [("parameter", weights[0]), *(("hidden", state) for state in states)]:
        if tensor.device != input.device:
            raise RuntimeError(
                f"Input and {kind} tensors are not at the same device, found input tensor at {input.device} and {kind} "
                f"tensor at {tensor.device}"
            )
        if tensor.dtype != input.dtype:
            raise RuntimeError(
                f"Input and {kind} tensors are not the same dtype, found input tensor with {input.dtype} and {kind} "
                f"tensor with {tensor.dtype}"
            )
    if any(weight.device != input.device or weight.dtype != input.dtype for weight in weights):
        raise RuntimeError(f"the parameters are not all on {input.device} and of {input.dtype}")
    if input.device.type not in ("cpu", "meta"):
        raise unsupported(module, f"PyTorch's own module runs on {input.device}")
    if input.dtype not in (torch.float32, torch.float64):
        raise unsupported(module, f"PyTorch's own module runs in {input.dtype}, ours is float32 or float64")
