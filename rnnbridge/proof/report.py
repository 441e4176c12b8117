"""What a proof found: `Report`, as data and as one table. Knows how nothing was run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rnnbridge.catalogue import CarriedLayer
from rnnbridge.proof.drawing import table_of
from rnnbridge.tables import as_text, indented

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Measurement:
    """The largest absolute error of one output of one layer, of one runner on one file, over every sample.

    Args:
        layer: its name in the source.
        output: "y", "h" or "c"; "weights" for the numbers themselves, whose errors are relative to an array's largest.
        file: "source" or "target": whose file was run.
        runner: who ran it, with version.
    """

    layer: str
    output: str
    file: str
    runner: str
    max_abs_error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.max_abs_error <= self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        numbers = {"max_abs_error": _number(self.max_abs_error), "tolerance": _number(self.tolerance)}
        return {**asdict(self), **numbers, "ok": self.ok}

    def __str__(self) -> str:
        if self.output == "weights":
            return f"{self.layer}, weights: relative difference {self.max_abs_error:.3g}, allowed {self.tolerance:.3g}"
        return (
            f"{self.layer}, output {self.output}, the {self.file} run by {self.runner}: "
            f"error {self.max_abs_error:.3g}, allowed {self.tolerance:.3g}"
        )


@dataclass(frozen=True)
class ProvenLayer:
    """One layer of the source and what answers to it.

    Args:
        source, target: its name, or several joined by " + " where they form one stack.
        matched: how the two were found to belong together.
        description: what it is, in a line.
        constructor: the line that makes the target framework's layer, "" where nothing was written.
    """

    source: str
    target: str
    matched: str
    description: str
    constructor: str = ""

    def __str__(self) -> str:
        renamed = f" -> {self.target}" if self.target != self.source else ""
        return f"{self.source}{renamed}: {self.description} ({self.matched})"


@dataclass(frozen=True)
class AppliedRewrite:
    """A rewrite that one layer took on its way.

    Args:
        layer: its name in the source.
        name, detail: as the planner names and explains it.
        same_bits: whether undoing it gives the same bits back.
        training: what it means for further training, "" if nothing.
    """

    layer: str
    name: str
    detail: str
    same_bits: bool
    training: str

    def __str__(self) -> str:
        bits = "same bits on the way back" if self.same_bits else "exact up to one rounding"
        training = f"; in training {self.training}" if self.training else ""
        return f"{self.layer}: {self.name}, {self.detail} ({bits}{training})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """What was compared, and what came out. Its truth value is `ok`.

    Args:
        source, target: the two files.
        seed: of the inputs.
        layers: every pair of layers.
        measurements: every error with its tolerance.
        rewrites: what was done to the numbers beyond moving them.
        judges: name and version of every framework that ran a file. Empty: rnnbridge alone read and ran them.
        not_converted: what of the source is not in the target.
        notices: what a user should know and would not guess.
        model: every layer of a model that was carried whole, and what was changed in it.
        unpaired: layers of both files that answer to none of the other; any of them is a difference.
    """

    source: str
    target: str
    seed: int
    layers: tuple[ProvenLayer, ...]
    measurements: tuple[Measurement, ...] = ()
    rewrites: tuple[AppliedRewrite, ...] = ()
    judges: tuple[str, ...] = ()
    not_converted: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    unpaired: tuple[str, ...] = ()
    model: tuple[CarriedLayer, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing differs: every error within its tolerance and no layer without a partner on either side."""
        return not self.failures and not self.unpaired

    @property
    def failures(self) -> tuple[Measurement, ...]:
        """The measurements over their tolerance."""
        return tuple(one for one in self.measurements if not one.ok)

    @property
    def max_abs_error(self) -> float:
        """The largest absolute error; where some are over their tolerance, the largest of those. NaN: nothing ran."""
        return self._largest.max_abs_error if self._largest else math.nan

    @property
    def tolerance(self) -> float:
        """What was allowed where `max_abs_error` is. NaN: nothing ran."""
        return self._largest.tolerance if self._largest else math.nan

    @property
    def summary(self) -> str:
        """The outcome in a line."""
        if self.unpaired:
            partnerless = ", ".join(self.unpaired)
            return f"DIFFERENT: no partner for {partnerless} (to compare some layers only, pair them: --map a=b)"
        if self.failures:
            return f"DIFFERENT: {self._largest}"
        if not self.measurements:
            return "not verified"
        return (
            f"the same numbers: largest error {self.max_abs_error:.3g}, allowed {self.tolerance:.3g}, seed {self.seed}"
        )

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return as_text(self)

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        return Group(*self._parts())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an error that is not finite is spelt "inf" or "nan"."""
        return {
            "ok": self.ok,
            "source": self.source,
            "target": self.target,
            "summary": self.summary,
            "max_abs_error": _number(self.max_abs_error),
            "tolerance": _number(self.tolerance),
            "seed": self.seed,
            "layers": [asdict(one) for one in self.layers],
            "measurements": [one.to_dict() for one in self.measurements],
            "rewrites": [asdict(one) for one in self.rewrites],
            "judges": list(self.judges),
            "not_converted": list(self.not_converted),
            "notices": list(self.notices),
            "unpaired": list(self.unpaired),
            "model": [asdict(one) for one in self.model],
        }

    def _parts(self) -> Iterator[RenderableType]:
        """What to draw: the two files, the table, what goes with it, and the outcome."""
        from rich.text import Text

        yield Text(f"source  {self.source}\ntarget  {self.target}\n", overflow="fold")
        if self.measurements:
            yield table_of(self.measurements)
            yield ""
        lists = {
            "layers": map(str, self.layers),
            "rewrites": map(str, self.rewrites),
            "the whole model": map(str, self.model),
            "not converted": self.not_converted,
            "notices": self.notices,
            "to paste": self._lines_to_paste(),
        }
        for title, lines in lists.items():
            if body := [indented(line, whole=title == "to paste") for line in lines]:
                yield from (Text(title), *body, "")
        yield Text(self.summary, style="bold green" if self.ok else "bold red")

    def _lines_to_paste(self) -> list[str]:
        made = [(one.target, one.constructor) for one in self.layers if one.constructor]
        return [line if len(made) == 1 else f"{target}: {line}" for target, line in made]

    @property
    def _largest(self) -> Measurement | None:
        runs = [one for one in self.measurements if one.output != "weights"]
        return max(self.failures or runs, key=lambda one: one.max_abs_error, default=None)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
