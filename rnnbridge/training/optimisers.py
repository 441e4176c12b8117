"""How weights follow their gradients: `SGD`, `Adam`, `AdamW`, `RMSprop`, each as PyTorch defines it.

Sources: the single-tensor functions of torch/optim/sgd.py, adam.py, adamw.py and rmsprop.py. Knows no models: an
optimiser gets arrays by name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import ArgumentError
from rnnbridge.training.arguments import real, said

Array = NDArray[Any]
Slots = dict[str, Array]


@dataclass(eq=False)
class Optimiser(ABC):
    """What all of them share.

    Attributes:
        lr: the learning rate; a schedule starts from it and leaves it as it is.
        state: name of a weight -> what is kept for it from update to update, "step" among it: the updates so far.
    """

    lr: float
    state: dict[str, Slots] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._read("lr")

    def _read(self, *names: str) -> None:
        """Make settings plain floats: a NumPy number would decide the dtype of what is kept, and is no JSON."""
        for name in names:
            setattr(self, name, real(name, getattr(self, name)))

    def update(self, weights: Mapping[str, Array], gradients: Mapping[str, Array], lr: float | None = None) -> None:
        """Write new weights over the old ones.

        Args:
            weights: name -> array, written to in place; may have more than there are gradients for.
            gradients: name -> array of the weight's shape and dtype; only read.
            lr: the rate of this update; None is the optimiser's own.

        Raises:
            ArgumentError: a gradient that does not fit, before anything is written.
        """
        for name, gradient in gradients.items():
            _check(name, weights.get(name), gradient)
            for slot, kept in self.state.get(name, {}).items():
                if np.ndim(kept) and kept.shape != gradient.shape:
                    raise ArgumentError(
                        f"the optimiser's {slot} of {name} is {list(kept.shape)}, the gradient {list(gradient.shape)}: "
                        "it trained another model; make a new one"
                    )
        rate = real("lr", self.lr if lr is None else lr)
        for name, gradient in gradients.items():
            slots = self.state.setdefault(name, {"step": np.zeros((), np.int64)})
            slots["step"] += 1
            self._move(weights[name], gradient, slots, rate)

    @abstractmethod
    def _move(self, weight: Array, gradient: Array, slots: Slots, lr: float) -> None:
        """Update one weight, and its slots; arrays in them are written to in place."""


@dataclass(eq=False)
class SGD(Optimiser):
    """Gradient descent, with momentum (`torch.optim.SGD`).

    Args:
        lr: learning rate.
        momentum: the part of the last step that goes on.
        dampening: the part of the gradient that is left out of the momentum.
        weight_decay: times the weight, added to the gradient.
        nesterov: look ahead along the momentum; it needs momentum and no dampening.
    """

    lr: float = 1e-3
    momentum: float = field(default=0.0, kw_only=True)
    dampening: float = field(default=0.0, kw_only=True)
    weight_decay: float = field(default=0.0, kw_only=True)
    nesterov: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._read("momentum", "dampening", "weight_decay")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ArgumentError("nesterov needs a momentum above 0 and a dampening of 0")

    def _move(self, weight: Array, gradient: Array, slots: Slots, lr: float) -> None:
        step = _decayed(weight, gradient, self.weight_decay)
        if self.momentum:
            if "momentum" in slots:
                slots["momentum"] *= self.momentum
                slots["momentum"] += (1 - self.dampening) * step
            else:
                slots["momentum"] = step.copy()
            step = step + self.momentum * slots["momentum"] if self.nesterov else slots["momentum"]
        weight -= lr * step


@dataclass(eq=False)
class Adam(Optimiser):
    """Adam (`torch.optim.Adam`): steps of about the learning rate, whatever the gradients' scale.

    Args:
        lr: learning rate.
        betas: how much of the mean gradient and of the mean square is kept from update to update.
        eps: added to the root of the mean square.
        weight_decay: times the weight, added to the gradient.
        amsgrad: divide by the largest mean square so far.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = field(default=(0.9, 0.999), kw_only=True)
    eps: float = field(default=1e-8, kw_only=True)
    weight_decay: float = field(default=0.0, kw_only=True)
    amsgrad: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise ArgumentError(f"betas is {self.betas!r}; it is a pair such as (0.9, 0.999)")
        first, second = (real("each of betas", beta, below=1.0) for beta in self.betas)
        self.betas = (first, second)
        self._read("eps", "weight_decay")

    def _move(self, weight: Array, gradient: Array, slots: Slots, lr: float) -> None:
        self._follow(weight, _decayed(weight, gradient, self.weight_decay), slots, lr)

    def _follow(self, weight: Array, gradient: Array, slots: Slots, lr: float) -> None:
        step, (beta1, beta2) = int(slots["step"]), self.betas
        mean, square = _slot(slots, "mean", weight), _slot(slots, "square", weight)
        mean += (1 - beta1) * (gradient - mean)
        square *= beta2
        square += (1 - beta2) * gradient * gradient
        if self.amsgrad:
            largest = _slot(slots, "largest", weight)
            square = np.maximum(largest, square, out=largest)
        root = np.sqrt(square) / math.sqrt(1 - beta2**step) + self.eps
        weight -= lr / (1 - beta1**step) * (mean / root)


