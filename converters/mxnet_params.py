"""MXNet's `.params` container: a list of arrays and a list of their names. Knows no recurrent layer.

The layout is that of src/ndarray/ndarray.cc (NDArray::Save, Load, LegacyLoad): every number little-endian; an array
begins with a magic number, which in the oldest files is the number of its dimensions. Written is version 2, as MXNet
1.9.1 does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError
from rnnbridge.files.cursor import Cursor

Array = NDArray[Any]
_LIST = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_MOST_DIMENSIONS = 32
_DTYPES = {0: "<f4", 1: "<f8", 2: "<f2", 3: "u1", 4: "<i4", 5: "i1", 6: "<i8", 7: "?"}
_CODES = {"float32": 0, "float64": 1, "float16": 2}
_CPU = (1, 0)


def looks_like_params(head: bytes) -> bool:
    """Whether a file that begins so is one."""
    return head[:16] == _LIST.to_bytes(8, "little") + bytes(8)


def read_params(path: Path) -> dict[str, Array]:
    """Name -> array; read-only views of one buffer.

    Raises:
        FormatError: truncated, a name twice or missing, a sparse array, or a kind of numbers that MXNet does not have.
    """
    cursor = Cursor(path, path.read_bytes())
    if not looks_like_params(cursor.content[:16]):
        raise FormatError(f"{path}: no .params file of MXNet; it begins {cursor.content[:8]!r}")
    cursor.at = 16
    arrays = [_array(cursor) for _ in range(cursor.count("arrays", 4))]
    names = [cursor.text() for _ in range(cursor.count("names", 8))]
    if cursor.at != len(cursor.content):
        raise cursor.error(f"{len(cursor.content) - cursor.at} bytes follow the names")
    if len(names) != len(arrays) or len(set(names)) != len(names):
        raise cursor.error(f"{len(arrays)} arrays have {len(set(names))} different names")
    return {name: array for name, array in zip(names, arrays, strict=True) if array is not None}


def params_bytes(arrays: Mapping[str, Array]) -> bytes:
    """A file's content. float32, float64 and float16 are written."""
    parts = [_whole(8, _LIST, 0, len(arrays))]
    for array in arrays.values():
        parts.append(_whole(4, _V2, 0, array.ndim) + _whole(8, *array.shape))
        parts.append(_whole(4, *_CPU, _CODES[array.dtype.name]))
        parts.append(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    parts.append(_whole(8, len(arrays)))
    for name in arrays:
        encoded = name.encode("utf-8")
        parts += [_whole(8, len(encoded)), encoded]
    return b"".join(parts)


def _whole(width: int, *numbers: int) -> bytes:
    return b"".join(int(number).to_bytes(width, "little") for number in numbers)


def _array(cursor: Cursor) -> Array | None:
    """One array; None for a place without one, which MXNet writes for parameters that are not initialised."""
    magic = cursor.number(4)
    if magic in (_V2, _V3) and (kind := cursor.number(4)) != 0:
        raise cursor.error(f"an array of storage type {kind} (sparse); dense ones are read")
    ndim = cursor.number(4) if magic in (_V1, _V2, _V3) else magic
    if ndim == 0xFFFFFFFF or (ndim == 0 and magic != _V3):
        return None
    if ndim > _MOST_DIMENSIONS:
        raise cursor.error(f"an array of {ndim} dimensions, or no array of MXNet")
    shape = tuple(cursor.number(8 if magic in (_V1, _V2, _V3) else 4) for _ in range(ndim))
    if any(extent > len(cursor.content) for extent in shape):
        raise cursor.error(f"an array {list(shape)}, which is larger than the file")
    cursor.take(8)  # the device it lay on
    code = cursor.number(4)
    if code not in _DTYPES:
        raise cursor.error(f"an array {list(shape)} of number kind {code}; known are {', '.join(map(str, _DTYPES))}")
    dtype = np.dtype(_DTYPES[code])
    return np.frombuffer(cursor.take(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)
