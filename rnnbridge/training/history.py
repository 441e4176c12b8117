"""How a training went, in numbers and as a picture: `History`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rnnbridge.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = ("step_loss", "loss", "validation_loss", "lr", "updates")


class History(Mapping[str, "list[float]"]):
    """Name -> numbers, oldest first.

    "step_loss" has one for each update. For each whole epoch there is one in "loss" (the mean over it),
    "validation_loss" (if there was any), "lr" (of its last update) and "updates" (until then).
    """

    def __init__(self, lists: Mapping[str, list[float]] | None = None) -> None:
        self._lists = {name: list((lists or {}).get(name, ())) for name in _NAMES}

    def __getitem__(self, name: str) -> list[float]:
        return self._lists[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lists)

    def __len__(self) -> int:
        return len(self._lists)

    def plot(self) -> Figure:
        """The losses over the updates, as a Matplotlib figure: `history.plot().savefig("training.png")`.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise MissingExtraError("drawing a training", "matplotlib", "plot") from error
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        each = self["step_loss"]
        axes.plot(range(1, len(each) + 1), each, color="0.75", linewidth=0.8, label="each update")
        for name, label in (("loss", "training, mean of an epoch"), ("validation_loss", "validation")):
            if self[name]:
                axes.plot(self["updates"][-len(self[name]) :], self[name], marker=".", label=label)
        axes.set(xlabel="update", ylabel="loss")
        axes.legend()
        return figure

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {self[name][-1]:.4g}" for name in ("loss", "validation_loss") if self[name])
        return f"<History of {len(self['step_loss'])} updates, {len(self['loss'])} epochs{': ' * bool(last)}{last}>"
