"""float16 and bfloat16 numbers, which are computed with as float32 and stored as the same bits again.

NumPy has no bfloat16: here it is the upper half of a float32, kept as uint16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def widened(array: Array, storage: str) -> Array:
    """The numbers as float32 where `storage` is "float16" or "bfloat16" (uint16 bits); else the array itself. Exact."""
    if storage == "float16":
        return array.astype(np.float32)
    if storage == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def narrowed(arrays: Mapping[str, Array], storage: str) -> tuple[str, dict[str, Array]]:
    """The inverse of `widened` for the arrays of a layer.

    Args:
        arrays: float32 or float64.
        storage: what the source stored: "float16", "bfloat16", or "" for the arrays as they are.

    Returns:
        What they are stored as, and the arrays so; as they are where a number would not survive.
    """
    dtype = str(next(iter(arrays.values())).dtype)
    if storage and dtype == "float32":
        narrow = {name: _narrow(array, storage) for name, array in arrays.items()}
        if all(_same_numbers(widened(narrow[name], storage), array) for name, array in arrays.items()):
            return storage, narrow
    return dtype, dict(arrays)


def _narrow(array: Array, storage: str) -> Array:
    if storage == "float16":
        with np.errstate(over="ignore"):
            return array.astype(np.float16)
    return (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16)


def _same_numbers(one: Array, other: Array) -> bool:
    return np.array_equal(one, other, equal_nan=True)
