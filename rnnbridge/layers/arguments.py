"""What a caller may hand to a layer, read into what the engine takes. Knows no cell."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.ma import MaskedArray  # np.ma is imported when first touched: not inside a call, where a fork may meet it
from numpy.typing import NDArray

from rnnbridge.engine.arguments import has_plain_rows, refuse
from rnnbridge.errors import ArgumentError
from rnnbridge.spec import RNNSpec

Array = NDArray[Any]
State: TypeAlias = Array | tuple[Array, Array]


def array_of(name: str, value: Any) -> Any:
    """The NumPy array over the memory of an object that offers it (`__array__`, `__dlpack__`); others as they are.

    Raises:
        ArgumentError: it offers its memory and does not give it: on another device, part of a graph of gradients; or it
            hides some of it, as a masked array does.
    """
    if isinstance(value, MaskedArray):
        raise ArgumentError(f"{name} is a masked array, whose mask would be lost; give its .data, and steps by mask=")
    if isinstance(value, np.ndarray) or not (hasattr(value, "__array__") or hasattr(value, "__dlpack__")):
        return value
    try:
        return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(f"{name} is a {type(value).__name__} that gives no NumPy array: {error}") from error


def read_sequence(name: str, x: Any, letters: str, spec: RNNSpec, dtype: np.dtype[Any]) -> Array:
    """x itself, or a copy where the engine cannot read it in place.

    Args:
        name: what the caller calls it.
        x: NumPy array, or an object that offers its memory as one, which is not copied either.
        letters: its axes, e.g. "TNI"; without the "N" is accepted too.

    Raises:
        ArgumentError: not an array, another dtype, number of axes or feature size, or T = 0.
    """
    x = array_of(name, x)
    refuse(kind_problem(name, x, dtype))
    forms = (letters, letters.replace("N", ""))
    if x.ndim not in map(len, forms) or x.shape[-1] != spec.input_size:
        wanted = " or ".join(f"[{', '.join(form)}]" for form in forms)
        raise ArgumentError(f"{name} is {list(x.shape)}; it is {wanted} with I = {spec.input_size} features")
    axes = forms[0] if x.ndim == len(letters) else forms[1]
    if "T" in axes and x.shape[axes.index("T")] == 0:
        raise ArgumentError(f"{name} is {list(x.shape)}: T = 0 steps; there must be at least one")
    return plain_rows(x)


def plain_rows(array: Array) -> Array:
    """The array, or a copy where the engine cannot read it in place."""
    return array if has_plain_rows(array) else np.array(array, order="C")


def read_state(
    state: Any, spec: RNNSpec, N: int, dtype: np.dtype[Any], batched: bool, name: str = "state"
) -> tuple[Array | None, Array | None]:
    """(h0, c0), contiguous [L*D, N, H]; None is zeros, for one of the pair too, and c0 is None for all but the LSTM.

    Raises:
        ArgumentError: naming everything that does not fit, of both arrays at once.
    """
    if state is None:
        return None, None
    names = ("h", "c") if spec.has_cell_state else ("h",)
    parts = tuple(state) if isinstance(state, (tuple, list)) else (state,)
    if len(parts) != len(names) or isinstance(state, (tuple, list)) != spec.has_cell_state:
        wanted = "a pair (h, c)" if spec.has_cell_state else "one array h"
        raise ArgumentError(f"the {name} is {_said(state)}; for this {spec.cell.upper()} it is {wanted}")
    positions = spec.num_layers * spec.num_directions
    full = (positions, N, spec.hidden_size)
    shape = full if batched else (positions, spec.hidden_size)
    given = {f"{name} {letter}": part for letter, part in zip(names, parts, strict=True) if part is not None}
    arrays = {called: array_of(called, part) for called, part in given.items()}
    refuse(
        *(kind_problem(called, part, dtype) or shape_problem(called, part, shape) for called, part in arrays.items())
    )
    plain = {called: np.require(part.reshape(full), requirements=("C", "A")) for called, part in arrays.items()}
    return plain.get(f"{name} h"), plain.get(f"{name} c")


def read_lengths(lengths: Any, N: int) -> Array | None:
    """int64 [N], contiguous. The engine checks their range.

    Raises:
        ArgumentError: not whole numbers, or not N of them.
    """
    if lengths is None:
        return None
    try:
        given = np.asarray(array_of("lengths", lengths))
    except ValueError:
        raise ArgumentError(f"lengths is {lengths!r}; it is one whole number per sequence, [{N}], each 0..T") from None
    if given.shape != (N,) or (given.dtype.kind not in "iu" and N):
        raise ArgumentError(
            f"lengths is {given.dtype} {list(given.shape)}; it is one whole number per sequence, [{N}], each 0..T"
        )
    return np.ascontiguousarray(given, np.int64)


def read_mask(mask: Any, letters: str, shape: tuple[int, ...]) -> Array:
    """The mask itself, if it is bool of this shape.

    Args:
        letters: its axes for the message, e.g. "NT".

    Raises:
        ArgumentError: it is not.
    """
    if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == shape:
        return mask
    raise ArgumentError(
        f"mask is {_said(mask)}; it is bool [{', '.join(letters)}] = {list(shape)}, True where a step is valid"
    )


def read_dropout(dropout: Any, num_layers: int) -> float:
    """The probability. Warns of one that has nothing to drop, as PyTorch does.

    Raises:
        ArgumentError: not a number of 0 to 1, without 1.
    """
    if not isinstance(dropout, Real) or not 0 <= float(dropout) < 1:
        raise ArgumentError(f"dropout is {dropout!r}; it is at least 0 and below 1")
    if float(dropout) > 0 and num_layers == 1:
        warnings.warn(
            f"dropout={dropout} has no effect: it is between layers, and this is a single one (num_layers=1)",
            stacklevel=4,
        )
    return float(dropout)


def kind_problem(name: str, value: Any, dtype: np.dtype[Any]) -> str | None:
    if not isinstance(value, np.ndarray):
        return f"{name} is a {type(value).__name__}; it is a NumPy array: np.asarray({name.split()[-1]}, np.{dtype})"
    if value.dtype == dtype:
        return None
    other = "float64" if dtype == np.float32 else "float32"
    return (
        f"{name} is {value.dtype} and this layer is {dtype}: pass {name.split()[-1]}.astype(np.{dtype}), or make a "
        f"{other} layer (dtype={other!r}, or rb.layer(weights.astype({other!r})))"
    )


def shape_problem(name: str, value: Array, shape: tuple[int, ...]) -> str | None:
    return None if value.shape == shape else f"{name} is {list(value.shape)}; it is {list(shape)}"


def _said(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
