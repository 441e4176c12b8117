"""Keras layers in TensorFlow's checkpoints of objects, and in SavedModels: which objects are cells, by their graph.

Such a checkpoint names arrays by the way to their object, and holds the graph of objects; a SavedModel of Keras 2 has
the layers' configs beside it. Nothing of the functions in it is looked at. What the arrays mean is keras_reading's
business.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.converters.keras_blocks import BFLOAT16, MATRICES, Block, Found
from rnnbridge.converters.keras_config import check_entry
from rnnbridge.converters.keras_hdf5 import CELL_SCOPE, SIDE
from rnnbridge.converters.keras_model import Cell, Recurrent, recurrent_of
from rnnbridge.errors import FormatError
from rnnbridge.files import protobuf
from rnnbridge.files.tensor_bundle import OBJECT_GRAPH, TensorBundle

Array = NDArray[Any]
_ROOT = "root"
_SIDES = ("forward_layer", "backward_layer")
_VALUE = "VARIABLE_VALUE"
_END = f"/.ATTRIBUTES/{_VALUE}"
_METADATA = "keras_metadata.pb"


@dataclass(frozen=True)
class Node:
    """An object: name -> number of those it has, and the key and the full name of its array, if it is one."""

    children: Mapping[str, int]
    key: str = ""
    full_name: str = ""


@dataclass
class Objects:
    """The objects of a checkpoint, and what a config beside it says of them, by number."""

    bundle: TensorBundle
    nodes: list[Node]
    configs: Mapping[int, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """Key -> array of everything in the checkpoint."""
        names = self.bundle.names
        held = {name: self.bundle.array(name) for name in names}
        return {name: held[name].view(BFLOAT16) if self.bundle.is_bfloat16(name) else held[name] for name in names}

    def found(self) -> Iterator[Found]:
        """Every recurrent layer, in the order of its model."""
        seen: set[int] = set()
        waiting = [0]
        while waiting:
            number = waiting.pop()
            if number in seen or number >= len(self.nodes):
                continue
            seen.add(number)
            children = self.nodes[number].children
            blocks, both = self._blocks(number)
            if blocks:
                yield Found(self._recurrent(number, blocks, both), blocks)
                seen.update(children.values())
                seen.update(self.nodes[children[side]].children.get("cell", 0) for side in _SIDES if both)
            else:
                waiting += reversed(list(children.values()))

    def _blocks(self, number: int) -> tuple[tuple[Block, ...], bool]:
        """The cells of a layer, or those of both directions."""
        children = self.nodes[number].children
        if not set(_SIDES) <= children.keys():
            return self._cells(number), False
        forward, backward = (self._cells(children[side]) for side in _SIDES)
        return ((*forward, *backward), True) if len(forward) == len(backward) else ((), False)

    def _cells(self, number: int) -> tuple[Block, ...]:
        cell = self._child(number, "cell")
        stacked = self._child(cell, "cells")
        if stacked is not None:
            inside = self.nodes[stacked].children
            blocks = [self._block(inside[str(k)]) for k in range(len(inside)) if str(k) in inside]
        else:
            blocks = [self._block(number if cell is None else cell)]
        whole = [block for block in blocks if block is not None]
        return tuple(whole) if len(whole) == len(blocks) else ()

    def _block(self, number: int) -> Block | None:
        """An object with a kernel and a recurrent kernel of its own is a cell."""
        inside = {name: self._child(number, name) for name in (*MATRICES, "bias")}
        keys = {name: self.nodes[one].key for name, one in inside.items() if one is not None and self.nodes[one].key}
        if not set(MATRICES) <= keys.keys():
            return None
        missing = [key for key in keys.values() if key not in self.arrays]
        if missing:
            raise FormatError(f"{self.bundle.path}: {missing[0]} is in its graph of objects, and not among its arrays")
        arrays = {name: self.arrays[key] for name, key in keys.items()}
        if any(arrays[name].ndim != 2 for name in MATRICES):
            return None
        return Block(self.nodes[inside["kernel"] or 0].full_name.rpartition("/")[0], arrays, keys)

    def _child(self, number: int | None, name: str) -> int | None:
        child = None if number is None else self.nodes[number].children.get(name)
        return child if child is not None and child < len(self.nodes) else None

    def _recurrent(self, number: int, blocks: tuple[Block, ...], both: bool) -> Recurrent:
        entry = self.configs.get(number)
        name = self._name(blocks, both) if entry is None else str(entry.get("name") or entry["config"].get("name"))
        unit = recurrent_of(entry, name) if entry is not None else None
        if unit is None:
            count = len(blocks) // 2 if both else len(blocks)
            return Recurrent(name, "", (Cell(""),) * count, bidirectional=both)
        if not unit.obstacle and unit.blocks != len(blocks):
            raise FormatError(f"layer {name!r}: its config says {unit.said}, and it has {len(blocks)} cell(s)")
        return unit

    def _name(self, blocks: tuple[Block, ...], both: bool) -> str:
        """The layer's name, which a cell's variables have in theirs: "both/forward_gru/gru_cell"."""
        parts = blocks[0].folder.split("/")
        while len(parts) > 1 and CELL_SCOPE.match(parts[-1]):
            parts.pop()
        if both and len(parts) > 1 and SIDE.match(parts[-1]):
            parts.pop()
        return "/".join(parts) or str(blocks[0].places["kernel"]).removesuffix(f"/kernel{_END}")


def read_objects(path: Path) -> Objects:
    """A checkpoint of objects by its index, or a SavedModel by its saved_model.pb.

    Raises:
        FormatError: its graph of objects is damaged, or a config beside it is.
    """
    saved = path.suffix == ".pb"
    bundle = TensorBundle(path.parent / "variables" / "variables.index" if saved else path)
    graph = protobuf.parse(bundle.text(OBJECT_GRAPH), f"{bundle.path}: {OBJECT_GRAPH}")
    nodes = [_node(message) for message in graph.messages(1)]
    folder = path.parent if saved else path.parent.parent
    beside = saved or bundle.path.name == "variables.index"
    return Objects(bundle, nodes, dict(_configs(folder, nodes)) if beside and nodes else {})


def version_of(objects: Objects) -> str:
    """The version of Keras, where a config says it."""
    said = objects.configs.get(0, {}).get("keras_version")
    return said if isinstance(said, str) else ""


def _node(message: protobuf.Message) -> Node:
    children = {child.text(2): child.number(1) for child in message.messages(1)}
    for attribute in message.messages(2):
        if attribute.text(1) == _VALUE:
            return Node(children, attribute.text(3), attribute.text(2))
    return Node(children)


def _configs(folder: Path, nodes: list[Node]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number -> the entry that describes an object, of those that are layers of Keras."""
    for way, text in _described(folder):
        number: int | None = 0
        for name in way:
            number = nodes[number].children.get(name) if number is not None and number < len(nodes) else None
        if number is None or number >= len(nodes):
            continue
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{folder}: the config of {'.'.join(way) or _ROOT} cannot be read: {error}") from error
        if isinstance(entry, dict) and isinstance(entry.get("config"), dict):
            check_entry(entry, ".".join(way) or _ROOT)
            yield number, entry


