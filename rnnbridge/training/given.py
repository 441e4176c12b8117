"""What `fit` was given, checked before anything runs. Knows parts and options, no loop."""

from __future__ import annotations

import os
from typing import Any

from rnnbridge.engine.arguments import check_is, refuse, whole
from rnnbridge.errors import ArgumentError
from rnnbridge.training.arguments import real
from rnnbridge.training.data import Data
from rnnbridge.training.optimisers import Optimiser
from rnnbridge.training.schedules import Schedule
from rnnbridge.training.sequential import Sequential, recurrent_layers
from rnnbridge.training.stopping import EarlyStopping


def check_direction(model: Sequential, *data: Data | None) -> None:
    """A state can be handed on forward in time only."""
    if any(one is not None and one.carries_state for one in data):
        for place, layer in recurrent_layers(model):
            if layer.spec.direction != "forward":
                raise ArgumentError(
                    f"layer {place} is {layer.spec.direction}, and the data hand the state on from batch to batch: its "
                    "first output needs the last input. Train it on Batches of whole sequences"
                )


def check_parts(data: Any, validation: Any, loss: Any, optimiser: Any, schedule: Any, stopping: Any) -> None:
    for name, one in (("data", data), ("validation", validation)):
        if not (one is None and name == "validation") and not hasattr(one, "carries_state"):
            raise ArgumentError(f"{name} is a {type(one).__name__}; it is Batches(x, y, ...) or Windows(stream, ...)")
    if isinstance(loss, type) or not callable(loss):
        raise ArgumentError(f"loss is {loss!r}; it is CrossEntropy(), MSE(), BCEWithLogits() or a function")
    refuse(
        check_is("optimiser", optimiser, Optimiser, required=True),
        check_is("schedule", schedule, Schedule),
        check_is("early_stopping", stopping, EarlyStopping),
    )


def check_options(
    validation: Data | None,
    early_stopping: EarlyStopping | None,
    clip_norm: float | None,
    clip_value: float | None,
    checkpoint: Any,
    checkpoint_every: int | None,
) -> None:
    if early_stopping is not None and validation is None:
        raise ArgumentError("early stopping looks at the validation loss: give validation= too")
    for name, limit in (("clip_norm", clip_norm), ("clip_value", clip_value)):
        if limit is not None:
            real(name, limit)
    if not isinstance(checkpoint, str | os.PathLike | None) or checkpoint == "":
        raise ArgumentError(f"checkpoint is {checkpoint!r}; it is the name of a file")
    if checkpoint_every is not None:
        whole("checkpoint_every", checkpoint_every, least=1)
        if checkpoint is None:
            raise ArgumentError("checkpoint_every was given without a checkpoint: give checkpoint='run.safetensors'")
