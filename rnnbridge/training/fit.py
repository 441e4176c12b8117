"""Training a model: `fit`, and its two halves `train_step` and `evaluate` for loops of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine.arguments import check_is, refuse, whole
from rnnbridge.errors import ArgumentError, DivergedError, TargetExistsError
from rnnbridge.files.atomic import check_writable
from rnnbridge.training.arguments import said
from rnnbridge.training.checkpoint import load_checkpoint, save_checkpoint
from rnnbridge.training.clipping import clip_by_norm, clip_by_value
from rnnbridge.training.data import Batch, Data
from rnnbridge.training.given import check_direction, check_options, check_parts
from rnnbridge.training.history import History
from rnnbridge.training.losses import Loss, LossValue
from rnnbridge.training.optimisers import Optimiser
from rnnbridge.training.progress import Show, progress_bar
from rnnbridge.training.run import Run
from rnnbridge.training.schedules import Schedule
from rnnbridge.training.sequential import Sequential, trainable
from rnnbridge.training.stopping import EarlyStopping

Array = NDArray[Any]


def fit(
    model: Any,
    data: Data,
    *,
    loss: Loss,
    optimiser: Optimiser,
    epochs: int = 1,
    max_steps: int | None = None,
    validation: Data | None = None,
    schedule: Schedule | None = None,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    early_stopping: EarlyStopping | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> History:
    """Train a model.

    The same model, seeds and data give the same bits, on any number of the engine's threads, and however often the
    training was broken off and resumed; `Linear` computes with NumPy's BLAS, which is to be the same one then.

    Args:
        model: a `Sequential`, or one layer that takes [N, T, .].
        data: `Batches` of samples, or `Windows` along a stream.
        loss: `CrossEntropy()`, `MSE()`, `BCEWithLogits()`, or a function of (y, target, lengths) that gives a
            `LossValue`.
        optimiser: `Adam(1e-3)`, ... What it keeps goes on if it trained before.
        epochs: times through the data, in all.
        max_steps: end after so many updates, in all; None is the end of the last epoch.
        validation: its loss is computed after every epoch, without dropout.
        schedule: of the learning rate; None keeps the optimiser's.
        clip_norm, clip_value: `clip_by_norm` and `clip_by_value` of the gradients, in this order.
        early_stopping: end when the validation loss gets no better. The best epoch's weights are in the model
            after `fit`, whether or not it ended early.
        checkpoint: a file that is written after every epoch and at the end.
        checkpoint_every: and after so many updates.
        resume: go on from the checkpoint, if it is there.
        progress: a bar on standard error; None shows it on a terminal only.

    Returns:
        The losses of the whole training, those before a checkpoint among them.

    Raises:
        ArgumentError: saying what does not fit.
        DivergedError: the loss, a gradient or the norm to be clipped is no longer a number; the update was not made.
        TargetExistsError: the checkpoint is there, and `resume` is false.
        FormatError, FileAccessError: the checkpoint cannot be resumed from, or not be written.
    """
    model = _as_model(model)
    check_parts(data, validation, loss, optimiser, schedule, early_stopping)
    check_options(validation, early_stopping, clip_norm, clip_value, checkpoint, checkpoint_every)
    check_direction(model, data, validation)
    if not trainable(model):
        raise ArgumentError("the model has nothing to learn: it has no weights, or all of them are frozen")
    end = whole("epochs", epochs, least=0) * len(data)
    end = end if max_steps is None else min(end, whole("max_steps", max_steps, least=0))
    run = Run(model, optimiser, schedule, early_stopping, len(data), getattr(data, "seed", None))
    path = None if checkpoint is None else Path(checkpoint)
    _begin(run, path, resume)
    step = partial(train_step, loss=loss, optimiser=optimiser, clip_norm=clip_norm, clip_value=clip_value)
    save = partial(save_checkpoint, path, run) if path else None
    with progress_bar(done=run.step, total=end, epochs=epochs, unit=_unit(data), shown=progress) as show:
        while run.step < end and not (early_stopping and early_stopping.is_over):
            lr = run.lr
            left = max(0, min(end - run.step, len(data) - run.batch))
            for batch in islice(data.batches(run.epoch, run.batch), left):
                lr = run.lr
                value, state = step(run.model, batch, state=run.state, lr=lr)
                run.note(value, state if data.carries_state else None)
                _show(show, run, batch)
                if save and checkpoint_every and run.step % checkpoint_every == 0 and run.batch < len(data):
                    save()
            if run.batch < len(data) and run.step < end:
                raise ArgumentError(f"data gave {run.batch} batches, and len(data) is {len(data)}")
            if run.batch >= len(data):
                run.end_epoch(lr, None if validation is None else evaluate(run.model, validation, loss))
            if save:
                save()
    if early_stopping:
        early_stopping.restore(run.model)
    return run.history


def train_step(
    model: Any,
    batch: Batch,
    *,
    loss: Loss,
    optimiser: Optimiser,
    state: Any = None,
    lr: float | None = None,
    clip_norm: float | None = None,
    clip_value: float | None = None,
) -> tuple[LossValue, Any]:
    """One update of the weights.

    Args:
        state: to begin with; None is zeros.
        lr: the learning rate; None is the optimiser's.

    The other arguments are `fit`'s.

    Returns:
        The loss before the update, and the model's final state.

    Raises:
        DivergedError: the loss or a gradient is no number, or the norm to be clipped; nothing was updated.
    """
    model = _as_model(model)
    refuse(check_is("batch", batch, Batch, required=True))
    y, final, tape = model.forward(batch.x, state, batch.lengths, training=True)
    value = loss(y, batch.y, batch.lengths if model.keeps_time else None)
    refuse(check_is("what the loss gave", value, LossValue, required=True))
    if isinstance(y, np.ndarray) and said(value.dy) != said(y):
        raise ArgumentError(f"the loss gave a dy that is {said(value.dy)}; it has the form of y, {said(y)}")
    _check_finite("loss", [value.mean])
    gradients = model.backward(tape, value.dy, want=("weights",)).weights
    _check_finite("gradients", gradients.values())
    if clip_norm is not None:
        _check_finite("norm of the gradients", [clip_by_norm(gradients, clip_norm)])
    if clip_value is not None:
        clip_by_value(gradients, clip_value)
    optimiser.update(model.weights, gradients, lr)
    return value, final


def evaluate(model: Any, data: Data, loss: Loss) -> float:
    """The mean loss over one epoch of data, without dropout. Nothing is changed."""
    model, state, total, count = _as_model(model), None, 0.0, 0
    for batch in data.batches(0):
        y, final = model(batch.x, state, batch.lengths)
        value = loss(y, batch.y, batch.lengths if model.keeps_time else None)
        total, count = total + float(value.mean) * value.counted, count + value.counted
        state = final if data.carries_state else None
    return total / count if count else 0.0


def _begin(run: Run, path: Path | None, resume: bool) -> None:
    """Begin anew, or where the checkpoint says. Whether it can be written shows at once, not after the first epoch."""
    if run.stopping:
        run.stopping.begin()
    if run.schedule:
        run.schedule.restore({})
    if path is None:
        return
    if not path.exists():
        check_writable(path)
    elif resume:
        load_checkpoint(path, run)
    else:
        raise TargetExistsError(f"{path} exists; give resume=True to go on from it, or another name")


def _show(show: Show, run: Run, batch: Batch) -> None:
    validation = run.history["validation_loss"]
    steps = int(np.prod(batch.x.shape[:2])) if batch.lengths is None else int(batch.lengths.sum())
    last = validation[-1] if validation else None
    show(done=run.step, epoch=run.epoch + 1, loss=run.loss, validation=last, steps=steps)


def _as_model(model: Any) -> Sequential:
    return model if isinstance(model, Sequential) else Sequential(model)


def _unit(data: Data) -> str:
    """What time steps are called in the progress bar."""
    first = next(iter(data.batches(0)), None)
    return "tokens" if first is not None and first.x.dtype.kind in "iu" else "steps"


def _check_finite(what: str, values: Iterable[Any]) -> None:
    if not all(np.isfinite(value).all() for value in values):
        raise DivergedError(
            f"the {what} became infinite or no number: a lower learning rate, or clip_norm=1.0, keeps it from growing; "
            "or the data hold numbers that are not finite"
        )