@dataclass(eq=False)
class AdamW(Adam):
    """Adam whose weight decay does not go through the gradient (`torch.optim.AdamW`).

    Args:
        weight_decay: times the learning rate: the part of each weight that is taken off it at every update.

    The other arguments are `Adam`'s.
    """

    weight_decay: float = field(default=1e-2, kw_only=True)

    def _move(self, weight: Array, gradient: Array, slots: Slots, lr: float) -> None:
        weight *= 1 - lr * self.weight_decay
        self._follow(weight, gradient, slots, lr)


@dataclass(eq=False)
class RMSprop(Optimiser):
    """RMSprop (`torch.optim.RMSprop`): gradients over the root of their mean square.

    Args:
        lr: learning rate.
        alpha: how much of the mean square is kept from update to update.
        eps: added to the root.
        weight_decay: times the weight, added to the gradient.
        momentum: the part of the last step that goes on.
        centered: take the square of the mean gradient off the mean square.
    """

    lr: float = 1e-2
    alpha: float = field(default=0.99, kw_only=True)
    eps: float = field(default=1e-8, kw_only=True)
    weight_decay: float = field(default=0.0, kw_only=True)
    momentum: float = field(default=0.0, kw_only=True)
    centered: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.alpha = real("alpha", self.alpha, below=1.0)
        self._read("eps", "weight_decay", "momentum")

    def _move(self, weight: Array, gradient: Array, slots: Slots, lr: float) -> None:
        gradient = _decayed(weight, gradient, self.weight_decay)
        square = _slot(slots, "square", weight)
        square *= self.alpha
        square += (1 - self.alpha) * gradient * gradient
        if self.centered:
            mean = _slot(slots, "mean", weight)
            mean += (1 - self.alpha) * (gradient - mean)
            square = square - mean * mean
        step = gradient / (np.sqrt(square) + self.eps)
        if self.momentum:
            momentum = _slot(slots, "momentum", weight)
            momentum *= self.momentum
            momentum += step
            step = momentum
        weight -= lr * step


def _decayed(weight: Array, gradient: Array, weight_decay: float) -> Array:
    return gradient + weight_decay * weight if weight_decay else gradient


def _slot(slots: Slots, name: str, weight: Array) -> Array:
    """What is kept for a weight under this name; zeros at first."""
    return slots.setdefault(name, np.zeros_like(weight))


def _check(name: str, weight: Array | None, gradient: Any) -> None:
    if weight is None:
        raise ArgumentError(f"there is a gradient of {name!r} and no such weight")
    if not weight.flags.writeable:
        raise ArgumentError(f"{name!r} is frozen, and there is a gradient of it; leave it out")
    if not isinstance(gradient, np.ndarray) or gradient.shape != weight.shape or gradient.dtype != weight.dtype:
        raise ArgumentError(f"the gradient of {name!r} is {said(gradient)}; it is {weight.dtype} {list(weight.shape)}")
