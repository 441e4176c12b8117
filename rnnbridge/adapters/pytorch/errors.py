"""What the engine cannot do inside PyTorch, as an error and as a notice that is given once. Knows no module."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import forward_ad

from rnnbridge.errors import ArgumentError, RNNBridgeError

UNDO = "Go back to PyTorch's own module first: record.undo() after accelerate(), or nn.{name} in place of ours."

_given: set[str] = set()


class UnsupportedError(RNNBridgeError, RuntimeError):
    """Something that PyTorch's own module may do and the engine does not: another device, a dtype, TorchScript."""


def unsupported(module: Any, what: str) -> UnsupportedError:
    """The error that says what, and how to go back to PyTorch's module."""
    name = type(module).__name__
    return UnsupportedError(f"{what}, and rnnbridge's {name} does not. {UNDO.format(name=name)}")


def notice(text: str) -> None:
    """Warn of the line that called the module, the first time in this process."""
    if torch.compiler.is_compiling() or text in _given:
        return
    _given.add(text)
    warnings.warn(text, stacklevel=_users_level())


def _users_level() -> int:
    """`stacklevel` for the caller of this function, of the first frame that is neither ours nor PyTorch's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).split(".")[0] in ("rnnbridge", "torch"):
        level, frame = level + 1, frame.f_back
    return level


def under_vmap() -> bool:
    """Whether torch.func.vmap is at work."""
    return not torch.compiler.is_compiling() and len(_transforms()) > 0


def _transforms() -> Sequence[Any]:
    """Those of torch.func that are at work, the outermost first."""
    return torch._C._functorch.get_interpreter_stack() or ()


def refuse_transforms(module: Any, tensors: Iterable[Any]) -> None:
    """What PyTorch would do to the operator without its knowing: tracing, torch.func, tangents.

    Raises:
        UnsupportedError: one of them is at work.
    """
    if torch.compiler.is_compiling():
        return
    if torch.jit.is_tracing():
        raise unsupported(module, "torch.jit.trace records PyTorch's own module")
    if any(transform.key() != torch._C._functorch.TransformType.Vmap for transform in _transforms()):
        raise unsupported(module, "torch.func (grad, vjp, jvp, jacrev ...) transforms PyTorch's own module")
    # without a rule for tangents there would be zeros in silence
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(one).tangent is not None for one in tensors):
        raise unsupported(module, "PyTorch's own module has forward-mode derivatives (jvp)")


@contextmanager
def changes_said() -> Iterator[None]:
    """What the engine's backward refuses is what somebody changed since forward: said with PyTorch's kind of error."""
    try:
        yield
    except ArgumentError as error:
        raise RuntimeError(f"a tensor needed for the gradients has been changed since forward: {error}") from error


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
