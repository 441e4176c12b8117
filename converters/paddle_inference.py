"""Paddle's models for inference: a `.pdiparams` with the program beside it, `.json` or `.pdmodel`. Only read.

The tensors have no names in the file; the program has, and says which are an rnn operator's. A layer that has no such
operator, as one with a projection, is read as the cells that it is made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge.catalogue import Format, Settings
from rnnbridge.converters.paddle_layer import Reader, Said
from rnnbridge.converters.paddle_names import Group
from rnnbridge.converters.paddle_older_program import read_older_program
from rnnbridge.converters.paddle_program import Operator, Program, read_program
from rnnbridge.converters.paddle_rows import CELLS, DIRECTIONS, LAYERS
from rnnbridge.converters.paddle_tensors import looks_like_tensor, read_tensors
from rnnbridge.errors import FormatError
from rnnbridge.weights import Bundle

Array = NDArray[Any]
_SUFFIX = ".pdiparams"
_PROGRAMS = {".json": read_program, ".pdmodel": read_older_program}  # of Paddle 3, of Paddle 2
_ACTIVATIONS = {"LSTM": None, "GRU": None, "RNN_TANH": "tanh", "RNN_RELU": "relu"}
_OF_A_CELL = re.compile(r"(?P<cell>(?:lstm|gru|simple_rnn)_cell_\d+)\.(?P<what>[wb]_\d)")
# The order in which a cell makes its parameters.
_MADE = {"w_0": "weight_ih", "w_1": "weight_hh", "b_0": "bias_ih", "b_1": "bias_hh", "w_2": "weight_ho"}


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file is of tensors and has the name of a model's."""
    return path.suffix == _SUFFIX and looks_like_tensor(head)


def read(path: Path, settings: Settings) -> Bundle:
    """Read the layers of the rnn operators, and the cells that belong to none."""
    programs = {path.with_suffix(suffix): reader for suffix, reader in _PROGRAMS.items()}
    beside = next((one for one in programs if one.is_file()), None)
    if beside is None:
        known = " or ".join(one.name for one in programs)
        raise FormatError(f"{path}: no {known} beside it, the program that has the tensors' names")
    program = programs[beside](beside)
    held = dict(zip(program.shapes, read_tensors(path, len(program.shapes)), strict=True))
    for name, shape in program.shapes.items():
        if held[name].shape != shape:
            raise FormatError(f"{path}: {name} is {list(held[name].shape)}, and {list(shape)} in {beside.name}")
    readers = {name: Reader(group, f"{path}: layer {name!r}", name, settings, said)
               for name, group, said in _layers(program, str(beside))}  # fmt: skip
    layers = {name: reader.weights(held) for name, reader in readers.items()}
    used = {full for reader in readers.values() for full in reader.group.names.values()}
    others = {name: array for name, array in held.items() if name not in used}
    return Bundle(layers, others, format="paddle-inference", path=path)


FORMATS = (
    Format(
        name="paddle-inference",
        framework="paddle",
        suffixes=(_SUFFIX,),
        reads="models of Paddle 3 and 2 for inference, whose program lies beside: .json or .pdmodel",
        writes="",
        sniff=sniff,
        read=read,
        rows=(*LAYERS, *CELLS),
    ),
)


def _layers(program: Program, where: str) -> Iterator[tuple[str, Group, Said]]:
    """Name, arrays, and what the program says of each layer."""
    names: dict[str, None] = {}
    for one in program.operators:
        if one.mode not in _ACTIVATIONS:
            raise FormatError(f"{where}: an rnn operator of mode {one.mode!r}; known are {', '.join(_ACTIVATIONS)}")
        name = one.name
        while name in names:
            name += "_"
        names[name] = None
        evidence = f"the program has an rnn operator of mode {one.mode} with these weights"
        said = Said(_ACTIVATIONS[one.mode], one.batch_first, one.because, evidence)
        yield name, Group("", False, _own_names(one, where), one.both_ways), said
    used = {weight for one in program.operators for weight in one.weights}
    cells = _cells(program.shapes, used)
    yield from ((name, Group("", True, own), Said()) for name, own in cells.items() if name not in names)


def _own_names(one: Operator, where: str) -> dict[str, str]:
    """A row's name -> a parameter: for each layer and direction two matrices, then for each two biases."""
    sides = DIRECTIONS[: 1 + one.both_ways]
    if not 0 < one.num_layers <= len(one.weights) or len(one.weights) != 4 * one.num_layers * len(sides):
        raise FormatError(f"{where}: {one.name} of {one.num_layers} layers has {len(one.weights)} weights")
    places = [f"{layer}.{side}." for layer in range(one.num_layers) for side in sides]
    matrices = [f"{place}weight_{kind}" for place in places for kind in ("ih", "hh")]
    biases = [f"{place}bias_{kind}" for place in places for kind in ("ih", "hh")]
    return dict(zip((*matrices, *biases), one.weights, strict=True))


def _cells(names: Mapping[str, Any], used: set[str]) -> dict[str, dict[str, str]]:
    """The cells whose parameters no rnn operator has: name -> own name -> parameter."""
    found: dict[str, dict[str, str]] = {}
    for full in names:
        match = _OF_A_CELL.fullmatch(full)
        if match and full not in used and match["what"] in _MADE:
            found.setdefault(match["cell"], {})[_MADE[match["what"]]] = full
    return found
