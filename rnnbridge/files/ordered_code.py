"""The keys that TensorFlow's checkpoints give the slices of a partitioned variable. Knows no file.

core/util/saved_tensor_slice_util.cc (EncodeTensorNameSlice) over core/lib/strings/ordered_code.cc: numbers and texts as
bytes whose order is theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

_WHOLE = -1  # the length of a dimension that a slice does not cut


def slice_key(name: str, extents: Sequence[tuple[int, int | None]]) -> bytes:
    """The key of a slice: (start, length) by dimension, None for the whole of it."""
    key = _number(0) + _text(name.encode()) + _number(len(extents))
    for start, length in extents:
        key += _signed(0 if length is None else start) + _signed(_WHOLE if length is None else length)
    return key


def _number(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _text(content: bytes) -> bytes:
    escaped = {0: b"\0\xff", 255: b"\xff\0"}
    return b"".join(escaped.get(byte, bytes([byte])) for byte in content) + b"\0\1"


def _signed(value: int) -> bytes:
    """Two's complement, with as many leading bits turned as there are bytes."""
    size = (value if value >= 0 else ~value).bit_length() // 7 + 1
    header = (0xFFFF << 16 - size & 0xFFFF).to_bytes(2, "big").ljust(size, b"\0")
    held = value.to_bytes(10, "big", signed=True)[-size:]
    return bytes(one ^ turned for one, turned in zip(held, header, strict=False))
