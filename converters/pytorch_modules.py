"""Which PyTorch layer holds a layer of ours, the line that makes it, and the object itself. Knows no file."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.convention import Convention
from rnnbridge.converters.pytorch_rows import CELL_NAMES, CELLS, MODULES
from rnnbridge.errors import MissingExtraError
from rnnbridge.rewrite import Plan
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]
_DEFAULTS = {
    "bias": True,
    "nonlinearity": "tanh",
    "num_layers": 1,
    "batch_first": False,
    "bidirectional": False,
    "proj_size": 0,
}


def torch_for(purpose: str) -> ModuleType:
    """The torch package. Raises MissingExtraError that says what it is needed for."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(purpose, "torch", "pytorch") from error
    return torch  # type: ignore[no-any-return]


def plan_for(weights: RNNWeights, rows: tuple[Convention, ...] = ()) -> Plan:
    """How PyTorch holds a layer; a layer that came from a cell becomes a cell again.

    Raises:
        Incompatible: with every reason.
    """
    return rewrite.plan(weights, rows or (CELLS if weights.origin.convention in CELL_NAMES else MODULES))


def order_of(plan: Plan, weights: RNNWeights, batch_first: bool | None) -> bool | None:
    """The order of sequences: the one asked for, else the source's; None where that is unknown, and for a cell."""
    if plan.row in CELLS:
        return None
    return weights.origin.order(batch_first)


def configuration(row: Convention, spec: RNNSpec, batch_first: bool | None) -> dict[str, Any]:
    """The module's arguments beyond the two sizes, under PyTorch's names; all of them, defaults too.

    Args:
        batch_first: None is PyTorch's default, time first.
    """
    values: dict[str, Any] = {"bias": spec.bias != "none"}
    if row.cell == "rnn":
        values["nonlinearity"] = str(spec.activations[0])
    if row in CELLS:
        return values
    values |= {
        "num_layers": spec.num_layers,
        "batch_first": bool(batch_first),
        "bidirectional": spec.direction == "bidirectional",
    }
    return values | ({"proj_size": spec.proj_size} if row.cell == "lstm" else {})


def constructor(row: Convention, spec: RNNSpec, batch_first: bool | None, dtype: np.dtype[Any]) -> str:
    """The line that makes the module: `torch.nn.GRU(24, 31, num_layers=2, batch_first=True)`."""
    given = configuration(row, spec, batch_first)
    words = [f"{key}={value!r}" for key, value in given.items() if value != _DEFAULTS[key]]
    words += ["dtype=torch.float64"] if dtype == np.float64 else []
    return f"torch.nn.{row.layer}({', '.join([str(spec.input_size), str(spec.hidden_size), *words])})"


def module_for(row: Convention, spec: RNNSpec, batch_first: bool | None, dtype: np.dtype[Any]) -> Any:
    """A new module in "float32" or "float64". Its first random weights do not move torch's generator."""
    torch = torch_for("a PyTorch layer")
    with torch.random.fork_rng(devices=[]):
        return getattr(torch.nn, row.layer)(
            spec.input_size,
            spec.hidden_size,
            **configuration(row, spec, batch_first),
            dtype=getattr(torch, str(dtype)),
        )


def numbers(tensor: Any) -> tuple[Array, str]:
    """A tensor's numbers, and "float16" or "bfloat16" where it had them and they were widened, else "".

    The array may share the tensor's memory.

    Raises:
        TypeError: numbers that NumPy does not have; a tensor that is sparse, quantised or without data. Its text says
            what the tensor is.
    """
    kind, layout = (str(word).removeprefix("torch.") for word in (tensor.dtype, tensor.layout))
    narrow = kind if kind in ("float16", "bfloat16") else ""
    try:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        return (plain.float() if narrow else plain).numpy(), narrow
    except (RuntimeError, NotImplementedError, TypeError) as error:
        raise TypeError(kind if layout == "strided" else f"{kind} in {layout} layout") from error