def _described(folder: Path) -> Iterator[tuple[list[str], str]]:
    """(way from the root, config as JSON): in a file of its own since TensorFlow 2.5, before in saved_model.pb."""
    own, saved = folder / _METADATA, folder / "saved_model.pb"
    if own.is_file():
        for one in protobuf.parse(own.read_bytes(), str(own)).messages(1):
            yield one.text(3).split(".")[1:], one.text(5)
    elif saved.is_file():
        for meta in protobuf.parse(saved.read_bytes(), str(saved)).messages(2):
            yield from _in_objects(list(meta.message(7).messages(1)))


def _in_objects(objects: list[protobuf.Message]) -> Iterator[tuple[list[str], str]]:
    ways: dict[int, list[str]] = {0: []}
    waiting = [0]
    while waiting:
        number = waiting.pop(0)
        if number >= len(objects):
            continue
        for child in objects[number].messages(1):
            if child.number(1) not in ways:
                ways[child.number(1)] = [*ways[number], child.text(2)]
                waiting.append(child.number(1))
        if text := objects[number].message(4).text(3):
            yield ways[number], text


def others(objects: Objects, used: set[str]) -> dict[str, Array]:
    """The arrays that belong to no layer that was read."""
    return {key.removesuffix(_END): np.asarray(array) for key, array in objects.arrays.items() if key not in used}
