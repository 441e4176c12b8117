"""Snappy's raw format, unpacked. Written from its format description; knows no container.

https://github.com/google/snappy/blob/main/format_description.txt
"""

from __future__ import annotations

from rnnbridge.errors import FormatError
from rnnbridge.files.protobuf import varint

_MOST = 64  # an element of two bytes or more gives at most 64: more is a claim that no data can meet


def unpacked(data: memoryview, where: str) -> bytes:
    """The bytes that were packed.

    Raises:
        FormatError: damaged, or a claim of more than the data can hold.
    """
    size, place = varint(data, 0, where)
    if size > _MOST * len(data):
        raise FormatError(f"{where}: {len(data)} packed bytes cannot hold {size}")
    found = bytearray()
    while place < len(data):
        place = _literal(data, place, found, where) if data[place] & 3 == 0 else _copy(data, place, found, where)
        if len(found) > size:
            break
    if len(found) != size:
        raise FormatError(f"{where}: packed bytes that should give {size} give {len(found)} (damaged)")
    return bytes(found)


def _literal(data: memoryview, place: int, found: bytearray, where: str) -> int:
    size = data[place] >> 2
    extra = max(0, size - 59)  # 60 to 63: the size is in the 1 to 4 bytes that follow
    if extra:
        size = int.from_bytes(data[place + 1 : place + 1 + extra], "little")
    start = place + 1 + extra
    if size + 1 > len(data) - start:
        raise FormatError(f"{where}: packed byte {place}: {size + 1} bytes should follow (truncated)")
    found += data[start : start + size + 1]
    return start + size + 1


def _copy(data: memoryview, place: int, found: bytearray, where: str) -> int:
    """Bytes that were there before; a copy may run into what it writes itself."""
    tag = data[place]
    extra = {1: 1, 2: 2, 3: 4}[tag & 3]
    offset = int.from_bytes(data[place + 1 : place + 1 + extra], "little")
    size = 1 + (tag >> 2)
    if tag & 3 == 1:
        offset, size = offset | (tag >> 5) << 8, 4 + (tag >> 2 & 7)
    if place + extra >= len(data) or not 0 < offset <= len(found):
        raise FormatError(f"{where}: packed byte {place}: a copy from {offset} back, behind {len(found)} (damaged)")
    pattern = bytes(found[len(found) - offset :][:size])
    found += (pattern * (size // len(pattern) + 1))[:size]
    return place + 1 + extra
