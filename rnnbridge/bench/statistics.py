"""Ratios of paired times: best, median, and an interval for the median. Knows no clock and no peer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rnnbridge.errors import ArgumentError

LEAST_COVERAGE = 0.95


@dataclass(frozen=True)
class Ratio:
    """How many times as long the other one took as we did: above 1, we are faster.

    Args:
        best: the other's shortest time over our shortest.
        median: of the ratios of the pairs.
        low, high: an interval for the median: two of the ratios, by rank.
        coverage: the probability that such an interval holds the true median, if the pairs are independent.
    """

    best: float
    median: float
    low: float
    high: float
    coverage: float


def paired(ours: Sequence[float], other: Sequence[float]) -> Ratio:
    """The ratio of times that were measured in pairs.

    Args:
        ours, other: seconds, all above 0; those of one index were measured next to each other.

    Raises:
        ArgumentError: no pairs, or sequences of unequal length.
    """
    if len(ours) != len(other) or not ours:
        raise ArgumentError(f"{len(ours)} times of ours and {len(other)} of the other are no pairs")
    ratios = sorted(b / a for a, b in zip(ours, other, strict=True))
    rank, coverage = median_rank(len(ratios))
    return Ratio(
        best=min(other) / min(ours),
        median=median(ratios),
        low=ratios[rank],
        high=ratios[-1 - rank],
        coverage=coverage,
    )


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median_rank(count: int) -> tuple[int, float]:
    """Which order statistics bound the median of `count` values, and with what probability.

    The narrowest pair, k-th from below and k-th from above, that holds the true median with at least 95 %, whatever the
    distribution: how many values lie below the median is binomial with p = 1/2 (Conover, Practical Nonparametric
    Statistics, 3rd ed. 1999, section 3.2). Fewer than 6 values cannot reach 95 %: then the smallest and the largest,
    with what they do reach.

    Returns:
        k - 1, the index from either end, and the probability.
    """
    below, rank, coverage = 0.0, 0, 1 - 2 * 0.5**count
    for k in range(1, count // 2 + 1):
        below += math.comb(count, k - 1) * 0.5**count
        if 1 - 2 * below < LEAST_COVERAGE:
            break
        rank, coverage = k - 1, 1 - 2 * below
    return rank, max(coverage, 0.0)
