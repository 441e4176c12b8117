"""How the learning rate changes over a training, each as PyTorch's scheduler of the same kind. Knows numbers only.

A schedule gives the rate at time t = 0, 1, 2 ... of a training, counted in updates (per="step") or in epochs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from rnnbridge.engine.arguments import whole
from rnnbridge.errors import ArgumentError
from rnnbridge.training.arguments import one_of, real

_PER = ("epoch", "step")


@dataclass
class Schedule(ABC):
    """What all of them share.

    Args:
        per: what t counts: "epoch" or "step", an update of the weights.
    """

    per: str = field(default="epoch", kw_only=True)

    def __post_init__(self) -> None:
        one_of("per", self.per, _PER)

    @abstractmethod
    def rate(self, lr: float, t: int) -> float:
        """The learning rate at time t, given the optimiser's."""

    def observe(self, loss: float, lr: float) -> None:  # noqa: B027 (most schedules look at nothing)
        """Look at an epoch's loss, that of validation where there is one, and the rate it was trained with."""

    def state(self) -> dict[str, Any]:
        """What it has observed, for a checkpoint; most schedules have nothing."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:  # noqa: B027 (most schedules have no state)
        """Go on from a `state`; from {}, begin anew."""


@dataclass
class StepDecay(Schedule):
    """Times gamma at every `every`-th t (`StepLR`)."""

    every: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("every", self.every, least=1)
        real("gamma", self.gamma)

    def rate(self, lr: float, t: int) -> float:
        """lr * gamma ** (t // every)."""
        return lr * self.gamma ** (t // self.every)


@dataclass
class ExponentialDecay(Schedule):
    """Times gamma at every t (`ExponentialLR`)."""

    gamma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        real("gamma", self.gamma)

    def rate(self, lr: float, t: int) -> float:
        """lr * gamma ** t."""
        return lr * float(self.gamma) ** t


@dataclass
class CosineDecay(Schedule):
    """Half a cosine from lr down to `lowest` at t = length, and back up after it (`CosineAnnealingLR`)."""

    length: int
    lowest: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("length", self.length, least=1)
        real("lowest", self.lowest)

    def rate(self, lr: float, t: int) -> float:
        """lowest + (lr - lowest) * (1 + cos(pi t / length)) / 2."""
        return self.lowest + (lr - self.lowest) * (1 + math.cos(math.pi * t / self.length)) / 2


@dataclass
class WarmUp(Schedule):
    """From `start` * lr in a straight line to lr at t = length (`LinearLR`), then as another schedule says.

    Args:
        length: how long, in what `per` counts.
        then: the schedule that begins at t = length, counted the same way; None stays at lr.
        start: the part of lr to begin with.
    """

    length: int
    then: Schedule | None = None
    start: float = 1 / 3

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("length", self.length, least=1)
        real("start", self.start)
        if isinstance(self.then, Plateau):
            raise ArgumentError("Plateau looks at losses from the first epoch on; it cannot follow a warm-up")
        if self.then is not None and self.then.per != self.per:
            raise ArgumentError(f"the warm-up counts per {self.per!r} and what follows it per {self.then.per!r}")

    def rate(self, lr: float, t: int) -> float:
        """lr * (start + (1 - start) * t / length), then the other schedule's."""
        if t < self.length:
            return lr * (self.start + (1 - self.start) * t / self.length)
        return self.then.rate(lr, t - self.length) if self.then else lr


@dataclass
class Plateau(Schedule):
    """Times `factor` when the loss has not become smaller for more than `patience` epochs (`ReduceLROnPlateau`).

    Args:
        factor: below 1.
        patience: epochs without a better loss that are let pass.
        threshold: the part by which a loss is smaller than the best to be a better one.
        cooldown: epochs after a change that are not counted.
        lowest: the rate does not fall below it.
    """

    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    cooldown: int = 0
    lowest: float = 0.0
    _state: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per != "epoch":
            raise ArgumentError("Plateau looks at an epoch's loss: leave per out")
        self.factor = real("factor", self.factor, below=1.0)
        for name in ("patience", "cooldown"):
            whole(name, getattr(self, name), least=0)
        self.threshold, self.lowest = real("threshold", self.threshold, below=1), real("lowest", self.lowest)
        self.restore({})

    def rate(self, lr: float, t: int) -> float:
        """The rate after the epochs observed."""
        return lr if self._state["lr"] is None else float(self._state["lr"])

    def observe(self, loss: float, lr: float) -> None:
        """Count an epoch, and lower the rate if it is one too many."""
        now = self._state
        if not math.isnan(loss) and (now["best"] is None or loss < now["best"] * (1 - self.threshold)):
            now["best"], now["bad"] = loss, 0
        else:
            now["bad"] += 1
        if now["cooling"] > 0:
            now["cooling"], now["bad"] = now["cooling"] - 1, 0
        if now["bad"] > self.patience:
            lower = max(lr * self.factor, self.lowest)
            now.update(lr=lower if lr - lower > _LEAST_CHANGE else lr, cooling=self.cooldown, bad=0)

    def state(self) -> dict[str, Any]:
        """The rate, the best loss, and what is counted."""
        return dict(self._state)

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a `state`; from {}, begin anew."""
        self._state = {"lr": None, "best": None, "bad": 0, "cooling": 0, **state}


_LEAST_CHANGE = 1e-8  # torch's eps: a smaller change is not made
