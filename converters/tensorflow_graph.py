"""TensorFlow's graphs as nodes and their constants, from `.pb`, `.meta` and saved_model.pb. Knows no recurrent cell.

The messages are those of tensorflow/core/framework/{graph,node_def,attr_value,tensor}.proto and
core/protobuf/{meta_graph,saved_model}.proto. Nothing in a graph is run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError
from rnnbridge.files import protobuf
from rnnbridge.files.protobuf import Message

Array = NDArray[Any]
# What hands a variable's numbers on as they are.
_PASSING = ("Identity", "Enter", "ReadVariableOp", "RefEnter", "StopGradient", "Switch", "RefSwitch", "ConcatV2")
_VARIABLES = ("VariableV2", "Variable", "VarHandleOp", "Const")
_PART = re.compile(r"/part_\d+$")
# DataType -> how tensor_content stores it, and the field and kind of a list of numbers.
_KINDS = {1: ("<f4", 5), 2: ("<f8", 6), 19: ("<f2", 13), 14: ("<u2", 13)}
_MOST = 64  # a constant may say one number for all, but not for so many times more than the file has bytes


@dataclass(frozen=True)
class Node:
    """One operation; `inputs` are (node, output), those that only say what runs first left out."""

    name: str
    op: str
    inputs: tuple[tuple[str, int], ...]
    attributes: dict[str, Message]

    def number(self, key: str) -> int | None:
        """A whole number among its attributes."""
        return self.attributes[key].signed(3) if key in self.attributes else None

    def real(self, key: str, default: float) -> float:
        """A number among its attributes; what is left out has the operation's default."""
        return self.attributes[key].real(4) if key in self.attributes else default


@dataclass(frozen=True)
class Graph:
    """The nodes of a graph by name. `size` is that of its file, which bounds its constants."""

    nodes: dict[str, Node]
    size: int
    where: str

    @cached_property
    def readers(self) -> dict[tuple[str, int], list[Node]]:
        """(node, output) -> the nodes that read it."""
        found: dict[tuple[str, int], list[Node]] = {}
        for node in self.nodes.values():
            for one in node.inputs:
                found.setdefault(one, []).append(node)
        return found

    def behind(self, node: Node, place: int) -> Node | None:
        """The node that gives an input."""
        return self.nodes.get(node.inputs[place][0]) if place < len(node.inputs) else None

    def variable(self, node: Node, place: int) -> str:
        """The variable, or constant of a frozen graph, that an input is; "" if it is none."""
        found = self.behind(node, place)
        for _ in range(len(self.nodes)):
            if found is None or found.op in _VARIABLES:
                return _PART.sub("", found.name) if found is not None else ""
            if found.op not in _PASSING:
                break
            found = self.behind(found, 0)
        return ""

    def scalar(self, node: Node | None) -> float | None:
        """The number that a node is, if it is a constant of one."""
        if node is None or node.op != "Const":
            return None
        array = self.constant(node)
        return float(array) if array is not None and array.ndim == 0 else None

    def constant(self, node: Node) -> Array | None:
        """A constant of floating point, bfloat16 as its bits in uint16; None for one of other kinds.

        Raises:
            FormatError: its numbers do not fill its shape.
        """
        tensor = node.attributes["value"].message(8) if "value" in node.attributes else None
        if tensor is None or tensor.number(1) not in _KINDS:
            return None
        dtype, field = _KINDS[tensor.number(1)]
        shape = tuple(dim.signed(1) for dim in tensor.message(2).messages(2))
        content = bytes(tensor.raw(4))
        flat = np.frombuffer(content[: len(content) - len(content) % np.dtype(dtype).itemsize], dtype)
        flat = flat if content else _listed(tensor, dtype, field)
        count = math.prod(shape) if min(shape, default=0) >= 0 else -1
        if 0 < flat.size < count <= _MOST * self.size and not content:
            flat = np.concatenate([flat, np.broadcast_to(flat[-1], count - flat.size)])  # the last is for all others
        if flat.size != count or len(shape) > 32:
            raise FormatError(f"{self.where}: {node.name}: {flat.size} numbers for {list(shape)[:9]} (damaged)")
        return flat.reshape(shape)

    def is_bfloat16(self, node: Node) -> bool:
        """Whether a constant's numbers are bfloat16."""
        return node.attributes["value"].message(8).number(1) == 14


def read_frozen(path: Path) -> Graph:
    """A GraphDef. Raises FormatError for what is none."""
    content = path.read_bytes()
    return _graph([protobuf.parse(content, str(path))], len(content), str(path))


def read_meta(path: Path) -> Graph:
    """The graph of a MetaGraphDef, as Saver writes it beside a checkpoint."""
    content = path.read_bytes()
    return _graph([protobuf.parse(content, str(path)).message(2)], len(content), str(path))


def read_saved_model(path: Path) -> Graph:
    """The graphs of a saved_model.pb, as one."""
    content = path.read_bytes()
    metas = protobuf.parse(content, str(path)).messages(2)
    return _graph([meta.message(2) for meta in metas], len(content), str(path))


def looks_frozen(head: bytes) -> bool:
    """Whether bytes begin as a GraphDef does: a node, which begins with a name and an operation."""
    try:
        view = memoryview(head)
        tag, place = protobuf.varint(view, 0, "")
        _, place = protobuf.varint(view, place, "")
        own, place = protobuf.varint(view, place, "")
        size, place = protobuf.varint(view, place, "")
    except FormatError:
        return False
    name, rest = head[place : place + size], head[place + size :]
    printable = name.isascii() and name.decode().isprintable()
    return tag == own == 10 and 0 < size < 256 and printable and rest[:1] == b"\x12"


def looks_saved(head: bytes) -> bool:
    """Whether bytes begin as a SavedModel of schema 1 does, with a graph in it."""
    return head[:3] == b"\x08\x01\x12"


def _graph(messages: list[Message], size: int, where: str) -> Graph:
    nodes: dict[str, Node] = {}
    for message in messages:
        for node in _nodes(message):
            nodes.setdefault(node.name, node)
    return Graph(nodes, size, where)


def _nodes(message: Message) -> Iterator[Node]:
    for node in message.messages(1):
        attributes = {entry.text(1): entry.message(2) for entry in node.messages(5)}
        inputs = tuple(_output(one) for one in node.texts(3) if not one.startswith("^"))
        yield Node(node.text(1), node.text(2), inputs, attributes)


def _output(text: str) -> tuple[str, int]:
    name, _, place = text.partition(":")
    return name, int(place) if place.isascii() and place.isdigit() and len(place) < 9 else 0


def _listed(tensor: Message, dtype: str, field: int) -> Array:
    """Numbers that stand one by one: packed, or each in a field of its own; half precision as whole numbers."""
    if field == 13:
        return np.array([one & 0xFFFF for one in tensor.listed(field)], np.uint16).view(dtype)
    item = np.dtype(dtype).itemsize
    packed = b"".join(bytes(one)[: len(one) - len(one) % item] for one in tensor.chunks.get(field, []))
    single = b"".join(one.to_bytes(8, "little")[:item] for one in tensor.numbers.get(field, []))
    return np.frombuffer(packed + single, dtype)
