"""The shape of a Keras model as its config tells it: layers, the recurrent ones among them, and where their arrays go.

A config is data: no class named in it is imported and nothing in it is run. Knows no container and no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rnnbridge.converters.keras_config import Config, check_cells, check_entry, is_keras_own, settings_of
from rnnbridge.errors import FormatError

LAYERS = ("LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU")
_RECURRENT = (*LAYERS, "RNN", "Bidirectional")
_CELLS = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "SimpleRNN"}
_SINCE_KERAS_3 = {"CuDNNLSTM": "LSTM", "CuDNNGRU": "GRU", "Model": "Functional"}
TURNED_ROUND = "the layer in it has go_backwards=True, so that both directions come out turned round"
_MAX_DEPTH = 32


@dataclass(frozen=True)
class Cell:
    """One cell: its kind (one of `LAYERS`) and what the config says of it."""

    kind: str
    config: Config = field(default_factory=dict)


@dataclass(frozen=True)
class Recurrent:
    """One recurrent layer object.

    Args:
        name: "outer/inner", of the layers on the way from the top.
        said: its class as people say it, "Bidirectional(LSTM)".
        cells: one, or those of a StackedRNNCells.
        bidirectional: then every cell occurs twice, the forward ones first.
        config: of the layer that runs the cells (go_backwards, time_major ...); of a Bidirectional the forward one.
        merge: the merge mode as the config says it; "" where nothing does.
        trainable: a frozen layer's arrays come after the others in an HDF5 group.
        obstacle: why it is not converted, "" if it can be.
    """

    name: str
    said: str
    cells: tuple[Cell, ...]
    bidirectional: bool = False
    config: Config = field(default_factory=dict)
    merge: str | None = ""
    trainable: bool = True
    obstacle: str = ""

    @property
    def blocks(self) -> int:
        """How many cells' arrays it has."""
        return len(self.cells) * (2 if self.bidirectional else 1)


@dataclass(frozen=True)
class Layer:
    """A layer of a model.

    Args:
        name: "outer/inner".
        kind: its class.
        place: its path in a Keras 3 file, "layers/sequential/layers/lstm_1".
        children: the layers in a nested model or wrapper.
        recurrent: what it is, where it is a recurrent layer.
    """

    name: str
    kind: str
    place: str
    config: Config
    children: tuple[Layer, ...] = ()
    recurrent: Recurrent | None = None

    def walk(self) -> Iterator[Layer]:
        """This layer and all below, in model order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def recurrents(self) -> list[Recurrent]:
        """The recurrent layers in it, in model order."""
        return [layer.recurrent for layer in self.walk() if layer.recurrent is not None]


def snake_case(name: str) -> str:
    """What Keras 3 calls the group of a class: "SimpleRNN" is "simple_rnn"."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def unique(name: str, used: dict[str, int]) -> str:
    """Number repeated names as Keras does: lstm, lstm_1, lstm_2 ..."""
    count = used.get(name, 0)
    used[name] = count + 1
    return f"{name}_{count}" if count else name


def layers_of(model: Any) -> list[Layer]:
    """The layers of a model, in its order.

    Args:
        model: {"class_name": ..., "config": ...}, parsed.

    Raises:
        FormatError: it is no such thing.
    """
    config = model.get("config") if isinstance(model, dict) else None
    entries = _entries(config)
    if entries is None:
        raise FormatError("the model's config lists no layers: neither a Sequential nor a functional model")
    try:
        return _layers(entries, "", "", 0)
    except RecursionError:
        raise FormatError("the model's config nests too deep") from None


def _entries(config: Any) -> list[dict[str, Any]] | None:
    """The layers of a container's config: old Sequential models are a bare list."""
    found = config.get("layers") if isinstance(config, dict) else config
    if isinstance(found, list) and all(isinstance(one, dict) and "class_name" in one for one in found):
        return found
    return None


def _layers(entries: list[dict[str, Any]], prefix: str, place: str, depth: int) -> list[Layer]:
    used: dict[str, int] = {}
    found = []
    for number, entry in enumerate(entries):
        check_entry(entry, f"{prefix}#{number}")
        kind = entry["class_name"]
        group = unique(snake_case(_SINCE_KERAS_3.get(kind, kind)), used)
        found.append(_layer(entry, prefix, f"{place}layers/{group}", depth))
    return found


