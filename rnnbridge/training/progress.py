"""The bar that shows how far a training is. Knows numbers only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Show(Protocol):
    """Called after every update."""

    def __call__(self, *, done: int, epoch: int, loss: float, validation: float | None, steps: int) -> None:
        """Show.

        Args:
            done: updates since the beginning of the training.
            epoch: counted from 1.
            loss: mean of this epoch so far.
            validation: the last validation loss, if any.
            steps: time steps, or tokens, of this update.
        """


@contextmanager
def progress_bar(*, done: int, total: int, epochs: int, unit: str, shown: bool | None) -> Iterator[Show]:
    """A bar on standard error: loss, `unit` per second, time left.

    Args:
        done: updates at the beginning.
        total: updates of the whole training.
        epochs: of the whole training.
        unit: what is counted per second: "steps" or "tokens".
        shown: None shows it on a terminal only.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    hidden = not (console.is_terminal if shown is None else shown)
    begun, counted = time.perf_counter(), 0
    with Progress(*columns, console=console, disable=hidden) as bar:
        task = bar.add_task("", completed=done, total=total, epoch=f"1/{epochs}", told="")

        def show(*, done: int, epoch: int, loss: float, validation: float | None, steps: int) -> None:
            nonlocal counted
            counted += steps
            speed = counted / (time.perf_counter() - begun)
            valued = "" if validation is None else f", validation {validation:.4g}"
            told = f"loss {loss:.4g}{valued}, {speed:,.0f} {unit}/s"
            bar.update(task, completed=done, epoch=f"{epoch}/{epochs}", told=told)

        yield show
