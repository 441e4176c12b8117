"""Paddle's tensors as bytes, one or several behind each other: `.pdiparams`, and the files of Paddle 1. Imports no Paddle.

The layout is that of paddle/phi/core/framework (SerializeToStream, TensorToStream): a version and the levels of
sequences, then a version, a description (VarType.TensorDesc, a protobuf) and the numbers. A tensor has no name here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError

Array = NDArray[Any]
# VarType.Type. NumPy has no bfloat16: its bits are whole numbers here, as in a state_dict of Paddle.
_KINDS = {0: "?", 1: "<i2", 2: "<i4", 3: "<i8", 4: "<f2", 5: "<f4", 6: "<f8", 20: "u1", 21: "i1", 22: "<u2"}
_MOST_DIMENSIONS = 9
_LARGEST_DESCRIPTION = 128
_TYPE, _DIM, _PACKED = 0x08, 0x10, 0x12  # the fields of a TensorDesc, with their wire types


def looks_like_tensor(head: bytes) -> bool:
    """Whether a file begins with a tensor that is no list of sequences."""
    size = int.from_bytes(head[16:20], "little")
    return head[:16] == bytes(16) and 2 < size < _LARGEST_DESCRIPTION and head[20:21] == bytes([_TYPE])


def read_tensors(path: Path, most: int) -> list[Array]:
    """The tensors of a file in its order, read-only views of one buffer.

    Raises:
        FormatError: truncated, more tensors than `most`, a version or a kind of numbers that is not known.
    """
    cursor, tensors = _Cursor(path, path.read_bytes()), []
    while cursor.at < len(cursor.content):
        if len(tensors) == most:
            raise cursor.error(f"more follows the {most} tensor{'s' * (most > 1)} that should be there")
        tensors.append(_tensor(cursor))
    if len(tensors) < most:
        raise cursor.error(f"{len(tensors)} tensors are there and {most} should be (truncated?)")
    return tensors


@dataclass
class _Cursor:
    """A place in a file; nothing is read past its end."""

    path: Path
    content: bytes
    at: int = 0

    def error(self, text: str) -> FormatError:
        return FormatError(f"{self.path}: byte {self.at}: {text}")

    def take(self, size: int) -> bytes:
        if size > len(self.content) - self.at:
            raise self.error(f"{size} bytes should follow and {len(self.content) - self.at} do (truncated?)")
        self.at += size
        return self.content[self.at - size : self.at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def version(self) -> None:
        if (version := self.number(4)) != 0:
            raise self.error(f"a tensor of version {version}; version 0 is read")


def _tensor(cursor: _Cursor) -> Array:
    cursor.version()
    levels = cursor.number(8)
    if levels * 8 > len(cursor.content) - cursor.at:
        raise cursor.error(f"{levels} levels of sequences cannot be in what follows")
    for _ in range(levels):
        cursor.take(cursor.number(8))
    cursor.version()
    size = cursor.number(4)
    if size >= _LARGEST_DESCRIPTION:
        raise cursor.error(f"a description of {size} bytes; a tensor's is short")
    code, shape = _description(cursor, cursor.take(size))
    if code not in _KINDS:
        raise cursor.error(f"a tensor {list(shape)} of number kind {code}; known are {', '.join(map(str, _KINDS))}")
    if len(shape) > _MOST_DIMENSIONS or any(not 0 <= extent <= len(cursor.content) for extent in shape):
        raise cursor.error(f"a tensor {list(shape)}, which is larger than the file")
    kind = np.dtype(_KINDS[code])
    return np.frombuffer(cursor.take(math.prod(shape) * kind.itemsize), kind).reshape(shape)


def _description(cursor: _Cursor, content: bytes) -> tuple[int, tuple[int, ...]]:
    """The kind of numbers and the shape of a TensorDesc."""
    code, shape, at = -1, [], 0
    try:
        while at < len(content):
            tag, value, at = content[at], *_varint(content, at + 1)
            if tag == _TYPE:
                code = value
            elif tag == _DIM:
                shape.append(value)
            elif tag == _PACKED:
                end = at + value
                while at < end:
                    extent, at = _varint(content, at)
                    shape.append(extent)
            else:
                raise cursor.error(f"a field {tag >> 3} in a tensor's description, which has two")
    except IndexError:
        raise cursor.error("a tensor's description ends in the middle") from None
    return code, tuple(shape)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number of protobuf's and where it ends."""
    value, shift = 0, 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128 or shift > 63:
            return value, at
