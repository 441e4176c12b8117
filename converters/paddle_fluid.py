"""The operators of Paddle 1 (`fluid`) in files of one tensor each: `gru_0.w_0`, `gru_0.b_0`, `fc_0.w_0` ... Only read.

Given one of them, all `lstm`, `gru` and `gru_unit` operators beside it are read, each with the `fc` that makes its
input product. Which one that is, the direction and origin_mode are in the program, which is not read: they can be set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge.catalogue import Format, Settings
from rnnbridge.convention import Convention
from rnnbridge.converters.paddle_rows import DYNAMIC_GRU, DYNAMIC_LSTM, ONE_BIAS, ORIGIN_MODE, TWO_BIASES
from rnnbridge.converters.paddle_tensors import looks_like_tensor, read_tensors
from rnnbridge.errors import ArgumentError, FormatError, LayoutError, SpecError
from rnnbridge.files.narrow import widened
from rnnbridge.layout import part
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Assumption, Bundle, Origin, RNNWeights

Array = NDArray[Any]
_WEIGHT = re.compile(r"(?P<name>(?P<kind>gru_unit|gru|lstm|lstmp)_(?P<number>\d{1,6}))\.w_0")
_PLAIN_NAME = re.compile(r"[\w@-]+")
_KINDS = {"float16": "float16", "float32": "", "float64": ""}
_PEEPHOLES = 3


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file is a tensor, and no file of several."""
    return looks_like_tensor(head) and path.suffix != ".pdiparams"


def read(path: Path, settings: Settings) -> Bundle:
    """Read every recurrent operator whose files lie in the folder of the one given."""
    found = sorted(
        (match for one in path.parent.iterdir() if (match := _WEIGHT.fullmatch(one.name)) and one.is_file()),
        key=lambda match: (match["kind"], int(match["number"])),
    )
    if not found:
        raise FormatError(
            f"{path}: one tensor of Paddle; no gru_0.w_0, lstm_0.w_0 or gru_unit_0.w_0 lies beside it, by which a "
            "recurrent operator is known (parameters with names of their own: rename the files so)"
        )
    layers = {match["name"]: _Operator(path.parent, match, settings).weights() for match in found}
    return Bundle(layers, format="paddle-fluid", path=path)


FORMATS = (
    Format(
        name="paddle-fluid",
        framework="paddle",
        suffixes=(),
        reads="operators of Paddle 1, a tensor in each file: gru_0.w_0 with gru_0.b_0, fc_0.w_0 ... beside it",
        writes="",
        sniff=sniff,
        read=read,
        rows=(*ONE_BIAS, *TWO_BIASES),
    ),
)


