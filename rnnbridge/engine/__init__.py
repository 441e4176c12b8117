"""The engine from Python: plans on the caller's memory, the memory kept between calls, and threads.

Knows the canonical form only: no framework, no convention.
"""

from rnnbridge.engine.memory import aligned_empty, borrowed, trim
from rnnbridge.engine.plan import Plan, unsupported
from rnnbridge.engine.threads import get_num_threads, set_num_threads

__all__ = ["Plan", "aligned_empty", "borrowed", "get_num_threads", "set_num_threads", "trim", "unsupported"]
