"""Optimisers, clipping and schedules against PyTorch's own, with every option, over many updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.training import (
    SGD,
    Adam,
    AdamW,
    CosineDecay,
    ExponentialDecay,
    Optimiser,
    Plateau,
    RMSprop,
    Schedule,
    StepDecay,
    WarmUp,
    clip_by_norm,
    clip_by_value,
)
from tests.gradients import Arrays, judge

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

UPDATES = 23
OPTIMISERS: dict[str, tuple[Optimiser, str, dict[str, Any]]] = {
    f"{kind.__name__} {options}": (kind(lr, **options), kind.__name__, {"lr": lr, **options})
    for kind, lr, many in [
        (
            SGD,
            0.05,
            [
                {},
                {"weight_decay": 0.03},
                {"momentum": 0.9},
                {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.02},
                {"momentum": 0.7, "nesterov": True},
            ],
        ),
        (
            Adam,
            0.02,
            [{}, {"betas": (0.7, 0.95), "eps": 1e-3}, {"weight_decay": 0.1}, {"amsgrad": True}, {"betas": (0.3, 0.9)}],
        ),
        (AdamW, 0.02, [{}, {"weight_decay": 0.3}, {"amsgrad": True, "betas": (0.8, 0.99)}]),
        (
            RMSprop,
            0.01,
            [
                {},
                {"alpha": 0.9, "eps": 1e-2},
                {"momentum": 0.6},
                {"centered": True, "weight_decay": 0.1},
                {"centered": True, "momentum": 0.5, "alpha": 0.4},
            ],
        ),
    ]
    for options in many
}


def given(update: int) -> Arrays:
    """Two weights' numbers for one update; update -1 gives the weights to begin with."""
    rng = np.random.default_rng((5, update + 1))
    scale = 1 if update < 0 else 10 ** np.sin(update)  # gradients that grow and fall
    return {name: rng.standard_normal(shape).astype("f") * np.float32(scale) for name, shape in SHAPES.items()}


SHAPES = {"weight": (3, 5), "bias": (7,)}


def theirs(kind: str, options: dict[str, Any], dtype: str) -> Arrays:
    weights = {name: torch.tensor(array.astype(dtype), requires_grad=True) for name, array in given(-1).items()}
    optimiser = getattr(torch.optim, kind)(weights.values(), **options)
    for update in range(UPDATES):
        for name, gradient in given(update).items():
            weights[name].grad = torch.tensor(gradient.astype(dtype))
        optimiser.step()
    return {name: array.detach().numpy() for name, array in weights.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_many_updates_end_where_pytorchs_do(name: str, dtype: str) -> None:
    optimiser, kind, options = OPTIMISERS[name]
    optimiser.state.clear()
    weights = {name: array.astype(dtype) for name, array in given(-1).items()}
    for update in range(UPDATES):
        optimiser.update(weights, {name: array.astype(dtype) for name, array in given(update).items()})
    judge(weights, theirs(kind, options, "float64"), theirs(kind, options, "float32"), dtype)


def test_only_weights_with_gradients_move_and_each_counts_its_own_updates() -> None:
    weights, optimiser = given(-1), Adam(0.02)
    before = weights["bias"].copy()
    optimiser.update(weights, {"weight": given(0)["weight"]})
    assert np.array_equal(weights["bias"], before)
    optimiser.update(weights, given(1))
    assert {name: int(slots["step"]) for name, slots in optimiser.state.items()} == {"weight": 2, "bias": 1}


def test_a_rate_can_be_given_for_one_update() -> None:
    one, other = given(-1), given(-1)
    SGD(0.5).update(one, given(0), lr=0.125)
    SGD(0.125).update(other, given(0))
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_settings_that_are_numpys_numbers_change_no_dtype_and_are_kept_as_pythons(number: Any) -> None:
    some = number(0.25)
    betas = (some, some)
    for one in (
        SGD(some, momentum=some, weight_decay=some),
        Adam(some, betas=betas, eps=some, weight_decay=some, amsgrad=True),
        RMSprop(some, alpha=some, eps=some, weight_decay=some, momentum=some, centered=True),
    ):
        weights = given(-1)
        one.update(weights, given(0))
        kept = {kept.dtype for slots in one.state.values() for slot, kept in slots.items() if slot != "step"}
        assert kept == {weights["bias"].dtype}
        assert type(one.lr) is float
    plateau = Plateau(some, patience=0, lowest=number(0))
    for loss in (1.0, 2.0):
        plateau.observe(loss, 0.5)
    assert plateau.state()["lr"] == 0.125
    assert type(plateau.state()["lr"]) is float


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Adam(-1.0), "lr is -1.0; it is a number of at least 0"),
        (lambda: Adam(betas=(0.9, 1.0)), "each of betas is 1.0; it is a number of at least 0 and below 1"),
        (lambda: Adam(betas=0.9), "betas is 0.9; it is a pair"),
        (lambda: SGD(nesterov=True), "nesterov needs a momentum above 0"),
        (lambda: RMSprop(alpha="much"), "alpha is 'much'"),
        (lambda: AdamW(weight_decay=float("nan")), "weight_decay is nan"),
        (lambda: StepDecay(0), "every is 0"),
        (lambda: CosineDecay(7, per="batch"), "per is 'batch'; it is 'epoch' or 'step'"),
        (lambda: Plateau(factor=1.0), "factor is 1.0"),
        (lambda: Plateau(per="step"), "Plateau looks at an epoch's loss"),
        (lambda: WarmUp(3, Plateau()), "cannot follow a warm-up"),
        (lambda: WarmUp(3, CosineDecay(5), per="step"), "counts per 'step' and what follows it per 'epoch'"),
        (lambda: clip_by_norm({}, -1), "the limit of the norm is -1"),
    ],
)
def test_settings_out_of_range_are_refused(make: Any, said: str) -> None:
    with pytest.raises(rb.ArgumentError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("gradients", "said"),
    [
        ({"wieght": np.zeros((3, 5), "f")}, "no such weight"),
        ({"bias": np.zeros(7, "f"), "weight": np.zeros((5, 3), "f")}, "is float32 [5, 3]; it is float32 [3, 5]"),
        ({"bias": np.zeros(7, "f"), "weight": np.zeros((3, 5))}, "is float64 [3, 5]; it is float32 [3, 5]"),
    ],
)
def test_gradients_that_do_not_fit_change_nothing(gradients: Arrays, said: str) -> None:
    weights, optimiser = given(-1), Adam()
    with pytest.raises(rb.ArgumentError) as caught:
        optimiser.update(weights, gradients)
    assert said in str(caught.value)
    assert optimiser.state == {}
    assert all(np.array_equal(array, given(-1)[name]) for name, array in weights.items())


