"""The engine from Python: plans on the caller's memory, the memory kept between calls, and threads.

Knows the canonical form only: no framework, no convention.
"""

from rnnbridge._native.interface import Accumulate
from rnnbridge.engine.c_spec import unsupported
from rnnbridge.engine.dropout import Dropout
from rnnbridge.engine.memory import aligned_empty, borrowed, lent, trim
from rnnbridge.engine.plan import Plan
from rnnbridge.engine.threads import get_num_threads, set_num_threads

__all__ = [
    "Accumulate",
    "Dropout",
    "Plan",
    "aligned_empty",
    "borrowed",
    "get_num_threads",
    "lent",
    "set_num_threads",
    "trim",
    "unsupported",
]
