"""Ending a training that no longer gets better: `EarlyStopping`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from rnnbridge.engine.arguments import whole
from rnnbridge.training.arguments import real
from rnnbridge.training.sequential import Sequential, trainable

Array = NDArray[Any]


@dataclass
class EarlyStopping:
    """End after `patience` epochs whose validation loss was not better, and go back to the best epoch's weights.

    Args:
        patience: epochs without a better loss, at least 1.
        min_delta: by how much a loss must be smaller than the best to be a better one.

    Attributes:
        best: the best validation loss; None before the first epoch.
        bad: epochs since.
        weights: those of the best epoch.
    """

    patience: int = 5
    min_delta: float = field(default=0.0, kw_only=True)
    best: float | None = field(default=None, init=False)
    bad: int = field(default=0, init=False)
    weights: dict[str, Array] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        whole("patience", self.patience, least=1)
        real("min_delta", self.min_delta)

    @property
    def is_over(self) -> bool:
        """Whether patience has ended."""
        return self.bad >= self.patience

    def begin(self) -> None:
        """Forget what was observed."""
        self.best, self.bad, self.weights = None, 0, {}

    def observe(self, loss: float, model: Sequential) -> None:
        """Look at an epoch's validation loss, and keep the weights if it is the best."""
        if not math.isnan(loss) and (self.best is None or loss < self.best - self.min_delta):
            self.best, self.bad = loss, 0
            self.weights = {name: array.copy() for name, array in trainable(model).items()}
        else:
            self.bad += 1

    def restore(self, model: Sequential) -> None:
        """Write the best epoch's weights to the model, if there was an epoch."""
        for name, array in self.weights.items():
            model.weights[name][...] = array
