"""The HDF5 files of Keras 1, Keras 2, tf.keras and Keras 3's `.h5`: a group per layer, lists of names as attributes.

Knows where arrays lie; what they mean is keras_blocks' and keras_reading's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rnnbridge.converters.keras_blocks import BFLOAT16, Block, Found, match, numbers, scan
from rnnbridge.converters.keras_model import Cell, Layer, Recurrent, layers_of
from rnnbridge.converters.keras_version import Version
from rnnbridge.errors import FormatError
from rnnbridge.files.hdf5 import Group

Array = NDArray[Any]
WHOLE_MODEL = "model_weights"
CELL_SCOPE = re.compile(r"^(?:lstm|gru|simple_rnn)_cell(?:_\d+)?$|^stacked_rnn_cells(?:_\d+)?$")
SIDE = re.compile(r"^(forward|backward)_(.*)$", re.DOTALL)


@dataclass(frozen=True)
class LayerGroup:
    """A layer's group: its weights in the order in which Keras reads them."""

    name: str
    weights: tuple[tuple[str, Array], ...]


@dataclass(frozen=True)
class LayeredFile:
    """What such a file holds; `config` is the model's, as parsed, where there is one."""

    version: Version
    layers: tuple[LayerGroup, ...]
    model: list[Layer] | None
    found: list[Found]
    config: Any = None


def is_layered(root: Group) -> bool:
    """Whether this is such a file, and not Keras 3's `.weights.h5`."""
    return root.names("layer_names") is not None or WHOLE_MODEL in root.groups


def read_layered(root: Group) -> LayeredFile:
    """Take such a file apart.

    Raises:
        FormatError: arrays that the file names and does not hold, or that its config does not fit.
    """
    weights = root if root.names("layer_names") is not None else root.groups[WHOLE_MODEL]
    layers = tuple(_stored_layers(weights))
    # Keras 1 wrote no version; what Keras 2 and later write has it on the group of the weights, or on the root.
    said = weights.attrs.get("keras_version", root.attrs.get("keras_version", "1"))
    version = Version(said.decode() if isinstance(said, bytes) else str(said))  # bytes in a tree that is to be written
    config = _config(root)
    model = layers_of(config) if config is not None else None
    found = _by_config(layers, model) if model is not None else _by_names(layers)
    return LayeredFile(version, layers, model, found, config)


def layered_tree(layers: Sequence[LayerGroup], version: Version) -> Group:
    """The file for `model.load_weights`. Without a version it would be taken for one of Keras 1."""
    root = Group()
    root.attrs = {
        "layer_names": tuple(layer.name for layer in layers),
        "backend": b"tensorflow",
        "keras_version": version.text.encode(),
    }
    for layer in layers:
        group = root.make(layer.name)
        group.attrs["weight_names"] = tuple(name for name, _ in layer.weights)
        for name, array in layer.weights:
            # Keras opens no bfloat16 here, and rounds float32 to it in a layer of that dtype: the same numbers.
            group.put(name, numbers(array, name) if array.dtype == BFLOAT16 else array)
    return root


def _config(root: Group) -> Any:
    text = root.attrs.get("model_config")
    if text is None:
        return None
    if isinstance(text, bytes):  # in a tree that is to be written
        text = text.decode()
    if not isinstance(text, str):
        raise FormatError(f"its model_config is {text!r}, not a text")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"its model_config cannot be read: {error}") from error


def _stored_layers(weights: Group) -> Iterator[LayerGroup]:
    names = weights.names("layer_names")
    if names is None:
        raise FormatError("its weights have no attribute layer_names, which lists the layers")
    for name in names:
        group = weights.group(name)
        if group is None:
            raise FormatError(f"layer {name!r} is listed in layer_names, and there is no such group")
        yield LayerGroup(name, tuple(_stored_weights(group, name)))


