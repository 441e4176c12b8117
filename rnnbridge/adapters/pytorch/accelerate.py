"""`accelerate`: the recurrent modules of a model made ours in place, and back. Knows no tensor's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.utils.parametrize import is_parametrized, type_before_parametrizations

from rnnbridge.adapters.pytorch.modules import GRU, LSTM, RNN, OnEngine
from rnnbridge.errors import ArgumentError

_OURS: dict[type, type] = {torch.nn.LSTM: LSTM, torch.nn.GRU: GRU, torch.nn.RNN: RNN}
_ALIKE = (torch.nn.RNNBase, torch.nn.RNNCellBase)


@dataclass(frozen=True)
class Accelerated:
    """What `accelerate` did.

    Args:
        swapped: the modules that run on the engine now, by their names in the model; "" is the model itself.
        left: the other recurrent modules, name -> why.
    """

    swapped: tuple[str, ...]
    left: Mapping[str, str]
    _modules: tuple[tuple[Any, type], ...] = field(repr=False, default=())

    def undo(self) -> None:
        """Make every swapped module PyTorch's own again. Parameters, hooks and whatever was trained stay."""
        for module, before in self._modules:
            if type_before_parametrizations(module) is _OURS[before]:
                module.__class__ = _class_over(before, module)

    def __str__(self) -> str:
        left = "".join(f"\n  left: {name or '(the model)'}, {why}" for name, why in self.left.items())
        names = ", ".join(name or "(the model)" for name in self.swapped)
        return f"{len(self.swapped)} recurrent module(s) on rnnbridge's engine: {names or 'none'}{left}"


def accelerate(model: Any) -> Accelerated:
    """Make every nn.LSTM, nn.GRU and nn.RNN of a model run on the engine, in place.

    The modules stay the same objects with the same Parameters, hooks and state: only their class changes, so that
    optimisers and whatever else refers to them go on working.

    Args:
        model: any nn.Module; may be an nn.LSTM itself.

    Returns:
        What was swapped, what was left and why; with `undo()`.

    Raises:
        ArgumentError: it is no nn.Module.
    """
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(f"accelerate was given a {type(model).__name__}; it takes a torch.nn.Module")
    left, swapped = {}, {}
    for name, module in model.named_modules():
        if not isinstance(module, _ALIKE):
            continue
        if reason := _obstacle(module):
            left[name] = reason
        else:
            swapped[name] = (module, type_before_parametrizations(module))
    for module, before in swapped.values():
        module.__class__ = _class_over(_OURS[before], module)
    return Accelerated(tuple(swapped), left, tuple(swapped.values()))


def _class_over(base: type, module: Any) -> type:
    """The class that makes a module one of base. A parametrised module has its own over it, with properties in it."""
    if not is_parametrized(module):
        return base
    own = {name: value for name, value in vars(type(module)).items() if name not in ("__dict__", "__weakref__")}
    return type(f"Parametrized{base.__name__}", (base,), own)


def _obstacle(module: Any) -> str | None:
    """Why a recurrent module stays as it is."""
    if isinstance(module, OnEngine):
        return "it runs on the engine already"
    if isinstance(module, torch.nn.RNNCellBase):
        return f"a cell runs one step at a time; put rnnbridge.adapters.pytorch.{type(module).__name__} in its place"
    if type_before_parametrizations(module) not in _OURS:
        return f"{type(module).__name__} is a class of its own, and may do more than its base"
    if module.proj_size > 0:
        return "the engine runs no projection (proj_size) yet"
    if alien := {str(one.device) for one in module.parameters() if one.device.type not in ("cpu", "meta")}:
        return f"its parameters are on {', '.join(sorted(alien))}; the engine runs on the CPU"
    if alien := {str(one.dtype) for one in module.parameters() if one.dtype not in (torch.float32, torch.float64)}:
        return f"its parameters are {', '.join(sorted(alien))}; the engine runs float32 and float64"
    return None
