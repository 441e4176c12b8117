"""Losses against PyTorch's: their means, their gradients, and what does not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.training import MSE, BCEWithLogits, CrossEntropy, LossValue
from tests.gradients import judge

N, T, C = 5, 7, 11
LENGTHS = np.array([7, 0, 3, 1, 5])
VALID = np.arange(T) < LENGTHS[:, None]
RNG = np.random.default_rng(3)
SCORES = RNG.standard_normal((N, T, C)) * 4
CLASSES = RNG.integers(0, C, (N, T))
CLASSES[0, 2] = CLASSES[2, 0] = -100
NUMBERS, SHARES = RNG.standard_normal((N, T, C)), RNG.random((N, T, C))

CASES: dict[str, tuple[Any, np.ndarray, Any]] = {
    "cross entropy": (CrossEntropy(), CLASSES, lambda t: t.nn.CrossEntropyLoss()),
    "cross entropy, class 3 ignored": (CrossEntropy(3), CLASSES % C, lambda t: t.nn.CrossEntropyLoss(ignore_index=3)),
    "squared error": (MSE(), NUMBERS, lambda t: t.nn.MSELoss()),
    "binary cross entropy": (BCEWithLogits(), SHARES, lambda t: t.nn.BCEWithLogitsLoss()),
}


def theirs(name: str, dtype: str, with_lengths: bool) -> dict[str, np.ndarray]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    _, target, make = CASES[name]
    y = torch.tensor(SCORES.astype("f").astype(dtype), requires_grad=True)
    wanted = torch.tensor(target if target.dtype.kind == "i" else target.astype("f").astype(dtype))
    counts = torch.tensor(VALID if with_lengths else np.ones_like(VALID))
    mean = make(torch)(y[counts], wanted[counts])
    mean.backward()
    return {"mean": mean.detach().numpy(), "dy": y.grad.numpy()}


def ours(name: str, dtype: str, with_lengths: bool) -> LossValue:
    loss, target, _ = CASES[name]
    wanted = target if target.dtype.kind == "i" else target.astype("f").astype(dtype)
    return loss(SCORES.astype("f").astype(dtype), wanted, LENGTHS if with_lengths else None)


@pytest.mark.parametrize("with_lengths", [False, True], ids=["all steps", "lengths"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_mean_and_gradient_are_pytorchs(name: str, dtype: str, with_lengths: bool) -> None:
    value = ours(name, dtype, with_lengths)
    exact, rough = (theirs(name, kind, with_lengths) for kind in ("float64", "float32"))
    got = {"mean": np.array(value.mean, dtype), "dy": value.dy}
    judge(got, exact, rough, dtype)
    assert not with_lengths or not value.dy[~VALID].any()


@pytest.mark.parametrize("name", CASES)
def test_what_is_past_a_length_is_not_looked_at(name: str) -> None:
    loss, target, _ = CASES[name]
    y, wanted = SCORES.copy(), target.copy()
    clean = loss(y, wanted, LENGTHS)
    y[~VALID] = np.nan
    wanted[~VALID] = 999
    noisy = loss(y, wanted, LENGTHS)
    assert clean.mean == noisy.mean
    assert np.array_equal(clean.dy, noisy.dy)


@pytest.mark.parametrize("name", CASES)
def test_nothing_that_counts_is_zero_with_a_gradient_of_zeros(name: str) -> None:
    loss, target, _ = CASES[name]
    value = loss(SCORES, target, np.zeros(N, int))
    assert (value.mean, value.counted) == (0.0, 0)
    assert not value.dy.any()


def test_one_answer_for_each_sequence_is_a_batch_without_time() -> None:
    value = CrossEntropy()(SCORES[:, 0], CLASSES[:, 1])
    other = CrossEntropy()(SCORES[:, :1], CLASSES[:, 1:2])
    assert value.mean == other.mean
    assert np.array_equal(value.dy, other.dy[:, 0])


@pytest.mark.parametrize("size", [0.0, 1e4])
def test_large_scores_do_not_overflow(size: float) -> None:
    y = np.full((2, 3), size, "f")
    y[:, 0] = -size
    labels, shares = np.array([0, 1]), np.zeros((2, 3), "f")
    for value in (CrossEntropy()(y, labels), BCEWithLogits()(y, shares), BCEWithLogits()(-y, shares)):
        assert np.isfinite(value.mean)
        assert np.isfinite(value.dy).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: CrossEntropy()(SCORES, CLASSES[0]), "is int64 [7] for y [5, 7, 11]; it is whole numbers [5, 7]"),
        (lambda: CrossEntropy()(SCORES, NUMBERS[..., 0]), "is float64 [5, 7] for"),
        (lambda: CrossEntropy()(SCORES, CLASSES * 2), "they are 0 to 10, or ignore_index"),
        (lambda: CrossEntropy(ignore_index=0.5), "ignore_index is 0.5"),
        (lambda: CrossEntropy()(SCORES[:, 0], CLASSES[:, 0], LENGTHS), "[5] have no time axis"),
        (lambda: MSE()(SCORES, NUMBERS.astype("f")), "is float32 [5, 7, 11] for y [5, 7, 11]; it is float64"),
        (lambda: MSE()(SCORES, [1.0]), "is a list for"),
        (lambda: CrossEntropy()(CLASSES, CLASSES[:, 0]), "a y that is int64 [5, 7]; it takes what a model gives"),
        (lambda: CrossEntropy()([[0.5, 1.5]], CLASSES[0, :1]), "a y that is a list"),
        (lambda: BCEWithLogits()(SCORES, SHARES, LENGTHS + 1), "lengths go from 1 to 8; they are 0 to T = 7"),
    ],
)
def test_targets_that_do_not_fit_are_refused(call: Any, said: str) -> None:
    with pytest.raises(rb.ArgumentError) as caught:
        call()
    assert said in str(caught.value)