def _stored_weights(group: Group, layer: str) -> Iterator[tuple[str, Array]]:
    for name in group.names("weight_names") or ():
        array = group.array(name)
        if array is None:
            raise FormatError(f"layer {layer!r}: its array {name!r} is listed in weight_names and is not there")
        yield name, array


def _blocks(number: int, layer: LayerGroup) -> list[Block]:
    """The cells of a layer; a place is (number of the layer, number of the weight)."""
    return [
        Block(block.folder, block.arrays, {name: (number, k) for name, k in zip(block.arrays, places, strict=True)})
        for block, places in scan(layer.weights)
    ]


def _by_config(layers: Sequence[LayerGroup], model: Sequence[Layer]) -> list[Found]:
    stored = {layer.name: number for number, layer in enumerate(layers)}
    found: list[Found] = []
    for layer in model:
        units = layer.recurrents()
        if not units:
            continue
        if layer.name not in stored:
            raise FormatError(f"layer {layer.name!r} is in the model's config, and the file has no weights of it")
        number = stored[layer.name]
        found += match(units, _blocks(number, layers[number]), f"layer {layer.name!r}")
    return found


def _by_names(layers: Sequence[LayerGroup]) -> list[Found]:
    return [one for number, layer in enumerate(layers) for one in _guessed(layer.name, _blocks(number, layer))]


def _guessed(layer: str, blocks: list[Block]) -> Iterator[Found]:
    """The recurrent layers of a group, from its arrays' names alone."""
    while blocks:
        pair = blocks[:2]
        if len(pair) == 2 and _is_pair(layer, pair, alone=len(blocks) == 2):
            name = _leaf(layer, pair[0])
            yield Found(Recurrent(name, "", (Cell(""),), bidirectional=True), tuple(pair))
            del blocks[:2]
            continue
        count = _stack_length(blocks)
        name = _leaf(layer, blocks[0])
        yield Found(Recurrent(name, "", (Cell(""),) * count), tuple(blocks[:count]))
        del blocks[:count]


def _is_pair(layer: str, pair: Sequence[Block], alone: bool) -> bool:
    """Whether two cells are the directions of one Bidirectional."""
    one, other = ({name: array.shape for name, array in block.arrays.items()} for block in pair)
    if one != other:
        return False
    sides = [_side(block.folder) for block in pair]
    named = [side[0] for side in sides] == ["forward", "backward"] and sides[0][1] == sides[1][1]
    return named or (alone and "bidirectional" in layer.lower() and sides[0][0] == sides[1][0] == "")


def _side(folder: str) -> tuple[str, str]:
    """("forward", "lstm_1") of "words/forward_lstm_1/lstm_cell"."""
    parts = [part for part in folder.split("/") if not CELL_SCOPE.match(part)]
    found = SIDE.match(parts[-1]) if parts else None
    return (found[1], found[2]) if found else ("", "")


def _stack_length(blocks: Sequence[Block]) -> int:
    """How many of the cells are those of one StackedRNNCells: they share a scope, and each reads the one below."""
    scope = blocks[0].folder.partition("stacked_rnn_cells")
    count = 1
    while count < len(blocks):
        lower, upper = blocks[count - 1], blocks[count]
        same = upper.folder.partition("stacked_rnn_cells")[: 2 if scope[1] else 3] == scope[: 2 if scope[1] else 3]
        if not same or upper.is_keras1 or upper.arrays["kernel"].shape[0] != lower.units:
            break
        count += 1
    return count


def _leaf(layer: str, block: Block) -> str:
    """The name of a cell's layer, "outer/inner" in a nested model, whose group has the outer name."""
    parts, above = block.folder.split("/"), layer.split("/")
    ends = [k + len(above) for k in range(len(parts)) if parts[k : k + len(above)] == above]
    inner = [part for part in parts[max(ends, default=0) :] if part and not CELL_SCOPE.match(part)]
    inside = "/".join(part for part in inner if not SIDE.match(part))
    return layer if inside in ("", layer) else f"{layer}/{inside}"
