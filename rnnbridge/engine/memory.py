"""Aligned memory for the engine, and the blocks that are kept between calls. Knows nothing of plans."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge._native.interface import ALIGNMENT

Block = NDArray[np.uint8]

# Free blocks: one per call that ever ran at the same time as others, each as large as the largest plan it served.
# A call takes a block off the list and puts it back, so neither threads nor a signal handler's call share one; list
# operations are atomic, so there is no lock that a fork could leave held.
_free: list[Block] = []


def aligned_empty(nbytes: int) -> Block:
    """Uninitialised bytes at an address that the engine accepts for packed weights and workspace.

    Args:
        nbytes: how many.

    Returns:
        uint8 array [nbytes], its address a multiple of 64.
    """
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start:][:nbytes]  # in two cuts, as an empty slice would fall back to the block's own address


def is_aligned(array: NDArray[Any]) -> bool:
    """Whether the engine accepts the address for packed weights and workspace."""
    return array.ctypes.data % ALIGNMENT == 0


@contextlib.contextmanager
def borrowed(*nbytes: int) -> Iterator[list[Block]]:
    """Aligned blocks of at least these sizes for the length of one call, cut from memory that is kept for the next."""
    ends = [0]
    for size in nbytes:
        ends.append(ends[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
    try:
        block = _free.pop()
    except IndexError:
        block = aligned_empty(ends[-1])
    if block.nbytes < ends[-1]:
        block = aligned_empty(ends[-1])
    try:
        yield [block[start : start + size] for start, size in zip(ends[:-1], nbytes, strict=True)]
    finally:
        _free.append(block)


def trim() -> None:
    """Free the memory that the engine keeps between calls. Calls in progress keep theirs until they end."""
    _free.clear()
