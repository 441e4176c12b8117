"""rnnbridge's own plain format: canonical arrays in a `.npz`, their specs in JSON, and a sample that proves them.

The member `rnnbridge.json` describes the layers. Layer number k has the arrays `k/weight_ih_l0` ... and its sample, an
input and what the layer makes of it: `k/check/x`, `h0`, `c0`, `lengths`, `y`, `h`, `c`. `numpy.load` opens the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.catalogue import Format, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.converters import npz_rows
from rnnbridge.converters.npz_sample import check_sample, sample_of
from rnnbridge.errors import FormatError, LayoutError, SpecError
from rnnbridge.files.narrow import narrowed, widened
from rnnbridge.files.zip import member_names, npy_bytes, read_members, read_npy, write_members
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Assumption, Bundle, Origin, RNNWeights, describe

Array = NDArray[Any]
_INDEX, _VERSION = "rnnbridge.json", 1
_NOTE = (
    "arrays k/NAME belong to layer number k, counted from 0; bfloat16 numbers are stored as the uint16 of their bits"
)
_STORED = {"float64": "float64", "float32": "float32", "float16": "float16", "bfloat16": "uint16"}


@dataclass(frozen=True)
class _Entry:
    """What the index says of one layer."""

    name: str
    row: str
    stored: str
    spec: RNNSpec
    origin: Origin


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file is one of ours, or another `.npz`, which `read` refuses by name."""
    names = member_names(path, head)
    return _INDEX in names or (bool(names) and all(name.endswith(".npy") for name in names))


def read(path: Path, settings: Settings) -> Bundle:
    """Read every layer and run its sample, unless the setting self_check is false."""
    members = read_members(path)
    entries = list(_entries(path, members))
    if len({entry.name for entry in entries}) < len(entries):
        raise FormatError(f"{path}: damaged {_INDEX}: two layers of one name")
    self_check = settings.flag("self_check") is not False
    layers = {
        entry.name: _weights(f"{path}: layer {entry.name!r}", entry, number, members, self_check)
        for number, entry in enumerate(entries)
    }
    return Bundle(layers, format="npz", path=path)


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write every layer as it is, each with its sample."""
    entries: list[_Entry] = []
    arrays: dict[str, Array] = {}
    layers = []
    for number, (name, weights) in enumerate(bundle.layers.items()):
        plan = rewrite.plan(weights, npz_rows.CONVENTIONS)
        stored, own = narrowed(plan.row.write(weights.arrays, weights.spec), weights.origin.storage_dtype)
        arrays |= {f"{number}/{key}": array for key, array in own.items()}
        arrays |= {f"{number}/check/{key}": array for key, array in sample_of(weights).items()}
        order = weights.origin.order(options.batch_first)
        entries.append(_Entry(name, plan.row.name, stored, weights.spec, replace(weights.origin, batch_first=order)))
        layers.append(WrittenLayer(name, name, plan, f"rb.layer(rb.load({path.name!r})[{name!r}])"))
    write_members(path, {_INDEX: _index(entries), **{f"{key}.npy": npy_bytes(array) for key, array in arrays.items()}})
    return Written(tuple(layers), not_converted=tuple(bundle.tensors))


FORMATS = (
    Format(
        name="npz",
        framework="npz",
        suffixes=(".npz",),
        reads="rnnbridge's own files, each proven by the sample in it",
        writes="canonical arrays, specs in JSON, and a sample; every layer as it is",
        sniff=sniff,
        read=read,
        write=write,
        fallback=True,
    ),
)


def _index(entries: list[_Entry]) -> bytes:
    layers = [
        {
            "name": entry.name,
            "row": entry.row,
            "stored": entry.stored,
            "spec": entry.spec.to_dict(),
            "origin": asdict(entry.origin),
        }
        for entry in entries
    ]
    content = {"format": "rnnbridge", "version": _VERSION, "note": _NOTE, "layers": layers}
    return (json.dumps(content, indent=1) + "\n").encode("utf-8")


def _entries(path: Path, members: Mapping[str, bytes]) -> Iterator[_Entry]:
    if _INDEX not in members:
        raise FormatError(
            f"{path}: a .npz file, but none of rnnbridge's: it has no {_INDEX}. To read bare arrays give their layout: "
            "RNNWeights(spec, row.read(dict(numpy.load(path)), spec)) with a Convention of your own as row"
        )
    try:
        content = json.loads(members[_INDEX].decode("utf-8"))
        if content["version"] != _VERSION:
            raise FormatError(f"{path}: written as version {content['version']!r}; version {_VERSION} is read")
        for layer in content["layers"]:
            spec = RNNSpec.from_dict(layer["spec"])
            if spec.num_layers > len(members):
                raise FormatError(f"{path}: {spec.num_layers} layers cannot be in {len(members)} arrays")
            name, row, stored = (str(layer[key]) for key in ("name", "row", "stored"))
            yield _Entry(name, row, stored, spec, _origin(layer["origin"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: damaged {_INDEX}: {error}") from error


def _origin(plain: Mapping[str, Any]) -> Origin:
    values = {field.name: plain[field.name] for field in fields(Origin)}
    texts = ("framework", "convention", "name", "version", "padding", "storage_dtype")
    lists = {"evidence": tuple(map(str, values["evidence"]))}
    assumptions = tuple(Assumption(**{key: str(text) for key, text in one.items()}) for one in values["assumptions"])
    if values["batch_first"] not in (None, True, False) or not all(isinstance(values[key], str) for key in texts):
        raise SpecError("the origin's values are not texts")
    return Origin(**{**values, **lists, "assumptions": assumptions})


def _weights(where: str, entry: _Entry, number: int, members: Mapping[str, bytes], self_check: bool) -> RNNWeights:
    row = next((row for row in npz_rows.CONVENTIONS if row.name == entry.row), None)
    if row is None or row.cell != entry.spec.cell or entry.stored not in _STORED:
        raise FormatError(f"{where}: row {entry.row!r} with {entry.stored!r} numbers is none of this version's")
    own = _arrays(where, f"{number}/", members)
    sample = {key.removeprefix("check/"): own.pop(key) for key in list(own) if key.startswith("check/")}
    if odd := [f"{key} is {array.dtype}" for key, array in own.items() if array.dtype != _STORED[entry.stored]]:
        raise FormatError(f"{where}: {', '.join(odd)}; they should be {_STORED[entry.stored]}")
    if extra := sorted(own.keys() - entry.spec.weight_shapes().keys()):
        raise FormatError(f"{where}: {', '.join(extra)} belong to no {describe(entry.spec)}")
    narrow = entry.stored if entry.stored in ("float16", "bfloat16") else ""
    try:
        canonical = row.read({key: widened(array, entry.stored) for key, array in own.items()}, entry.spec)
        weights = RNNWeights(entry.spec, canonical, replace(entry.origin, storage_dtype=narrow))
    except LayoutError as error:
        raise FormatError(f"{where}: {error}") from error
    if self_check:
        check_sample(weights, sample, where)
    return weights


def _arrays(where: str, prefix: str, members: Mapping[str, bytes]) -> dict[str, Array]:
    return {
        name[len(prefix) : -len(".npy")]: read_npy(content, f"{where}: {name}")
        for name, content in members.items()
        if name.startswith(prefix) and name.endswith(".npy")
    }
