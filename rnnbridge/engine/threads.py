"""How many threads the engine may use. Knows nothing of plans."""

from __future__ import annotations

import operator

from rnnbridge._native import library
from rnnbridge.errors import ArgumentError, NativeError


def set_num_threads(n: int) -> None:
    """Let every later call use at most n threads, unless it says `threads=`. Results do not depend on it, bit for bit.

    Args:
        n: at least 1; 0 sets the default: RNNBRIDGE_NUM_THREADS, else the CPUs that this process may run on.

    Raises:
        ArgumentError: n is not a whole number of at least 0.
    """
    library().rnb_set_num_threads(_thread_count(n))


def get_num_threads() -> int:
    """How many threads a call may use that does not say `threads=`.

    Raises:
        NativeError: nothing was set, and RNNBRIDGE_NUM_THREADS is not a whole number of 1 to 1024.
    """
    if count := int(library().rnb_get_num_threads()):
        return count
    raise NativeError(library().rnb_last_error().decode())


def call_threads(threads: int | None) -> int:
    """The engine's spelling of `threads=`: 0 for None.

    Raises:
        ArgumentError: it is neither None nor a whole number of at least 1.
    """
    if threads is None:
        return 0
    if threads == 0:
        raise ArgumentError("threads is 0; it is at least 1, or None for at most get_num_threads()")
    return _thread_count(threads)


def _thread_count(n: int) -> int:
    try:
        count = operator.index(n)
    except TypeError:
        count = -1
    if not 0 <= count < 2**31:
        raise ArgumentError(f"the number of threads is {n!r}; it is a whole number of at least 0")
    return count
