"""How many threads the engine may use. Knows nothing of plans."""

from __future__ import annotations

from rnnbridge._native import library
from rnnbridge.engine.arguments import whole
from rnnbridge.errors import NativeError


def set_num_threads(n: int) -> None:
    """Let every later call use at most n threads, unless it says `threads=`. Results do not depend on it, bit for bit.

    Args:
        n: at least 1; 0 sets the default: RNNBRIDGE_NUM_THREADS, else the CPUs that this process may keep busy, by its
            affinity and by its control group's share of time (a container's limit).

    Raises:
        ArgumentError: n is not a whole number of 0 to 1024.
    """
    library().rnb_set_num_threads(whole("the number of threads", n, least=0, most=1024))


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
        ArgumentError: it is neither None nor a whole number of 1 to 1024.
    """
    return 0 if threads is None else whole("threads", threads, least=1, most=1024)
