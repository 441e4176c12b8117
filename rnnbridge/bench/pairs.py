"""Two workers timed in turn, with the machine's limits sampled in between. Knows no case and draws no conclusion."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

# A framework's threads go on spinning for a while after a call; the other side waits until they sleep.
SETTLE, SETTLE_THREADS = 0.002, 0.02


class Asked(Protocol):
    """What answers to `time` and, on our side, to `limits`."""

    def ask(self, do: str, **what: Any) -> dict[str, Any]: ...


@dataclass
class Pairs:
    """Times of one call, in seconds, in pairs; and per second what the machine could do around each pair."""

    ours: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    operations: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)


def measure(ours: Asked, other: Asked, blocks: int, seconds: float, dtype: str, threads: int) -> Pairs:
    """Time both in blocks: ours first in one pair, the other first in the next.

    Args:
        blocks: pairs.
        seconds: that each side's calls in a block take, at least one call.
        dtype, threads: of the limits.
    """
    calls = [_calls(side, seconds) for side in (ours, other)]
    found = Pairs()
    before = ours.ask("limits", dtype=dtype, threads=threads)
    for block in range(blocks):
        order = (0, 1) if block % 2 == 0 else (1, 0)
        times = {side: _time((ours, other)[side], calls[side], threads) for side in order}
        after = ours.ask("limits", dtype=dtype, threads=threads)
        found.ours.append(times[0])
        found.other.append(times[1])
        found.operations.append((before["operations"] + after["operations"]) / 2)
        found.bytes.append((before["bytes"] + after["bytes"]) / 2)
        before = after
    return found


def _calls(side: Asked, seconds: float) -> int:
    """How many calls take that long."""
    once = min(float(side.ask("time", calls=1)["seconds"]) for _ in range(2))
    return max(math.ceil(seconds / once), 1)


def _time(side: Asked, calls: int, threads: int) -> float:
    time.sleep(SETTLE if threads == 1 else SETTLE_THREADS)
    return float(side.ask("time", calls=calls)["seconds"]) / calls
