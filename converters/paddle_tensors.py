"""Paddle's tensors as bytes, one or several in a row: `.pdiparams`, and the files of Paddle 1. Imports no Paddle.

The layout is that of paddle/phi/core/framework (SerializeToStream, TensorToStream): a version and the levels of
sequences, then a version, a description (VarType.TensorDesc, a protobuf) and the numbers. A tensor has no name here.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.files.cursor import Cursor
from rnnbridge.files.protobuf import parse

Array = NDArray[Any]
# VarType.Type. NumPy has no bfloat16: its bits are whole numbers here, as in a state_dict of Paddle.
_KINDS = {0: "?", 1: "<i2", 2: "<i4", 3: "<i8", 4: "<f2", 5: "<f4", 6: "<f8", 20: "u1", 21: "i1", 22: "<u2"}
_MOST_DIMENSIONS = 9
_LARGEST_DESCRIPTION = 128
_TYPE, _DIMS = 1, 2  # the fields of a TensorDesc
_BEGINNING = b"\x08"  # of its first field, a whole number


def looks_like_tensor(head: bytes) -> bool:
    """Whether a file begins with a tensor that is no list of sequences."""
    size = int.from_bytes(head[16:20], "little")
    return head[:16] == bytes(16) and 2 < size < _LARGEST_DESCRIPTION and head[20:21] == _BEGINNING


def read_tensors(path: Path, most: int) -> list[Array]:
    """The tensors of a file in its order, read-only views of one buffer.

    Raises:
        FormatError: truncated, more tensors than `most`, a version or a kind of numbers that is not known.
    """
    cursor, tensors = Cursor(path, path.read_bytes()), list[Array]()
    while cursor.at < len(cursor.content):
        if len(tensors) == most:
            raise cursor.error(f"more follows the {most} tensor{'s' * (most > 1)} that should be there")
        tensors.append(_tensor(cursor))
    if len(tensors) < most:
        raise cursor.error(f"{len(tensors)} tensors are there and {most} should be (truncated?)")
    return tensors


def _tensor(cursor: Cursor) -> Array:
    _check_version(cursor)
    for _ in range(cursor.count("levels of sequences", 8)):
        cursor.take(cursor.number(8))
    _check_version(cursor)
    size = cursor.number(4)
    if size >= _LARGEST_DESCRIPTION:
        raise cursor.error(f"a description of {size} bytes; a tensor's is short")
    description = parse(cursor.take(size), f"{cursor.path}: byte {cursor.at}: a tensor's description")
    code, shape = description.number(_TYPE, -1), tuple(description.listed(_DIMS))
    if code not in _KINDS:
        raise cursor.error(f"a tensor {list(shape)} of number kind {code}; known are {', '.join(map(str, _KINDS))}")
    if len(shape) > _MOST_DIMENSIONS or any(not 0 <= extent <= len(cursor.content) for extent in shape):
        raise cursor.error(f"a tensor {list(shape)}, which is larger than the file")
    kind = np.dtype(_KINDS[code])
    return np.frombuffer(cursor.take(math.prod(shape) * kind.itemsize), kind).reshape(shape)


def _check_version(cursor: Cursor) -> None:
    if (version := cursor.number(4)) != 0:
        raise cursor.error(f"a tensor of version {version}; version 0 is read")