def _layer(entry: dict[str, Any], prefix: str, place: str, depth: int) -> Layer:
    if depth > _MAX_DEPTH:
        raise FormatError("the model's config nests too deep")
    kind, config = entry["class_name"], entry.get("config")
    settings = config if isinstance(config, dict) else {}
    check_entry({**settings, "class_name": kind}, prefix + kind)
    name = prefix + (entry.get("name") or settings.get("name") or snake_case(kind))
    children: list[Layer] = []
    recurrent = recurrent_of(entry, name)
    if recurrent is None and (inside := _entries(config)) is not None:
        children = _layers(inside, f"{name}/", f"{place}/", depth + 1)
    elif recurrent is None and isinstance(wrapped := settings.get("layer"), dict) and "class_name" in wrapped:
        check_entry(wrapped, name)
        children = [_layer(wrapped, f"{name}/", f"{place}/layer", depth + 1)]
    return Layer(name, kind, place, settings, tuple(children), recurrent)


def recurrent_of(entry: dict[str, Any], name: str) -> Recurrent | None:
    """What a config's entry is as a recurrent layer; None if it is none."""
    kind, config = entry["class_name"], entry.get("config")
    own = kind in _RECURRENT and is_keras_own(entry)
    if own:
        config = settings_of(entry, name)
    if not isinstance(config, dict):
        return None
    if kind == "Bidirectional" and own:
        return _bidirectional(config, name)
    cells, obstacle = _cells(entry, config, name)
    if not cells and not obstacle:
        return None
    inside = f"({'+'.join(cell.kind for cell in cells)} cells)" if kind == "RNN" and cells else ""
    trainable = bool(config.get("trainable", True))
    return Recurrent(name, kind + inside, cells, config=config, trainable=trainable, obstacle=obstacle)


def _bidirectional(config: Config, name: str) -> Recurrent | None:
    inner, backward = config.get("layer"), config.get("backward_layer")
    if not isinstance(inner, dict):
        raise FormatError(f"layer {name!r}: a Bidirectional whose config has no layer in it")
    check_entry(inner, name)
    one = recurrent_of(inner, name)
    if one is None:
        return Recurrent(name, f"Bidirectional({inner['class_name']})", (), obstacle="it wraps no layer of Keras's own")
    obstacle = one.obstacle
    if len(one.cells) > 1:
        obstacle = "its two directions are stacks of their own, which do not join between the cells"
    elif one.config.get("go_backwards"):
        obstacle = TURNED_ROUND
    elif not obstacle and backward is not None and (differing := _differing(inner, backward, name)):
        obstacle = f"its backward layer is another than the forward one: {', '.join(differing)} differ"
    return Recurrent(
        name, f"Bidirectional({one.said})", one.cells, True, one.config,
        config.get("merge_mode", "concat"), bool(config.get("trainable", True)), obstacle,
    )  # fmt: skip


def _differing(inner: dict[str, Any], backward: dict[str, Any], name: str) -> list[str]:
    one, other = settings_of(inner, name), settings_of(backward, name)
    keys = ("units", "activation", "recurrent_activation", "use_bias", "reset_after")
    changed = [key for key in keys if one.get(key) != other.get(key)]
    return changed + ["class"] * (inner.get("class_name") != backward.get("class_name"))


def _cells(entry: dict[str, Any], config: Config, name: str) -> tuple[tuple[Cell, ...], str]:
    """The cells of a layer, and why it cannot be converted."""
    kind = entry["class_name"]
    if kind in _RECURRENT and not is_keras_own(entry):
        return (), f"it is a class of {entry['module']}, not Keras's own"
    if kind in LAYERS:
        return (Cell(kind, config),), ""
    if kind == "RNN":
        cell = config.get("cell")
        if cell is None:
            raise FormatError(f"layer {name!r}: a RNN whose config has no cell in it")
        found = [_cell(part, name) for part in _parts(cell, name)]
        if found and all(one is not None for one in found):
            return tuple(one for one in found if one is not None), ""
        return (), f"its cell {cell.get('class_name')} is none of {', '.join(_CELLS)}"
    if re.search(r"RNN|LSTM|GRU", kind) or "cell" in config:
        return (), f"{kind} is none of {', '.join(_RECURRENT)}"
    return (), ""


def _parts(cell: dict[str, Any], name: str) -> list[Any]:
    """The cells in a cell: those of a StackedRNNCells, or itself."""
    check_entry(cell, name)
    cells = settings_of(cell, name).get("cells", []) if cell["class_name"] == "StackedRNNCells" else [cell]
    check_cells(cells, name)
    return list(cells)


def _cell(part: dict[str, Any], name: str) -> Cell | None:
    check_entry(part, name)
    if part["class_name"] not in _CELLS or not is_keras_own(part):
        return None
    return Cell(_CELLS[part["class_name"]], settings_of(part, name))
