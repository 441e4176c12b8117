"""PyTorch's modules in memory: torch.nn.LSTM, GRU, RNN and their cells, and classes derived from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.activation import Activation
from rnnbridge.catalogue import Live
from rnnbridge.convention import Convention
from rnnbridge.converters.pytorch_modules import configuration, module_for, numbers, order_of, plan_for, torch_for
from rnnbridge.converters.pytorch_rows import CELLS, MODULES, array_names
from rnnbridge.errors import Incompatible
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Origin, RNNWeights

Array = NDArray[Any]
_HOME = "torch.nn.modules.rnn"
_ROWS = {row.layer: row for row in MODULES + CELLS}


def recognises(layer: Any) -> bool:
    """Whether an object is one of torch.nn's recurrent layers, or a quantised one, which `read` refuses by name."""
    return _row_of(layer) is not None or _is_quantised(layer)


def read(module: Any) -> RNNWeights:
    """A module's weights. A weight under a parametrisation such as weight_norm is read as it is computed now.

    Raises:
        Incompatible: a quantised module, or weights that are no float numbers.
    """
    torch = torch_for("reading a PyTorch layer")
    row = _row_of(module)
    if row is None:
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        raise Incompatible(f"{kind} cannot be read", ["it is quantised; give the float module that it was made from"])
    spec = _spec_of(row, module)
    read_arrays = {name: _numbers(name, getattr(module, name)) for name in array_names(row, spec)}
    kinds = {narrow for _, narrow in read_arrays.values()}
    return RNNWeights(
        spec,
        row.read({name: array for name, (array, _) in read_arrays.items()}, spec),
        Origin(
            framework=row.framework,
            convention=row.name,
            version=str(torch.__version__),
            batch_first=getattr(module, "batch_first", None),
            padding=row.padding,
            storage_dtype=kinds.pop() if len(kinds) == 1 else "",
            evidence=(f"the module is a torch.nn.{row.layer}",),
        ),
    )


def write(weights: RNNWeights, into: Any, batch_first: bool | None) -> Any:
    """A new module, or `into` filled in place: its device, dtype, mode and hooks stay.

    Raises:
        Incompatible: PyTorch cannot hold the layer, or `into` is made otherwise; `reasons` has every difference.
    """
    torch = torch_for("a PyTorch layer")
    row = None if into is None else _row_of(into)
    if into is not None and row is None:
        kind = f"{type(into).__module__}.{type(into).__qualname__}"
        raise Incompatible(f"{kind} cannot be filled", [f"it is none of torch.nn.{', '.join(_ROWS)}"])
    plan = plan_for(weights, (row,) if row else ())
    ready = plan.apply(weights)
    order = order_of(plan, weights, batch_first)
    module = module_for(plan.row, plan.spec, order, weights.dtype) if into is None else into
    arrays = plan.row.write(ready.arrays, ready.spec)
    if into is not None and (differences := list(_differences(into, plan.row, ready, arrays, batch_first))):
        raise Incompatible(f"this torch.nn.{plan.row.layer} does not fit the weights", differences)
    with torch.no_grad():
        for name, array in arrays.items():
            getattr(module, name).copy_(torch.from_numpy(np.array(array)))
    return module


LIVE = Live("pytorch", recognises, read, write)


def _row_of(layer: Any) -> Convention | None:
    names = (kind.__name__ for kind in type(layer).__mro__ if kind.__module__ == _HOME)
    return next((_ROWS[name] for name in names if name in _ROWS), None)


def _is_quantised(layer: Any) -> bool:
    kinds = ((kind.__module__, kind.__name__) for kind in type(layer).__mro__)
    return any(home.startswith(("torch.ao.nn.quantiz", "torch.nn.quantiz")) and name in _ROWS for home, name in kinds)


def _spec_of(row: Convention, module: Any) -> RNNSpec:
    is_relu = "relu" in (getattr(module, "nonlinearity", ""), getattr(module, "mode", "").lower().removeprefix("rnn_"))
    return RNNSpec(
        cell=row.cell,
        input_size=module.input_size,
        hidden_size=module.hidden_size,
        bias="double" if module.bias else "none",
        num_layers=getattr(module, "num_layers", 1),
        direction="bidirectional" if getattr(module, "bidirectional", False) else "forward",
        reset=next(iter(row.reset), None),
        proj_size=getattr(module, "proj_size", 0),
        activations=(Activation("relu" if is_relu else "tanh"),) if row.cell == "rnn" else (),
    )


def _numbers(name: str, tensor: Any) -> tuple[Array, str]:
    try:
        array, narrow = numbers(tensor)
    except TypeError as error:
        raise Incompatible("this module cannot be read", [f"{name} is {error}"]) from error
    return array, narrow


def _differences(
    module: Any, row: Convention, ready: RNNWeights, arrays: dict[str, Array], batch_first: bool | None
) -> Iterator[str]:
    """What of a module is otherwise than the weights need it."""
    theirs = _spec_of(row, module)
    have: dict[str, Any] = {"input_size": theirs.input_size, "hidden_size": theirs.hidden_size}
    want: dict[str, Any] = {"input_size": ready.spec.input_size, "hidden_size": ready.spec.hidden_size}
    have |= configuration(row, theirs, getattr(module, "batch_first", None))
    want |= configuration(row, ready.spec, have.get("batch_first") if batch_first is None else batch_first)
    yield from (f"{key} is {have[key]!r} there and {value!r} here" for key, value in want.items() if have[key] != value)
    own = dict(module.named_parameters(recurse=False))
    for name in arrays:
        if name in own:
            yield from _narrower(name, str(own[name].dtype).removeprefix("torch."), ready)
        elif have == want:
            yield f"{name} is no plain parameter there (weight_norm or another parametrisation? remove it first)"


def _narrower(name: str, dtype: str, ready: RNNWeights) -> Iterator[str]:
    held = {"float64", str(ready.dtype), ready.origin.storage_dtype}
    if dtype not in held:
        yield f"{name} is {dtype} there and {ready.dtype} here; use weights.astype(...), or module.float(), first"
