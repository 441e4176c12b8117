"""CRC-32C (Castagnoli), as TensorFlow and LevelDB check their bytes by. Knows no file.

Python is slow at one byte after the other, so many stretches of the bytes are summed side by side by NumPy; a sum is
linear, and `_behind` moves it over the bytes that follow.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.uint32]
_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8
_FEW = 4096


def masked_crc(*parts: bytes | memoryview) -> int:
    """The checksum of parts that follow each other, turned and shifted, as it is stored beside what it checks."""
    crc = 0
    for part in parts:
        crc = crc32c(part, crc)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def crc32c(data: bytes | memoryview, before: int = 0) -> int:
    """The checksum of bytes that follow some whose checksum is `before`."""
    lanes = 1 if len(data) < _FEW else math.isqrt(len(data))
    length, rest = divmod(len(data), lanes)
    columns = np.frombuffer(data, np.uint8, lanes * length).reshape(lanes, length).T
    crcs = np.zeros(lanes, np.uint32)
    crcs[0] = ~before & 0xFFFFFFFF
    table = _table()
    if lanes == 1:
        state = _one_after_the_other(int(crcs[0]), data)
        return ~state & 0xFFFFFFFF
    for column in np.ascontiguousarray(columns):
        crcs = table[(crcs ^ column) & 0xFF] ^ (crcs >> 8)
    step, state = _behind(length), 0
    for crc in crcs.tolist():
        state = _moved(step, state) ^ crc
    return ~_one_after_the_other(state, memoryview(data)[len(data) - rest :]) & 0xFFFFFFFF


def _one_after_the_other(state: int, data: bytes | memoryview) -> int:
    table = _numbers()
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    return state


@cache
def _table() -> Table:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


@cache
def _numbers() -> list[int]:
    found: list[int] = _table().tolist()
    return found


def _behind(length: int) -> list[int]:
    """For each bit of a sum, what it becomes when so many zero bytes follow."""
    states: NDArray[Any] = (np.uint32(1) << np.arange(32, dtype=np.uint32)).astype(np.uint32)
    for _ in range(length):
        states = _table()[states & 0xFF] ^ (states >> 8)
    found: list[int] = states.tolist()
    return found


def _moved(step: list[int], state: int) -> int:
    moved, bit = 0, 0
    while state >> bit:
        moved ^= step[bit] if state >> bit & 1 else 0
        bit += 1
    return moved
