"""Best, median and interval of ratios, on numbers whose answers are known."""

from __future__ import annotations

import math

import pytest

from rnnbridge.bench.statistics import median, median_rank, paired
from rnnbridge.errors import ArgumentError


def test_best_is_of_the_best_times_and_median_of_the_pairs() -> None:
    found = paired([1.0, 2.0, 4.0], [3.0, 2.0, 8.0])
    assert found.best == 2.0  # 2 over 1: not of one pair
    assert found.median == 2.0  # of 3, 1, 2
    assert (found.low, found.high) == (1.0, 3.0)
    assert found.coverage == 0.75


@pytest.mark.parametrize(("values", "middle"), [([5], 5), ([3, 1], 2), ([9, 1, 5], 5), ([4, 1, 2, 100], 3)])
def test_median(values: list[float], middle: float) -> None:
    assert median(values) == middle


# Conover's and everybody's tables of the sign test: 25 values, the 8th from either end, 95.67 %.
@pytest.mark.parametrize(
    ("count", "rank", "coverage"),
    [(6, 1, 0.96875), (7, 1, 0.984375), (9, 2, 0.9609375), (25, 8, 0.9567), (5, 1, 0.9375), (2, 1, 0.5), (1, 1, 0.0)],
)
def test_the_interval_is_the_sign_tests(count: int, rank: int, coverage: float) -> None:
    found = median_rank(count)
    assert found[0] == rank - 1
    assert found[1] == pytest.approx(coverage, abs=5e-5)


def test_the_interval_is_the_narrowest_that_reaches() -> None:
    for count in range(6, 60):
        rank, coverage = median_rank(count)
        outside = 2 * sum(math.comb(count, k) for k in range(rank + 1)) / 2**count
        assert coverage == pytest.approx(1 - outside)
        narrower = outside + 2 * math.comb(count, rank + 1) / 2**count
        assert coverage >= 0.95 > 1 - narrower


def test_25_pairs_give_the_8th_from_either_end() -> None:
    found = paired([1.0] * 25, [float(k) for k in range(25, 0, -1)])
    assert (found.low, found.median, found.high) == (8.0, 13.0, 18.0)


@pytest.mark.parametrize(("ours", "other"), [([], []), ([1.0], [1.0, 2.0])])
def test_what_is_no_pair_is_refused(ours: list[float], other: list[float]) -> None:
    with pytest.raises(ArgumentError, match="no pairs"):
        paired(ours, other)