@dataclass(frozen=True)
class _Operator:
    """One operator's way from its files to its weights."""

    folder: Path
    match: re.Match[str]
    settings: Settings

    @property
    def _name(self) -> str:
        return self.match["name"]

    @property
    def _where(self) -> str:
        return f"{self.folder / self.match[0]}: layer {self._name!r}"

    def weights(self) -> RNNWeights:
        """The layer. Raises FormatError that names the file; ArgumentError for a setting."""
        if self.match["kind"] == "lstmp":
            raise FormatError(f"{self._where}: dynamic_lstmp puts an activation on its projection, which no layer has")
        fc, assumptions = self._fc()
        try:
            arrays = self._arrays(fc)
            row, more = self._row(arrays)
            stored = {array.dtype.name for array in arrays.values()}
            if unknown := stored - _KINDS.keys():
                raise LayoutError(f"{', '.join(unknown)} in its files; {', '.join(_KINDS)} are read")
            wide = {name: widened(array, _KINDS[array.dtype.name]) for name, array in arrays.items()}
            backwards = self.settings.flag("reverse", self._name)
            spec = self._spec(row, wide, bool(backwards))
            more += [] if backwards is not None else [Assumption("reverse", "false", "is_reverse is in the program")]
            origin = Origin(
                framework=row.framework,
                convention=row.name,
                name=self._name,
                padding=row.padding,
                storage_dtype="float16" if stored == {"float16"} else "",
                evidence=(
                    f"its file is called {self.match[0]}, and {fc}.w_0 has the shape of its input product",
                    "its activations, which are in the program, are taken to be the defaults, sigmoid and tanh",
                ),
                assumptions=(*assumptions, *more),
            )
            return RNNWeights(spec, row.read(wide, spec), origin)
        except (LayoutError, SpecError) as error:
            raise FormatError(f"{self._where}, with {fc} before it ({self._name}.fc sets another): {error}") from error

    def _fc(self) -> tuple[str, list[Assumption]]:
        """The name of the fc before the operator."""
        asked = self.settings.get("fc", self._name)
        if asked is not None and not _PLAIN_NAME.fullmatch(asked):
            raise ArgumentError(f"setting fc={asked!r}; it is the name of a file without its ending, such as fc_0")
        fc = asked or f"fc_{self.match['number']}"
        if not (self.folder / f"{fc}.w_0").is_file():
            raise FormatError(
                f"{self._where}: no {fc}.w_0 beside it, which makes its input product; set {self._name}.fc to another"
            )
        return fc, [] if asked else [Assumption("fc", fc, "which fc comes before it is in the program")]

    def _arrays(self, fc: str) -> dict[str, Array]:
        """The row's arrays: the parts of a file apart, a bias [1, n] as [n]."""
        arrays = {"fc.w_0": self._tensor(f"{fc}.w_0"), "w_0": self._tensor(self.match[0])}
        for own, file in (("fc.b_0", f"{fc}.b_0"), ("b_0", f"{self._name}.b_0")):
            if (self.folder / file).is_file():
                arrays[own] = self._tensor(file).reshape(-1)
        if arrays["w_0"].ndim != 2:
            raise LayoutError(f"{self.match[0]} is {list(arrays['w_0'].shape)} and no matrix")
        hidden = len(arrays["w_0"])
        if self.match["kind"] != "lstm":
            matrix = arrays.pop("w_0")
            if matrix.shape != (hidden, 3 * hidden):
                raise LayoutError(f"{self.match[0]} is {list(matrix.shape)} and should be [H, 3H]")
            gates, candidate = part(matrix.reshape(-1), [2 * hidden * hidden, hidden * hidden], 0)
            arrays["w_0[gates]"] = gates.reshape(hidden, 2 * hidden)
            arrays["w_0[candidate]"] = candidate.reshape(hidden, hidden)
        if "b_0" in arrays:
            bias = arrays.pop("b_0")
            beyond = _PEEPHOLES * hidden if self.match["kind"] == "lstm" and bias.size == 7 * hidden else 0
            arrays["b_0[gates]"], peepholes = part(bias, [bias.size - beyond, beyond], 0)
            arrays |= {"b_0[peepholes]": peepholes} if beyond else {}
        elif "fc.b_0" in arrays:  # the only bias: where it is added makes no difference
            arrays["b_0[gates]"] = arrays.pop("fc.b_0")
        return arrays

    def _tensor(self, file: str) -> Array:
        (tensor,) = read_tensors(self.folder / file, 1)
        return tensor

    def _row(self, arrays: dict[str, Array]) -> tuple[Convention, list[Assumption]]:
        row, assumptions = DYNAMIC_LSTM, []
        if self.match["kind"] != "lstm":
            keeps = self.settings.flag("origin_mode", self._name)
            row = ORIGIN_MODE if keeps else DYNAMIC_GRU
            if keeps is None:
                unsaid = "it is in the program; the default, and all there was before Paddle 1.4"
                assumptions.append(Assumption("origin_mode", "false", unsaid))
        return (TWO_BIASES[ONE_BIAS.index(row)] if "fc.b_0" in arrays else row), assumptions

    def _spec(self, row: Convention, arrays: dict[str, Array], backwards: bool) -> RNNSpec:
        sizes = row.sizes(arrays)
        return RNNSpec(
            cell=row.cell,
            input_size=sizes["input_size"],
            hidden_size=sizes["hidden_size"],
            bias=row.bias_of(arrays),
            reset=next(iter(row.reset), None),
            direction="reverse" if backwards else "forward",
            peephole="b_0[peepholes]" in arrays,
        )
