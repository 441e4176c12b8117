"""How fast the cores are now: multiply-adds in registers, and reads from a cache. Knows no case.

Measured next to every timed pair, since other guests of a machine slow it for seconds at a time.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from rnnbridge._native import codes, library
from rnnbridge.engine import aligned_empty

SECONDS = 0.0015  # of each sample
READ_BYTES = 256 * 1024  # a thread's: within the second level of caches of CPUs since 2017


class Limits:
    """Samples on some threads at once.

    Args:
        dtype: "float32" or "float64", of the multiply-adds.
        threads: how many, each on its own memory.
    """

    def __init__(self, dtype: str, threads: int) -> None:
        self.dtype, self.threads = dtype, threads
        self._pool = ThreadPoolExecutor(threads)
        self._blocks = [aligned_empty(READ_BYTES) for _ in range(threads)]
        for block in self._blocks:
            block.view(np.float32)[:] = 1
        self._library, self._code = library(), codes("dtype")[dtype]
        self._rounds = _enough(lambda count: self._multiply_add(0, count))
        self._times = _enough(lambda count: self._read(0, count))

    def measure(self) -> dict[str, float]:
        """Operations and bytes per second, of all threads together."""
        return {
            "operations": self._rate(self._multiply_add, self._rounds),
            "bytes": self._rate(self._read, self._times),
        }

    def _multiply_add(self, thread: int, rounds: int) -> int:
        operations = ctypes.c_int64()
        self._library.rnb_bench_multiply_add(self._code, rounds, operations)
        return operations.value

    def _read(self, thread: int, times: int) -> int:
        self._library.rnb_bench_read(self._blocks[thread].ctypes.data, READ_BYTES, times)
        return READ_BYTES * times

    def _rate(self, work: Callable[[int, int], int], count: int) -> float:
        """Amount over the time from when all are ready to when the last one ends."""
        ready = threading.Barrier(self.threads)

        def one(thread: int) -> tuple[float, int, float]:
            ready.wait()
            start = time.perf_counter()
            amount = work(thread, count)
            return start, amount, time.perf_counter()

        done = list(self._pool.map(one, range(self.threads)))
        seconds = max(end for _, _, end in done) - min(start for start, _, _ in done)
        return sum(amount for _, amount, _ in done) / seconds


def _enough(work: Callable[[int], Any]) -> int:
    """How much work takes about SECONDS."""
    count = 1
    while True:
        start = time.perf_counter()
        work(count)
        if (seconds := time.perf_counter() - start) > SECONDS / 4:
            return max(round(count * SECONDS / seconds), 1)
        count *= 4
