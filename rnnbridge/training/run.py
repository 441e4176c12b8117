"""Where a training stands: `Run`, all that a checkpoint keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rnnbridge.training.history import History
from rnnbridge.training.losses import LossValue
from rnnbridge.training.optimisers import Optimiser
from rnnbridge.training.schedules import Schedule
from rnnbridge.training.sequential import Sequential
from rnnbridge.training.stopping import EarlyStopping


@dataclass
class Run:
    """A training between two updates.

    Args:
        model, optimiser, schedule, stopping, history: what is trained, how, and what was seen.
        batches: of an epoch.
        seed: of the data's orders; None where they have none.
        epoch: whole epochs done.
        batch: batches done of the next one.
        total, count: sum of the losses of those, and how many numbers it is of.
        state: the model's after the last batch, where batches hand it on.
    """

    model: Sequential
    optimiser: Optimiser
    schedule: Schedule | None
    stopping: EarlyStopping | None
    batches: int
    seed: int | None = None
    history: History = field(default_factory=History)
    epoch: int = 0
    batch: int = 0
    total: float = 0.0
    count: int = 0
    state: Any = None

    @property
    def step(self) -> int:
        """Updates done."""
        return len(self.history["step_loss"])

    @property
    def loss(self) -> float:
        """The mean of the epoch so far."""
        return self.total / self.count if self.count else 0.0

    @property
    def lr(self) -> float:
        """The learning rate of the next update."""
        if self.schedule is None:
            return float(self.optimiser.lr)
        return float(self.schedule.rate(self.optimiser.lr, self.step if self.schedule.per == "step" else self.epoch))

    def note(self, value: LossValue, state: Any) -> None:
        """Count an update."""
        self.history["step_loss"].append(float(value.mean))
        self.batch, self.state = self.batch + 1, state
        self.total, self.count = self.total + float(value.mean) * value.counted, self.count + int(value.counted)

    def end_epoch(self, lr: float, validation: float | None) -> None:
        """Note what the epoch gave, and turn to the next one."""
        self.history["loss"].append(self.loss)
        self.history["lr"].append(lr)
        self.history["updates"].append(self.step)
        if validation is not None:
            self.history["validation_loss"].append(validation)
        if self.stopping is not None and validation is not None:
            self.stopping.observe(validation, self.model)
        if self.schedule is not None:
            self.schedule.observe(self.loss if validation is None else validation, lr)
        self.epoch, self.batch, self.total, self.count, self.state = self.epoch + 1, 0, 0.0, 0, None
