"""What a converter offers, and how converters are found: every module of `rnnbridge.converters` is imported and asked.

A converter module defines some of `CONVENTIONS` (rows), `FORMATS` (files) and `LIVE` (objects in memory).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from rnnbridge.convention import Convention
from rnnbridge.errors import ArgumentError
from rnnbridge.rewrite import Plan
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]
Named = TypeVar("Named", "Format", Convention, "Live")


class Settings:
    """What the user says that a file does not: `--set key=value`, or `--set layer.key=value` for one layer.

    A setting that nobody asked for is an error, so that a misspelt one is never ignored.
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = {key: str(value) for key, value in (given or {}).items()}
        self._asked: dict[str, None] = {}

    @classmethod
    def of(cls, given: Mapping[str, str] | Settings | None) -> Settings:
        """Settings as they are: one set may serve a reader and a writer and be checked after both."""
        return given if isinstance(given, Settings) else cls(given)

    def get(self, key: str, layer: str = "") -> str | None:
        """The value set for a layer, else for all layers, else None."""
        self._asked[key] = None
        specific = f"{layer}.{key}"
        if layer and specific in self._given:
            self._asked[specific] = None
            return self._given[specific]
        return self._given.get(key)

    def flag(self, key: str, layer: str = "") -> bool | None:
        """The same for a truth value, spelt true or false."""
        value = self.get(key, layer)
        if value is None or value.lower() in ("true", "false"):
            return None if value is None else value.lower() == "true"
        raise ArgumentError(f"setting {key}={value!r}; it is true or false")

    def check_all_used(self) -> None:
        """Raise ArgumentError for settings that nothing asked for, with those that were."""
        unused = [key for key in self._given if key not in self._asked]
        if unused:
            raise ArgumentError(
                f"nothing here takes the setting {', '.join(map(repr, unused))}; "
                f"what can be set: {', '.join(self._asked) or 'nothing'}, each also as LAYER.KEY"
            )


@dataclass(frozen=True)
class WriteOptions:
    """How to write. `batch_first` None keeps the source's order; `suffix` is the target's, e.g. ".weights.h5"."""

    batch_first: bool | None = None
    suffix: str = ""
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class WrittenLayer:
    """One layer that was written.

    Args:
        source: its name in the bundle.
        target: the name that reading the file gives it.
        plan: the rewrites it took.
        constructor: the line that makes the framework's layer for these weights.
        settings: what must be set to read it back, because the format cannot say it.
    """

    source: str
    target: str
    plan: Plan = field(repr=False)
    constructor: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CarriedLayer:
    """One layer of a model that was carried whole.

    Args:
        name: "outer/inner", of the layers on the way from the top.
        kind, became: its class in the source and in the target.
        changes: what was changed in it and on what evidence, one sentence each; none, it is kept as it was.
    """

    name: str
    kind: str
    became: str
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        renamed = f" -> {self.became}" if self.became != self.kind else ""
        return f"{self.name} ({self.kind}{renamed}): {'; '.join(self.changes) or 'kept'}"


@dataclass(frozen=True)
class Written:
    """What a writer did, and what it had to leave out; `model` is every layer of a model that it carried whole."""

    layers: tuple[WrittenLayer, ...]
    not_converted: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    model: tuple[CarriedLayer, ...] = ()


@dataclass(frozen=True)
class JudgeTask:
    """A layer of a file to be run by the framework itself, from the file, not from what rnnbridge read.

    Args:
        path, layer, settings: the file, the layer's name in it, and what was set to read it.
        weights: the layer as rnnbridge read it; a judge uses its spec and origin, and its numbers only where said so.
        x: [T, N, I]. h0: [L*D, N, H or P]. c0: [L*D, N, H], None unless an LSTM. lengths: [N], None for T everywhere.
    """

    path: Path
    layer: str
    settings: Settings
    weights: RNNWeights
    x: Array
    h0: Array
    c0: Array | None
    lengths: Array | None


@dataclass(frozen=True)
class Judge:
    """A framework that can run a file's layer.

    Args:
        name: as shown, e.g. "ONNX Runtime".
        module: what must be importable, e.g. "onnxruntime".
        run: gives {"y": [T, N, .], "h": [L*D, N, .], "c": ...} in canonical shapes; Incompatible where it cannot.
    """

    name: str
    module: str
    run: Callable[[JudgeTask], dict[str, Array]]


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Args:
        name: what `format=` and `--to` take.
        framework: whose rows it uses.
        suffixes: longest first, e.g. (".weights.h5", ".h5").
        reads, writes: in words, for `rnnbridge formats`.
        sniff: whether a file is one of these, from its path and its first 512 bytes.
        read: raises FormatError for anything that is not as it should be.
        write: writes to the path given and nowhere else; None if it only reads. The same input gives the same bytes.
        judges: frameworks that can run such a file.
        extra: the extra of the package that it needs, "" if none.
        rows: how it lays out what it writes; none given, all rows of its framework.
        fallback: it also sniffs files that may be another format's, and is asked after all others.
    """

    name: str
    framework: str
    suffixes: tuple[str, ...]
    reads: str
    writes: str
    sniff: Callable[[Path, bytes], bool]
    read: Callable[[Path, Settings], Bundle]
    write: Callable[[Bundle, Path, WriteOptions], Written] | None = None
    judges: tuple[Judge, ...] = ()
    extra: str = ""
    rows: tuple[Convention, ...] = ()
    fallback: bool = False


@dataclass(frozen=True)
class Live:
    """A framework's objects in memory.

    Args:
        name: the framework.
        recognises: whether an object is one of its recurrent layers; imports nothing.
        read: the object's weights.
        write: a new object, or `into` filled; `batch_first` None keeps the source's order.
    """

    name: str
    recognises: Callable[[Any], bool]
    read: Callable[[Any], RNNWeights]
    write: Callable[[RNNWeights, Any, bool | None], Any]


@dataclass(frozen=True)
class Catalogue:
    """Everything that the converters offer, by name."""

    rows: Mapping[str, Convention]
    formats: Mapping[str, Format]
    live: Mapping[str, Live]

    def rows_of(self, framework: str) -> list[Convention]:
        """The rows of one framework."""
        return [row for row in self.rows.values() if row.framework == framework]


@cache
def catalogue() -> Catalogue:
    """Import every converter and collect what it offers. Two of one name are an error."""
    package = importlib.import_module("rnnbridge.converters")
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"rnnbridge.converters.{name}") for name in names]
    return Catalogue(
        rows=_by_name(row for module in modules for row in getattr(module, "CONVENTIONS", ())),
        formats=_by_name(one for module in modules for one in getattr(module, "FORMATS", ())),
        live=_by_name(module.LIVE for module in modules if hasattr(module, "LIVE")),
    )


def _by_name(items: Iterable[Named]) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for item in items:
        if found.get(item.name, item) is not item:
            raise RuntimeError(f"two converters define {item.name!r}")
        found[item.name] = item
    return found
