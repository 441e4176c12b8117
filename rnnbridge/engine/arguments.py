"""What a caller hands over, read: whole numbers, and memory that the engine may read or write.

The readers raise; the checks of memory give what is wrong, in words, or None, so that all of it can be said at once.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine.memory import is_aligned
from rnnbridge.errors import ArgumentError
from rnnbridge.spec import RNNSpec

Array = NDArray[Any]
Shape = tuple[int, ...]


def whole(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """The number, if it is one that `operator.index` takes (int, np.int64 ...) and no bool.

    Raises:
        ArgumentError: it is not, or it is out of range.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ArgumentError(f"{name} is {value!r}; it is a whole number of at least {least}")
    if number > most:
        raise ArgumentError(f"{name} is {value!r}; it is at most {most}")
    return number


def read_generation(generation: Any) -> int:
    return whole("generation", generation, least=0, most=2**64 - 1)


def check_is(name: str, value: Any, kind: type[Any], required: bool = False) -> str | None:
    """An instance. None passes unless it is required."""
    if isinstance(value, kind) or (value is None and not required):
        return None
    if isinstance(value, type):
        return f"{name} is the class {value.__name__} itself; it is an object: {value.__name__}(...)"
    return f"{name} is a {type(value).__name__}; it is a {kind.__name__}"


def refuse(*problems: str | None) -> None:
    """Raise one ArgumentError with every problem there is."""
    if found := [problem for problem in problems if problem]:
        raise ArgumentError("; ".join(found))


def check_plain(
    name: str, array: Array | None, shape: Shape, dtype: np.dtype[Any], written: bool = False
) -> str | None:
    """A C-contiguous array of this shape and dtype. None passes."""
    if array is None:
        return None
    problem = _check_kind(name, array, shape, dtype, written)
    if problem is None and not array.flags.c_contiguous:
        return f"{name} is not C-contiguous; pass np.ascontiguousarray({name})"
    return problem


def check_rows(name: str, array: Array | None, shape: Shape, dtype: np.dtype[Any], written: bool = False) -> str | None:
    """An array [T, N, features] of this shape and dtype whose rows are contiguous. None passes."""
    if array is None:
        return None
    problem = _check_kind(name, array, shape, dtype, written)
    if problem is None and not has_plain_rows(array):
        return f"the features of {name} are not contiguous; pass np.ascontiguousarray({name})"
    return problem


def check_block(name: str, block: Array, nbytes: int, written: bool = False) -> str | None:
    """Enough contiguous bytes at an address that the engine accepts."""
    if problem := _check_array(name, block):
        return problem
    if block.dtype != np.uint8 or not block.flags.c_contiguous or block.nbytes < nbytes or not is_aligned(block):
        return (
            f"{name} is {block.dtype} {list(block.shape)}; it is uint8, contiguous, of at least {nbytes} bytes at a "
            f"multiple of 64, as rnnbridge.engine.aligned_empty({nbytes}) gives"
        )
    return f"{name} is read-only" if written and not block.flags.writeable else None


def check_states(
    states: Mapping[str, Array | None], spec: RNNSpec, shape: Shape, dtype: np.dtype[Any], written: bool = False
) -> Iterator[str | None]:
    """States, or their gradients, by name; a "c" in the name is the cell state's. None passes."""
    for name, array in states.items():
        if "c" in name and array is not None and not spec.has_cell_state:
            yield f"{name} was given, but a {spec.cell.upper()} has no cell state"
        else:
            yield check_plain(name, array, shape, dtype, written)


def check_lengths(lengths: Array | None, N: int) -> str | None:
    """Whole numbers [N] of a width that the engine reads. None passes; the engine checks their range."""
    if lengths is None:
        return None
    if problem := _check_array("lengths", lengths):
        return problem
    if lengths.dtype in (np.int32, np.int64) and lengths.shape == (N,) and lengths.flags.c_contiguous:
        return None
    return f"lengths is {lengths.dtype} {list(lengths.shape)}; it is int32 or int64 [{N}], contiguous"


def has_plain_rows(array: Array) -> bool:
    """Whether the last axis is contiguous and all other strides are whole numbers of elements; true of empty arrays."""
    size = array.itemsize
    plain = array.shape[-1] == 1 or array.strides[-1] == size
    whole = all(stride % size == 0 for stride in array.strides[:-1])
    return array.size == 0 or (array.flags.aligned and plain and whole)


def _check_array(name: str, value: Any) -> str | None:
    return None if isinstance(value, np.ndarray) else f"{name} is a {type(value).__name__}; it is a NumPy array"


def _check_kind(name: str, array: Array, shape: Shape, dtype: np.dtype[Any], written: bool) -> str | None:
    if problem := _check_array(name, array):
        return problem
    if array.shape != shape or array.dtype != dtype:
        return f"{name} is {array.dtype} {list(array.shape)}; it is {dtype} {list(shape)}"
    if not array.flags.aligned:
        return f"{name} is not aligned to its elements; pass {name}.copy()"
    return f"{name} is read-only" if written and not array.flags.writeable else None
