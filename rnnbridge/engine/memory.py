"""Aligned memory for the engine, and the blocks that are kept between calls. Knows nothing of plans."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge._native.interface import ALIGNMENT

Block = NDArray[np.uint8]

# Free blocks, each as large as the largest plan it served. Scratch serves one call, so there is one block per call that
# ever ran at the same time as others; tapes live as long as their owners and may be many, so some are kept.
# A call takes a block off its list and puts it back, so neither threads nor a signal handler's call share one; list
# operations are atomic, so there is no lock that a fork could leave held.
_free: list[Block] = []
_free_tapes: list[Block] = []
_MOST_TAPES = 8


def address(array: NDArray[Any]) -> int:
    """Where an array begins. `array.ctypes.data` says the same, more slowly."""
    place: int = array.__array_interface__["data"][0]
    return place


def aligned_empty(nbytes: int) -> Block:
    """Uninitialised bytes at an address that the engine accepts for packed weights, workspace and tape.

    Args:
        nbytes: how many.

    Returns:
        uint8 array [nbytes], its address a multiple of 64.
    """
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address(block) % ALIGNMENT
    return block[start:][:nbytes]  # in two cuts, as an empty slice would fall back to the block's own address


def is_aligned(array: NDArray[Any]) -> bool:
    """Whether the engine accepts the address for packed weights, workspace and tape."""
    return address(array) % ALIGNMENT == 0


@contextlib.contextmanager
def borrowed(*nbytes: int) -> Iterator[list[Block]]:
    """Aligned blocks of at least these sizes for the length of one call, cut from memory that is kept for the next."""
    ends = [0]
    for size in nbytes:
        ends.append(ends[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
    block = _taken(_free, ends[-1])
    try:
        yield [block[start : start + size] for start, size in zip(ends[:-1], nbytes, strict=True)]
    finally:
        _free.append(block)


def lent(owner: object, nbytes: int) -> Block:
    """An aligned block of this size that belongs to `owner` while it lives, and is then kept for the next one."""
    block = _taken(_free_tapes, nbytes)
    weakref.finalize(owner, _keep_tape, block).atexit = False
    return block[:nbytes]


def trim() -> None:
    """Free the memory that the engine keeps between calls. Calls in progress and tapes in use keep theirs."""
    _free.clear()
    _free_tapes.clear()


def _keep_tape(block: Block) -> None:
    if len(_free_tapes) < _MOST_TAPES:
        _free_tapes.append(block)


def _taken(free: list[Block], nbytes: int) -> Block:
    """A free block of at least this size, the last one that was in use, else a new one in its place."""
    try:
        block = free.pop()
    except IndexError:
        return aligned_empty(nbytes)
    return block if block.nbytes >= nbytes else aligned_empty(nbytes)