@pytest.mark.parametrize("limit", [0.25, 3.0, 1e4])
def test_clipping_gives_what_pytorchs_does(limit: float) -> None:
    def clipped(dtype: str, how: str) -> Arrays:
        weights = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
        for name, array in given(1).items():
            weights[name] = torch.zeros_like(torch.tensor(array.astype(dtype)))
            weights[name].grad = torch.tensor(array.astype(dtype))
        getattr(torch.nn.utils, how)(weights.values(), limit)
        return {name: array.grad.numpy() for name, array in weights.items()}

    by_norm, by_value = given(1), given(1)
    norm = clip_by_norm(by_norm, limit)
    clip_by_value(by_value, limit)
    assert norm == pytest.approx(np.linalg.norm(np.concatenate([a.ravel() for a in given(1).values()])), rel=1e-6)
    judge(by_norm, clipped("float64", "clip_grad_norm_"), clipped("float32", "clip_grad_norm_"), "float32")
    judge(by_value, clipped("float64", "clip_grad_value_"), clipped("float32", "clip_grad_value_"), "float32")


def torch_rates(make: Any, losses: list[float] | None = None) -> list[float]:
    weight = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.SGD([weight], lr=RATE)
    schedule, rates = make(optimiser), []
    for t in range(TIMES):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step(*([losses[t]] if losses else []))
    return rates


RATE, TIMES = 0.3, 41
SCHEDULES: dict[str, tuple[Schedule, Any]] = {
    "step": (StepDecay(7, 0.5), lambda o: torch.optim.lr_scheduler.StepLR(o, 7, 0.5)),
    "exponential": (ExponentialDecay(0.93), lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.93)),
    "cosine": (CosineDecay(37, 0.01), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 37, 0.01)),
    "warm-up": (WarmUp(5), lambda o: torch.optim.lr_scheduler.LinearLR(o)),
    "warm-up then cosine": (
        WarmUp(11, CosineDecay(30), start=0.125),
        lambda o: torch.optim.lr_scheduler.SequentialLR(
            o,
            [
                torch.optim.lr_scheduler.LinearLR(o, 0.125, total_iters=11),
                torch.optim.lr_scheduler.CosineAnnealingLR(o, 30),
            ],
            milestones=[11],
        ),
    ),
}


@pytest.mark.filterwarnings("ignore:The epoch parameter:UserWarning")
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_gives_pytorchs_rates(name: str) -> None:
    ours, make = SCHEDULES[name]
    got, expected = [ours.rate(RATE, t) for t in range(TIMES)], torch_rates(make)
    # PyTorch multiplies from rate to rate in double precision: one rounding or two at every t.
    assert np.abs(np.subtract(got, expected)).max() <= 4 * TIMES * np.finfo(float).eps * RATE
    assert len(set(expected)) > 2


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"patience": 0, "factor": 0.5, "cooldown": 3},
        {"patience": 1, "threshold": 0.05},
        {"patience": 1, "factor": 0.3, "lowest": 0.02},
    ],
)
def test_the_plateau_lowers_the_rate_when_pytorchs_does(options: dict[str, Any]) -> None:
    losses = [float(x) for x in 1 + np.exp(-np.arange(TIMES) / 6) + 0.1 * np.random.default_rng(2).random(TIMES)]
    theirs = {"min_lr" if name == "lowest" else name: value for name, value in options.items()}
    expected = torch_rates(lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, **theirs), losses)
    schedule, got = Plateau(**options), []
    for t in range(TIMES):
        got.append(schedule.rate(RATE, t))
        schedule.observe(losses[t], got[-1])
    assert got == expected
    assert len(set(got)) > 2


def test_a_plateau_goes_on_from_its_state_and_begins_anew_without() -> None:
    schedule, other = Plateau(patience=1), Plateau(patience=1)
    for loss in (1.0, 2.0):
        schedule.observe(loss, RATE)
    other.restore(schedule.state())
    for one in (schedule, other):
        one.observe(3.0, RATE)
    assert schedule.rate(RATE, 3) == other.rate(RATE, 3) == RATE * 0.1
    schedule.restore({})
    assert schedule.rate(RATE, 0) == RATE
