"""A Keras file taken apart and read: its recurrent layers, and what it takes to write the whole of it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Settings
from rnnbridge.converters.keras_blocks import Block, Found
from rnnbridge.converters.keras_hdf5 import LayeredFile, is_layered, read_layered
from rnnbridge.converters.keras_memory import Memory
from rnnbridge.converters.keras_reading import LayerReader
from rnnbridge.converters.keras_v3 import ClassedFile, read_archive, read_classed
from rnnbridge.errors import ArgumentError, SpecError
from rnnbridge.files.hdf5 import SIGNATURE, Group, read_hdf5
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]
File = LayeredFile | ClassedFile


@dataclass(frozen=True, repr=False)
class Carried:
    """The file that a bundle was read from.

    Args:
        file: taken apart.
        found: name in the bundle -> its layer; the cells of a stack that is none share one.
    """

    file: File
    found: Mapping[str, Found]

    @property
    def is_layered(self) -> bool:
        """Whether it is a file of a group per layer."""
        return isinstance(self.file, LayeredFile)

    def blocks(self, name: str) -> tuple[Block, ...]:
        """The cells' arrays of one entry of the bundle."""
        found = self.found[name]
        sharing = [other for other, one in self.found.items() if one is found]
        return found.blocks if len(sharing) == 1 else (found.blocks[sharing.index(name)],)


def open_file(path: Path) -> tuple[File, Group]:
    """Take a file apart.

    Returns:
        The file, and the root of its HDF5 tree.
    """
    with path.open("rb") as opened:
        head = opened.read(len(SIGNATURE))
    if head != SIGNATURE:
        archive = read_archive(path)
        return archive, archive.root
    root = read_hdf5(path, str(path))
    return (read_layered(root) if is_layered(root) else read_classed(root)), root


@dataclass(frozen=True)
class Contents:
    """The recurrent layers of a file, by name."""

    layers: dict[str, RNNWeights]
    carried: Carried
    notices: tuple[str, ...]


def contents(file: File, settings: Settings, memory: Memory) -> Contents:
    """Read every recurrent layer that can be converted.

    Raises:
        FormatError: naming the layer and what in it is not as it should be.
    """
    layers: dict[str, RNNWeights] = {}
    carried: dict[str, Found] = {}
    notices: list[str] = []
    for found in file.found:
        unit = found.recurrent
        try:
            if unit.obstacle:
                raise SpecError(unit.obstacle)
            read = LayerReader(found, file.version, settings, memory.of(found)).read()
        except SpecError as error:
            notices.append(f"layer {unit.name!r} ({unit.said}) is not converted: {error}; its arrays are in tensors")
            continue
        cells, changed = _renamed(read, layers)
        layers |= cells
        carried |= dict.fromkeys(cells, found)
        notices += changed
    return Contents(layers, Carried(file, carried), (*notices, *memory.notices))


def _renamed(weights: Mapping[str, RNNWeights], taken: Mapping[str, Any]) -> tuple[dict[str, RNNWeights], list[str]]:
    """Give layers names that are not taken yet, and say which were changed."""
    out: dict[str, RNNWeights] = {}
    notices = []
    for name, one in weights.items():
        free, number = name, 2
        while free in taken or free in out:
            free, number = f"{name}#{number}", number + 1
        if free != name:
            notices.append(f"there is another layer {name!r}; the second is called {free!r} here")
        out[free] = RNNWeights(one.spec, one.arrays, replace(one.origin, name=free))
    return out, notices


def other_arrays(carried: Carried) -> dict[str, Array]:
    """Every array that belongs to no layer that was read, by its name in the file."""
    used = {id(found): found for found in carried.found.values()}.values()
    taken = set(chain.from_iterable(block.places.values() for found in used for block in found.blocks))
    file = carried.file
    if isinstance(file, ClassedFile):
        return {path: array for path, array in file.root.walk() if path not in taken}
    return {
        f"{layer.name}/{name}": array
        for number, layer in enumerate(file.layers)
        for k, (name, array) in enumerate(layer.weights)
        if (number, k) not in taken
    }


def take_up(tensors: Mapping[str, Array], carried: Carried) -> None:
    """Let arrays that were put in the place of those of the file be written with it.

    Raises:
        ArgumentError: an array more or less than the file has, or one of another shape or dtype.
    """
    places = other_arrays(carried)
    if odd := sorted(tensors.keys() ^ places.keys()):
        raise ArgumentError(f"the bundle's tensors and those of its file differ in {', '.join(map(repr, odd))}")
    for name, place in places.items():
        given = np.asarray(tensors[name])
        if given.shape != place.shape or given.dtype != place.dtype:
            raise ArgumentError(
                f"tensors[{name!r}] is {given.dtype} {list(given.shape)}; it is {place.dtype} {list(place.shape)} in "
                "the file, which is written whole"
            )
        if given is not place:
            place[...] = given
