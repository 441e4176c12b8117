"""The Keras file formats: what is read, what is written, and who judges. Reads without TensorFlow and without Keras."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge.catalogue import Settings
from rnnbridge.converters.keras_blocks import Found
from rnnbridge.converters.keras_hdf5 import LayeredFile, is_layered, read_layered
from rnnbridge.converters.keras_memory import Memory
from rnnbridge.converters.keras_reading import Reader, renamed
from rnnbridge.converters.keras_v3 import CONFIG, WEIGHTS, ClassedFile, read_archive, read_classed
from rnnbridge.errors import FormatError, RNNBridgeError
from rnnbridge.files.hdf5 import SIGNATURE, Group, read_hdf5
from rnnbridge.files.zip import member_names
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]
_OPTIMIZER = "optimizer_weights"


@dataclass(frozen=True)
class Carried:
    """The file that a bundle was read from, for writing the whole of it again.

    Args:
        file: taken apart.
        found: name in the bundle -> the arrays; the cells of a stack that is none share one.
    """

    file: LayeredFile | ClassedFile
    found: Mapping[str, Found]


def is_keras(path: Path, head: bytes) -> bool:
    """Whether a file is one of Keras's: HDF5, or a zip archive with a config and weights in it."""
    return head.startswith(SIGNATURE) or {CONFIG, WEIGHTS} <= set(member_names(path, head))


def read(path: Path, settings: Settings) -> Bundle:
    """Read any Keras file.

    Raises:
        FormatError: naming the file, and the layer and array that are not as they should be.
    """
    file, root = _open(path)
    memory = Memory(root)
    layers: dict[str, RNNWeights] = {}
    found: dict[str, Found] = {}
    notices: list[str] = []
    used: list[Found] = []
    for one in file.found:
        if one.recurrent.obstacle:
            notices.append(_left(one, one.recurrent.obstacle))
            continue
        try:
            cells, changed = renamed(Reader(one, file.version, settings, memory.of(one)).read(), layers)
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from error
        layers |= cells
        found |= dict.fromkeys(cells, one)
        notices += changed
        used.append(one)
    if not layers and notices:
        raise FormatError(f"{path}: no recurrent layer that rnnbridge converts: " + "; ".join(notices))
    tensors = _others(file, used)
    if _OPTIMIZER in root.groups:
        notices.append("the state of the optimizer is left out")
    return Bundle(layers, tensors, "keras", path, (*notices, *memory.notices), Carried(file, found))


def _open(path: Path) -> tuple[LayeredFile | ClassedFile, Group]:
    with path.open("rb") as opened:
        head = opened.read(len(SIGNATURE))
    try:
        if head != SIGNATURE:
            archive = read_archive(path)
            return archive, archive.root
        root = read_hdf5(path, str(path))
        return (read_layered(root) if is_layered(root) else read_classed(root)), root
    except RNNBridgeError as error:
        raise error if str(path) in str(error) else FormatError(f"{path}: {error}") from error


def _left(found: Found, why: str) -> str:
    return f"layer {found.recurrent.name!r} ({found.recurrent.said}) is not converted: {why}; its arrays are in tensors"


def _others(file: LayeredFile | ClassedFile, used: list[Found]) -> dict[str, Array]:
    """Every array that belongs to no layer that was read, by its name in the file."""
    taken = set(chain.from_iterable(block.places.values() for one in used for block in one.blocks))
    if isinstance(file, ClassedFile):
        return {path: array for path, array in file.root.walk() if path not in taken}
    return {
        f"{layer.name}/{name}": array
        for number, layer in enumerate(file.layers)
        for k, (name, array) in enumerate(layer.weights)
        if (number, k) not in taken
    }
